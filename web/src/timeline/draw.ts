// Paints the plot. Every row is one line of pixels that is stretched to the row's height, so that a frame costs pixels
// and labels, never events.

import { Counter, TrackEvents, type Model } from './model';
import type { Detail } from './detail';
import { kHeading, isHeading, type Heading, type Layout, type Line, type TrackView } from './layout';
import type { Palette } from './palette';
import type { Search } from './search';
import { Strip, type Box, type Grid } from './strip';
import type { Viewport } from './viewport';
import { paintCounter } from './counter';
import { Labels, type LabelledRow } from './labels';
import { ticks } from './time_text';

/** Narrower boxes carry no text, in CSS pixels. */
const kLeastLabel = 26;
/** A device that idles for less than a tenth of a pixel's time is busy there, 0..255. */
const kLeastIdle = 25;

interface PaintedRow {
  y: number;
  height: number;
  /** Line of the atlas. */
  line: number;
}

export class Painter {
  private readonly context_: CanvasRenderingContext2D;
  private readonly atlas_ = document.createElement('canvas');
  private pixels_ = new ImageData(1, 1);
  private words_ = new Uint32Array(1);
  private strip_ = new Strip(1);
  private readonly labels_: Labels;
  private lines_ = 0;
  private rows_: PaintedRow[] = [];
  private labelled_: LabelledRow[] = [];
  private ratio_ = 1;
  private grid_: Grid = { start: 0, ns_per_px: 1, width: 1 };

  constructor(
    private readonly canvas_: HTMLCanvasElement,
    private readonly model_: Model,
    private readonly layout_: Layout,
    private readonly viewport_: Viewport,
    private readonly detail_: Detail,
    private readonly search_: Search,
    public palette: Palette,
  ) {
    this.context_ = canvas_.getContext('2d', { alpha: false })!;
    this.labels_ = new Labels(model_);
  }

  /** `height` and `scroll` in CSS pixels. */
  draw(height: number, scroll: number, ratio: number): void {
    const { canvas_: canvas, viewport_: viewport, context_: context, palette } = this;
    this.ratio_ = ratio;
    this.grid_ = gridOf(viewport, canvas.width);
    this.prepareAtlas(height);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = palette.bg;
    context.fillRect(0, 0, canvas.width, canvas.height);
    this.background(height);
    this.drawLines(this.layout_.within(scroll, scroll + height), height, scroll);
    const { pinned, pinned_height } = this.layout_;
    if (pinned.length === 0) return;
    context.fillStyle = palette.bg;
    context.fillRect(0, 0, canvas.width, Math.round(pinned_height * ratio));
    this.drawLines(pinned, height, scroll);
    context.fillStyle = palette.accent;
    context.fillRect(0, Math.round(pinned_height * ratio) - Math.ceil(ratio), canvas.width, Math.ceil(ratio));
  }

  private drawLines(lines: readonly Line[], height: number, scroll: number): void {
    this.rows_ = [];
    this.labelled_ = [];
    for (const line of lines) {
      const y = line.y - scroll;
      if (y + line.height <= 0 || y >= height) continue;
      if (isHeading(line)) this.heading(line, y);
      else if (line.model instanceof Counter) this.counter(line, line.model, y);
      else this.events(line, line.model, y, height);
    }
    this.flushRows();
    for (const row of this.labelled_) this.labels_.draw(this.context_, row, this.palette, this.search_, this.ratio_);
  }

  private prepareAtlas(height: number): void {
    const width = this.canvas_.width;
    const lines = Math.ceil(height / 3) + 8 + this.layout_.pinned.length;
    if (this.atlas_.width !== width || this.atlas_.height < lines) {
      this.atlas_.width = width;
      this.atlas_.height = lines;
      this.pixels_ = new ImageData(width, lines);
      this.words_ = new Uint32Array(this.pixels_.data.buffer);
      this.strip_ = new Strip(width);
    }
    this.lines_ = 0;
    this.rows_ = [];
    this.labelled_ = [];
  }

  // What is not kept in full is hatched; marks of the axis run through all tracks.
  private background(height: number): void {
    const { context_: context, palette, ratio_: ratio, viewport_: viewport } = this;
    const { kept } = this.model_.data;
    let from = 0;
    if (kept.length > 0) context.fillStyle = this.hatch();
    for (const [start, end] of [...kept, [this.model_.data.span_ns, Infinity]]) {
      const x0 = Math.max(0, viewport.x(from));
      const x1 = Math.min(viewport.width, viewport.x(start));
      if (kept.length > 0 && x1 > x0) context.fillRect(x0 * ratio, 0, (x1 - x0) * ratio, height * ratio);
      from = end;
    }
    context.fillStyle = palette.line;
    for (const { time } of ticks(viewport.start, viewport.end, viewport.width).marks) {
      context.fillRect(Math.round(viewport.x(time) * ratio), 0, 1, height * ratio);
    }
  }

  private hatch(): CanvasPattern | string {
    const { palette, ratio_: ratio } = this;
    const size = Math.round(8 * ratio);
    const tile = document.createElement('canvas');
    tile.width = tile.height = size;
    const context = tile.getContext('2d')!;
    context.fillStyle = palette.panel;
    context.fillRect(0, 0, size, size);
    context.strokeStyle = palette.line;
    context.lineWidth = ratio;
    context.beginPath();
    for (const by of [-size, 0, size]) {
      context.moveTo(by - 1, size + 1);
      context.lineTo(by + size + 1, -1);
    }
    context.stroke();
    return this.context_.createPattern(tile, 'repeat') ?? palette.panel;
  }

  private heading(heading: Heading, y: number): void {
    const { context_: context, ratio_: ratio, palette } = this;
    context.fillStyle = palette.panel;
    context.fillRect(0, y * ratio, this.canvas_.width, (kHeading - 1) * ratio);
    context.fillStyle = palette.line;
    context.fillRect(0, Math.round((y + kHeading - 1) * ratio), this.canvas_.width, Math.max(1, Math.round(ratio)));
    if (!heading.collapsed) return;
    const each = Math.floor((kHeading - 3) / Math.max(1, heading.bands.length));
    heading.bands.forEach((band, i) => {
      if (band.model instanceof TrackEvents)
        this.row(band.model, 0, y + 1 + i * each, Math.max(2, Math.min(8, each - 1)), Infinity);
    });
  }

  private counter(view: TrackView, counter: Counter, y: number): void {
    this.separator(y + view.height - 1);
    paintCounter(
      this.context_,
      counter.levels,
      this.grid_,
      (y + 2) * this.ratio_,
      (view.height - 5) * this.ratio_,
      this.palette,
      counter.bit !== undefined,
    );
  }

  private events(view: TrackView, track: TrackEvents, y: number, height: number): void {
    this.separator(y + view.height - 1);
    const first = Math.max(0, Math.floor(-y / view.row_height));
    const last = Math.min(view.rows, Math.ceil((height - y) / view.row_height));
    for (let row = first; row < last; row++) {
      const top = y + row * view.row_height;
      const boxes = this.row(track, row, top + 1, view.row_height - 1, kLeastLabel * this.ratio_);
      if (boxes.length > 0) this.labelled_.push({ view, y: top + 1, height: view.row_height - 1, boxes });
    }
  }

  private separator(y: number): void {
    this.context_.fillStyle = this.palette.line;
    this.context_.fillRect(0, Math.round(y * this.ratio_), this.canvas_.width, 1);
  }

  private row(track: TrackEvents, index: number, y: number, height: number, least_px: number): Box[] {
    const { strip_: strip, grid_: grid, palette, search_: search } = this;
    const boxes: Box[] = [];
    strip.clear();
    strip.hidden = track.kind === 'idle' ? kLeastIdle : 0;
    if (index === 0) this.density(track);
    const row = track.rows[index];
    if (row) strip.events(row, grid, this.detail_.pyramid(row), least_px, boxes);
    const line = this.lines_;
    if ((line + 1) * grid.width > this.words_.length) return boxes;
    this.lines_++;
    const words = this.words_.subarray(line * grid.width, (line + 1) * grid.width);
    if (search.active) {
      colour(strip, words, palette.dimmed, palette.dimmed_edges);
      const found = row && search.found(row);
      if (row && found && found.length > 0) {
        strip.clear();
        strip.some(found, row, grid);
        overlay(strip, words, palette.shades, palette.edges);
      }
    } else {
      colour(strip, words, palette.shades, palette.edges);
    }
    this.rows_.push({ y, height, line });
    return boxes;
  }

  /** The bins of a track where its events are not kept, or not yet read. */
  private density(track: TrackEvents): void {
    const { density } = track.header;
    if (!density) return;
    const { data } = this.model_;
    const { grid_: grid, strip_: strip } = this;
    const category = data.column(density.category);
    const busy = data.column(density.busy);
    const paint = (from: number, to: number) => {
      const first = Math.max(0, Math.ceil((from - grid.start) / grid.ns_per_px));
      const last = Math.min(grid.width, Math.ceil((to - grid.start) / grid.ns_per_px));
      strip.level(category, busy, 0, density.bin_ns, grid, first, last);
    };
    if (!track.prepared || data.kept.length === 0) {
      paint(0, data.span_ns);
      return;
    }
    let from = 0;
    for (const [start, end] of data.kept) {
      paint(from, start);
      from = end;
    }
    paint(from, data.span_ns);
  }

  private flushRows(): void {
    const { context_: context, ratio_: ratio, canvas_: canvas } = this;
    if (this.lines_ === 0) return;
    const atlas = this.atlas_.getContext('2d')!;
    atlas.putImageData(this.pixels_, 0, 0, 0, 0, canvas.width, this.lines_);
    context.imageSmoothingEnabled = false;
    for (const { y, height, line } of this.rows_) {
      const top = Math.round(y * ratio);
      context.drawImage(
        this.atlas_,
        0,
        line,
        canvas.width,
        1,
        0,
        top,
        canvas.width,
        Math.round((y + height) * ratio) - top,
      );
    }
  }
}

/** Pixels begin at multiples of their width, so that panning moves the picture and does not reshuffle it. */
export function gridOf(viewport: Viewport, width: number): Grid {
  const ns_per_px = viewport.span / Math.max(1, width);
  return { start: Math.round(viewport.start / ns_per_px) * ns_per_px, ns_per_px, width };
}

function colour(strip: Strip, words: Uint32Array, shades: Uint32Array, edges: Uint32Array): void {
  const { share, category, edge } = strip;
  for (let px = 0; px < words.length; px++) {
    words[px] = share[px] === 0 ? 0 : edge[px] ? edges[category[px]] : shades[category[px] * 256 + share[px]];
  }
}

function overlay(strip: Strip, words: Uint32Array, shades: Uint32Array, edges: Uint32Array): void {
  const { share, category, edge } = strip;
  for (let px = 0; px < words.length; px++) {
    // Matches stand out even where they are a small part of their pixel.
    if (share[px] !== 0)
      words[px] = edge[px] ? edges[category[px]] : shades[category[px] * 256 + Math.max(170, share[px])];
  }
}
