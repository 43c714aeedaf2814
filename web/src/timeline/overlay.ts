// Above the plot: the pointer's time, what is hovered and picked, arrows from calls to what they launched, measured
// spans.

import { duration } from '../views/quantity';
import { TrackEvents, type EventPlace } from './model';
import { kFont } from './labels';
import { isHeading, type Layout } from './layout';
import type { Hit } from './hit';
import type { Palette } from './palette';
import { launcherOf } from './relations';
import type { Model } from './model';
import type { Selection } from './selection';
import type { Viewport } from './viewport';

const kMostArrows = 60;

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export class Overlay {
  private readonly context_: CanvasRenderingContext2D;
  private used_ = true;

  constructor(
    canvas: HTMLCanvasElement,
    private readonly model_: Model,
    private readonly layout_: Layout,
    private readonly viewport_: Viewport,
    private readonly selection_: Selection,
    public palette: Palette,
  ) {
    this.context_ = canvas.getContext('2d')!;
  }

  draw(height: number, scroll: number, ratio: number, hit: Hit | undefined, pointer_x: number | undefined): void {
    const { context_: context, selection_: selection, viewport_: viewport } = this;
    const used = pointer_x !== undefined || !selection.empty;
    if (!used && !this.used_) return;
    this.used_ = used;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, viewport.width, height);
    context.font = kFont;
    if (selection.gap)
      this.band(
        selection.gap.gap.start,
        selection.gap.gap.start + selection.gap.gap.duration,
        height,
        this.palette.muted,
      );
    if (selection.span) this.span(selection.span.start, selection.span.end, height);
    if (pointer_x !== undefined) {
      context.fillStyle = this.palette.muted;
      context.fillRect(Math.round(pointer_x), 0, 1, height);
    }
    if (hit?.event) this.outline(this.box(hit.event, scroll), this.palette.fg, 1);
    if (hit && !hit.event) this.counterPoint(hit, scroll);
    if (selection.event) {
      this.arrows(scroll);
      this.outline(this.box(selection.event.place, scroll), this.palette.fg, 2);
    }
  }

  private box({ track, at }: EventPlace, scroll: number): Box {
    const { y, height } = this.layout_.rowBox(track, track.depthOf(at));
    const x = this.viewport_.x(track.start[at]);
    return { x, y: y - scroll + 1, width: Math.max(2, this.viewport_.x(track.end(at)) - x), height: height - 1 };
  }

  private outline({ x, y, width, height }: Box, colour: string, line: number): void {
    const { context_: context, viewport_: viewport } = this;
    const x0 = Math.max(-4, x);
    const x1 = Math.min(viewport.width + 4, x + width);
    if (x1 <= x0) return;
    context.lineWidth = line + 2;
    context.strokeStyle = this.palette.bg;
    context.strokeRect(x0, y, x1 - x0, height);
    context.lineWidth = line;
    context.strokeStyle = colour;
    context.strokeRect(x0, y, x1 - x0, height);
  }

  private band(start: number, end: number, height: number, colour: string): void {
    const { context_: context, viewport_: viewport } = this;
    const x0 = Math.max(-2, viewport.x(start));
    const x1 = Math.min(viewport.width + 2, viewport.x(end));
    if (x1 < x0) return;
    context.globalAlpha = 0.18;
    context.fillStyle = colour;
    context.fillRect(x0, 0, Math.max(1, x1 - x0), height);
    context.globalAlpha = 1;
    context.fillRect(x0, 0, 1, height);
    context.fillRect(x1 - 1, 0, 1, height);
  }

  private span(start: number, end: number, height: number): void {
    const { context_: context, viewport_: viewport, palette } = this;
    this.band(start, end, height, palette.accent);
    const text = duration(end - start, 4);
    const x0 = Math.max(0, viewport.x(start));
    const x1 = Math.min(viewport.width, viewport.x(end));
    if (x1 <= x0) return;
    const width = context.measureText(text).width + 12;
    const x = Math.min(Math.max(2, (x0 + x1 - width) / 2), viewport.width - width - 2);
    context.fillStyle = palette.accent;
    context.fillRect(x, 6, width, 18);
    context.fillStyle = palette.bg;
    context.textBaseline = 'middle';
    context.fillText(text, x + 6, 15.5);
  }

  private arrows(scroll: number): void {
    const { event } = this.selection_;
    if (!event) return;
    if (event.launcher) this.arrow(event.launcher, event.place, scroll);
    for (const place of event.launched.places.slice(0, kMostArrows)) {
      const call = launcherOf(this.model_, place);
      if (call) this.arrow(call, place, scroll);
    }
  }

  private arrow(from: EventPlace, to: EventPlace, scroll: number): void {
    const { context_: context, palette } = this;
    const a = this.box(from, scroll);
    const b = this.box(to, scroll);
    const limit = 1e5;
    const x0 = Math.max(-limit, Math.min(limit, a.x));
    const x1 = Math.max(-limit, Math.min(limit, b.x));
    const down = b.y > a.y;
    const y0 = down ? a.y + a.height : a.y;
    const y1 = down ? b.y : b.y + b.height;
    const bend = Math.max(20, Math.abs(y1 - y0) / 2) * (down ? 1 : -1);
    for (const [colour, width] of [
      [palette.bg, 3.5],
      [palette.accent, 1.5],
    ] as const) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(x0, y0);
      context.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
      context.stroke();
    }
    const back = down ? -7 : 7;
    context.fillStyle = palette.accent;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 4, y1 + back);
    context.lineTo(x1 + 4, y1 + back);
    context.fill();
  }

  private counterPoint({ spot: { line }, time }: Hit, scroll: number): void {
    if (isHeading(line) || line.model instanceof TrackEvents) return;
    const at = line.model.at(time);
    if (at < 0) return;
    const { context_: context, viewport_: viewport, palette } = this;
    context.strokeStyle = palette.fg;
    context.lineWidth = 1;
    const x0 = Math.max(0, viewport.x(line.model.levels.time[at]));
    context.strokeRect(x0, line.y - scroll + line.height - 6, Math.max(1, viewport.x(time) - x0), 3);
  }
}
