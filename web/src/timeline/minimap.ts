// The whole run in a bar, with the part that is in view as a window that can be dragged.

import type { Detail } from './detail';
import { TrackEvents } from './model';
import type { Palette } from './palette';
import { Strip, type Grid } from './strip';
import type { Viewport } from './viewport';
import type { Layout, TrackView } from './layout';

const kMostRows = 12;
const kHandle = 6;

type Drag = { part: 'start' | 'end' | 'window' | 'new'; from: number; start: number; end: number };

export class Minimap {
  private readonly context_: CanvasRenderingContext2D;
  private readonly picture_ = document.createElement('canvas');
  private stale_ = true;
  private drag_: Drag | undefined;

  constructor(
    private readonly canvas_: HTMLCanvasElement,
    private readonly layout_: Layout,
    private readonly viewport_: Viewport,
    private readonly detail_: Detail,
    public palette: Palette,
    private readonly moved_: () => void,
  ) {
    this.context_ = canvas_.getContext('2d', { alpha: false })!;
    canvas_.addEventListener('pointerdown', (event) => this.down(event));
    canvas_.addEventListener('pointermove', (event) => this.move(event));
    canvas_.addEventListener('pointerup', () => (this.drag_ = undefined));
    canvas_.addEventListener('pointercancel', () => (this.drag_ = undefined));
  }

  /** What it shows of the run has changed, not only the window. */
  invalidate(): void {
    this.stale_ = true;
  }

  draw(ratio: number): void {
    const { canvas_: canvas, context_: context, palette, viewport_: viewport } = this;
    const { width, height } = canvas;
    if (this.stale_ || this.picture_.width !== width || this.picture_.height !== height) this.paintPicture();
    context.drawImage(this.picture_, 0, 0);
    const x0 = this.x(viewport.start) * ratio;
    const x1 = Math.max(x0 + 2 * ratio, this.x(viewport.end) * ratio);
    context.fillStyle = palette.bg;
    context.globalAlpha = 0.6;
    context.fillRect(0, 0, x0, height);
    context.fillRect(x1, 0, width - x1, height);
    context.globalAlpha = 1;
    context.strokeStyle = palette.accent;
    context.lineWidth = 1.5 * ratio;
    context.strokeRect(x0, ratio, x1 - x0, height - 2 * ratio);
    context.fillStyle = palette.accent;
    for (const x of [x0, x1]) context.fillRect(x - 1.5 * ratio, height * 0.3, 3 * ratio, height * 0.4);
  }

  private paintPicture(): void {
    this.stale_ = false;
    const { picture_: picture, canvas_: canvas, palette } = this;
    picture.width = canvas.width;
    picture.height = canvas.height;
    const context = picture.getContext('2d')!;
    context.fillStyle = palette.panel;
    context.fillRect(0, 0, picture.width, picture.height);
    const views = rowsOf(this.layout_.tracks);
    const each = picture.height / Math.max(1, views.length);
    const grid: Grid = { start: 0, ns_per_px: this.viewport_.span_ns / picture.width, width: picture.width };
    const strip = new Strip(picture.width);
    const image = new ImageData(picture.width, 1);
    const words = new Uint32Array(image.data.buffer);
    const line = document.createElement('canvas');
    line.width = picture.width;
    line.height = 1;
    context.imageSmoothingEnabled = false;
    views.forEach((view, i) => {
      const track = view.model as TrackEvents;
      strip.clear();
      const { density } = track.header;
      const { data } = track;
      if (density) {
        strip.level(data.column(density.category), data.column(density.busy), 0, density.bin_ns, grid, 0, grid.width);
      } else if (track.rows[0]) {
        strip.events(track.rows[0], grid, this.detail_.pyramid(track.rows[0]), Infinity, []);
      }
      for (let px = 0; px < words.length; px++) {
        words[px] = strip.share[px] === 0 ? 0 : palette.shades[strip.category[px] * 256 + strip.share[px]];
      }
      line.getContext('2d')!.putImageData(image, 0, 0);
      const top = Math.round(i * each);
      context.drawImage(
        line,
        0,
        0,
        picture.width,
        1,
        0,
        top,
        picture.width,
        Math.max(1, Math.round((i + 1) * each) - top - 1),
      );
    });
  }

  private x(time: number): number {
    return (time / this.viewport_.span_ns) * this.canvas_.clientWidth;
  }

  private time(event: PointerEvent): number {
    const box = this.canvas_.getBoundingClientRect();
    return ((event.clientX - box.left) / Math.max(1, box.width)) * this.viewport_.span_ns;
  }

  private down(event: PointerEvent): void {
    event.preventDefault();
    this.canvas_.setPointerCapture(event.pointerId);
    const { start, end } = this.viewport_;
    const at = this.x(this.time(event));
    const [x0, x1] = [this.x(start), this.x(end)];
    // The window of a deep zoom is narrower than its handles: it can be moved then, and redrawn by dragging beside it.
    const wide = x1 - x0 > 4 * kHandle;
    let part: Drag['part'] = 'new';
    if (wide && Math.abs(at - x0) < kHandle) part = 'start';
    else if (wide && Math.abs(at - x1) < kHandle) part = 'end';
    else if (at > x0 - kHandle && at < x1 + kHandle && end - start < this.viewport_.span_ns) part = 'window';
    this.drag_ = { part, from: this.time(event), start, end };
  }

  private move(event: PointerEvent): void {
    const { drag_: drag, viewport_: viewport } = this;
    const time = this.time(event);
    if (!drag) {
      const at = this.x(time);
      const near = Math.min(Math.abs(at - this.x(viewport.start)), Math.abs(at - this.x(viewport.end))) < kHandle;
      this.canvas_.style.cursor = near
        ? 'ew-resize'
        : time > viewport.start && time < viewport.end
          ? 'grab'
          : 'crosshair';
      return;
    }
    const by = time - drag.from;
    if (drag.part === 'window') viewport.set(drag.start + by, drag.end + by);
    else if (drag.part === 'start') viewport.set(Math.min(time, drag.end - 1), drag.end);
    else if (drag.part === 'end') viewport.set(drag.start, Math.max(time, drag.start + 1));
    else if (Math.abs(this.x(time) - this.x(drag.from)) > 2)
      viewport.set(Math.min(time, drag.from), Math.max(time, drag.from));
    else return;
    this.moved_();
  }
}

// Steps and phases once, then what each device does; rather than a little of many ranks, the same of a few.
function rowsOf(tracks: TrackView[]): TrackView[] {
  const of = (kinds: string[]) =>
    tracks.filter((view) => view.model instanceof TrackEvents && kinds.includes(view.model.kind));
  const events = (view: TrackView) => (view.model as TrackEvents).header.events;
  const streams = of(['stream']);
  const busiest = new Set([...streams].sort((a, b) => events(b) - events(a)).slice(0, kMostRows - 3));
  const first = tracks[0]?.rank;
  const ruler = of(['step', 'phase', 'idle'])
    .filter((view) => view.rank === first)
    .slice(0, 3);
  const rows = [...ruler, ...streams.filter((view) => busiest.has(view))];
  return rows.length > 0 ? rows : of(['thread', 'collective', 'sync']).slice(0, kMostRows);
}
