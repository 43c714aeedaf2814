import type { Palette } from './palette';
import { kFont } from './labels';
import { ticks } from './time_text';
import type { Viewport } from './viewport';

/** Height in CSS pixels. */
export const kAxis = 24;

export function drawAxis(canvas: HTMLCanvasElement, viewport: Viewport, palette: Palette, ratio: number): void {
  const context = canvas.getContext('2d', { alpha: false })!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = palette.bg;
  context.fillRect(0, 0, viewport.width, kAxis);
  context.font = kFont;
  context.textBaseline = 'middle';
  const { marks, base } = ticks(viewport.start, viewport.end, viewport.width);
  const reserved = base ? context.measureText(base).width + 14 : 0;
  for (const { time, label } of marks) {
    const x = viewport.x(time);
    context.fillStyle = palette.line;
    context.fillRect(x, kAxis - 7, 1, 7);
    if (x < reserved) continue;
    context.fillStyle = palette.muted;
    context.fillText(label, x + 4, kAxis / 2 - 1);
  }
  if (!base) return;
  context.fillStyle = palette.panel;
  context.fillRect(0, 2, reserved - 4, kAxis - 6);
  context.fillStyle = palette.fg;
  context.fillText(base, 5, kAxis / 2 - 1);
}
