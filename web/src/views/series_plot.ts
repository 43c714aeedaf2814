// Quantities over time, on the timeline's axis: uPlot in the page's colours, cursors of all plots in step.

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { button, element } from './dom';
import { brief, duration } from './quantity';
import { instants, kTimeSteps } from '../timeline/time_text';
import { colour, onTheme } from './theme';
import type { Numbers } from '../page_data';
import type { Context } from './view';

export interface Line {
  title: string;
  values: ArrayLike<number | null>;
  /** Name of a colour of the style sheet. */
  colour: string;
  /** Holds until the next value, as allocations do. */
  stepped?: boolean;
  filled?: boolean;
  dashed?: boolean;
}

export interface PlotOptions {
  label: string;
  span_ns: number;
  time: Numbers | number[];
  lines: Line[];
  height: number;
  /** How values read, on the axis and at the cursor. */
  text(value: number): string;
  /** Marks of the axis at powers of two. */
  binary?: boolean;
  /** An instant with a line through it. */
  marked_ns?: number;
  /** Values end here at least: 100 for percentages. */
  most?: number;
  /** Draws in place of lines; lane i is the band from i to i + 1. */
  lanes?: string[];
}

export interface SeriesPlot {
  root: HTMLElement;
  /** The stretch in view, after dragging over a part of it. */
  stretch(): { start_ns: number; end_ns: number };
  dispose(): void;
}

const kSync = 'time';
const kAxisWidth = 110;   // the longest name of a lane

function axes(options: PlotOptions): uPlot.Axis[] {
  const shared = {
    stroke: () => colour('quiet'), font: '11px system-ui, sans-serif',
    grid: { stroke: () => colour('line'), width: 1 }, ticks: { stroke: () => colour('line'), width: 1, size: 4 },
  };
  return [
    { ...shared, size: 26, space: 90, incrs: kTimeSteps, values: (_u, marks) => instants(marks) },
    options.lanes
      ? { ...shared, size: kAxisWidth, grid: { show: false }, splits: () => options.lanes!.map((_, i) => i + 0.5), values: () => options.lanes! }
      : { ...shared, size: kAxisWidth, space: 32, ...(options.binary ? { incrs: kByteSteps } : {}), values: (_u, marks) => marks.map((mark) => brief(options.text(mark))) },
  ];
}

const kByteSteps = Array.from({ length: 50 }, (_, power) => 2 ** power);

function series(options: PlotOptions): uPlot.Series[] {
  return [
    { label: 'at', value: (_u, ns) => (ns === null ? '–' : duration(ns, 6)) },
    ...options.lines.map((line): uPlot.Series => ({
      label: line.title,
      stroke: () => colour(line.colour),
      fill: line.filled ? () => `color-mix(in srgb, ${colour(line.colour)} 18%, transparent)` : undefined,
      paths: options.lanes ? () => null : line.stepped ? uPlot.paths.stepped!({ align: 1 }) : undefined,
      width: 1.5, dash: line.dashed ? [5, 4] : undefined, points: { show: false },
      value: (_u: uPlot, value: number | null) => (value === null || value === undefined ? '–' : options.text(value)),
    })),
  ];
}

// A lane is filled from each value above 0 to the next value.
function drawLane(plot: uPlot, lane: number): void {
  if (lane === 0) return;
  const { ctx } = plot;
  const times = plot.data[0];
  const values = plot.data[lane]!;
  const place = plot.series.length - 1 - lane;
  const top = plot.valToPos(place + 0.85, 'y', true);
  const tall = plot.valToPos(place + 0.15, 'y', true) - top;
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  ctx.fillStyle = (plot.series[lane]!.stroke as () => string)();
  for (let i = 0; i < times.length; i++) {
    if (!values[i]) continue;
    const left = plot.valToPos(times[i]!, 'x', true);
    while (values[i + 1]) i++;
    const right = plot.valToPos(times[i + 1] ?? plot.scales.x!.max!, 'x', true);
    ctx.fillRect(left, top, Math.max(1, right - left), tall);
  }
  ctx.restore();
}

function drawMark(plot: uPlot, ns: number): void {
  const x = Math.round(plot.valToPos(ns, 'x', true)) + 0.5;
  if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) return;
  plot.ctx.strokeStyle = colour('text');
  plot.ctx.setLineDash([4, 3]);
  plot.ctx.beginPath();
  plot.ctx.moveTo(x, plot.bbox.top);
  plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
  plot.ctx.stroke();
  plot.ctx.setLineDash([]);
}

export function seriesPlot(options: PlotOptions): SeriesPlot {
  const root = element('div', { class: 'plot', role: 'img', 'aria-label': options.label });
  const data = [Array.from(options.time), ...options.lines.map((line) => line.values)] as unknown as uPlot.AlignedData;
  const plot = new uPlot({
    width: Math.max(200, root.clientWidth), height: options.height,
    scales: {
      x: { time: false, range: (_u, min, max) => (max > min ? [min, max] : [0, Math.max(1, options.span_ns)]) },
      y: { range: options.lanes ? [0, options.lanes.length] : (_u, min, max) => [Math.min(0, min ?? 0), Math.max(options.most ?? 0, (max ?? 1) * 1.05, 1e-9)] },
    },
    axes: axes(options), series: series(options),
    cursor: { sync: { key: kSync, setSeries: false }, drag: { x: true, y: false }, points: { size: 5 } },
    legend: { live: true },
    hooks: {
      ready: [(u) => u.setScale('x', { min: 0, max: Math.max(1, options.span_ns) })],
      drawSeries: options.lanes ? [(u, i) => drawLane(u, i)] : [],
      draw: options.marked_ns === undefined ? [] : [(u) => drawMark(u, options.marked_ns!)],
    },
  }, data, root);
  const observer = new ResizeObserver(() => {
    if (root.clientWidth > 0) plot.setSize({ width: root.clientWidth, height: options.height });
  });
  observer.observe(root);
  const deaf = onTheme(() => plot.redraw(false, true));
  return {
    root,
    stretch: () => ({ start_ns: plot.scales.x!.min ?? 0, end_ns: plot.scales.x!.max ?? options.span_ns }),
    dispose() {
      observer.disconnect();
      deaf();
      plot.destroy();
    },
  };
}

/** The way from a stretch of plots to the timeline. */
export function zoomTools(context: Context, plot: SeriesPlot): HTMLElement {
  return element('div', { class: 'tools' },
    context.data.tracks.length > 0 && button('Show in timeline', {}, () => context.show(plot.stretch())),
    element('span', { class: 'quiet' }, 'drag over a stretch to zoom in, double-click for all of it'));
}
