// Counters and device samples as areas: a value holds until the next. Between many values, each pixel shows the least
// and the most.

import type { CounterLevels } from './counter_levels';
import type { Palette } from './palette';
import type { Grid } from './strip';

/** `top` and `height` in device pixels. */
export function paintCounter(
  context: CanvasRenderingContext2D,
  levels: CounterLevels,
  grid: Grid,
  top: number,
  height: number,
  palette: Palette,
  flag = false,
): void {
  const range = levels.most - levels.least;
  if (levels.count === 0 || range <= 0) {
    if (levels.count > 0) line(context, grid, levels, top + height - 1, palette);
    return;
  }
  const y = (value: number) => top + height - ((value - levels.least) / range) * (height - 2);
  const first = Math.max(0, Math.floor((levels.time[0] - grid.start) / grid.ns_per_px));
  const stop = Math.min(grid.width, Math.ceil((levels.time[levels.count - 1] - grid.start) / grid.ns_per_px) + 1);
  if (first >= stop) return;
  const least = new Float64Array(stop - first);
  const most = new Float64Array(stop - first);
  let from = levels.before(grid.start + first * grid.ns_per_px, 0);
  for (let px = first; px < stop; px++) {
    const to = levels.before(grid.start + (px + 1) * grid.ns_per_px, from);
    [least[px - first], most[px - first]] = levels.range(Math.max(0, from - 1), to);
    from = to;
  }
  const floor = y(Math.max(0, levels.least));
  context.fillStyle = context.strokeStyle = palette.accent;
  context.globalAlpha = flag ? 1 : 0.2;
  context.fill(steps(most, first, y, floor));
  context.fill(steps(least, first, y, floor));
  context.globalAlpha = 1;
  context.lineWidth = Math.max(1, Math.round(height / 40));
  context.stroke(steps(most, first, y));
}

/** A line of steps through `values`; closed at `floor` where one is given. */
function steps(values: Float64Array, first: number, y: (value: number) => number, floor?: number): Path2D {
  const path = new Path2D();
  path.moveTo(first, floor ?? y(values[0]));
  for (let i = 0; i < values.length; i++) {
    if (i > 0 && values[i] === values[i - 1] && i + 1 < values.length) continue;
    if (i > 0) path.lineTo(first + i, y(values[i - 1]));
    path.lineTo(first + i, y(values[i]));
  }
  if (floor !== undefined) path.lineTo(first + values.length, floor);
  return path;
}

function line(context: CanvasRenderingContext2D, grid: Grid, levels: CounterLevels, y: number, palette: Palette): void {
  const first = Math.max(0, (levels.time[0] - grid.start) / grid.ns_per_px);
  context.fillStyle = palette.accent;
  context.fillRect(first, y, Math.max(0, (levels.time[levels.count - 1] - grid.start) / grid.ns_per_px - first), 1);
}
