// The active memory: everything that is held, stacked over the events; to hover, pick, zoom and walk by keys.

import { hexOf, mix, pixelOf, rgbOf } from '../contrast';
import { colourOf } from './colours';
import { element } from './dom';
import { drawing, roundStep } from './drawing';
import { colourName, kMemoryCategories, type HeldHistory } from './memory_model';
import { kLaneTitle, kShades, MemoryStrip, type Arrangement, type Inks, type Piece, type Stretch } from './memory_strip';
import { brief, bytes, count } from './quantity';
import { colour, isDark } from './theme';
import { hideTip, showTip } from './tooltip';
import { categoryTitle } from '../categories';

const kHeight = 380;
const kLeft = 76;
const kBottom = 24;
const kMap = 46;        // the overview below the plot
const kClick_px = 4;
const kLeastEvents = 8; // that a zoom leaves in view

export interface TimelineActions {
  /** Lines of the box beside the pointer. */
  describe(piece: Piece, moment: number): string[];
  pick(allocation: number): void;
  /** The moment that the state below shows. */
  moved(moment: number): void;
  /** What is in view is another. */
  changed(): void;
  say(text: string): void;
}

export class MemoryTimeline {
  readonly root = element('div', { class: 'chart memstack' });
  readonly strip: MemoryStrip;
  arrangement: Arrangement = 'category';
  matches: Uint8Array | undefined;
  chosen = -1;
  moment: number;
  private readonly stretch_: Stretch;
  private readonly most_: number;
  private readonly plot_;
  private readonly map_;
  private width_ = 0;
  private atlas_ = document.createElement('canvas');
  private image_ = new ImageData(1, 1);
  private pictured_: { key: string; matches: Uint8Array | undefined } = { key: '', matches: undefined };
  private map_levels_ = new Float64Array(0);
  private from_: { x: number; y: number; stretch: Stretch } | undefined;
  private dragged_ = false;

  constructor(private readonly history_: HeldHistory, private readonly actions_: TimelineActions) {
    this.strip = new MemoryStrip(history_);
    this.moment = history_.peak;
    this.most_ = Math.max(1, history_.allocated[history_.peak], ...reservedPeak(history_)) * 1.04;
    this.stretch_ = { from: 0, to: history_.events + 1, low: 0, high: this.most_ };
    this.plot_ = drawing(`Memory that is held on ${history_.title}, by event; arrow keys move the cursor`, kHeight, (p, w, h) => this.draw(p, w, h));
    this.map_ = drawing('All events, and the part that is in view', kMap, (p, w, h) => this.drawMap(p, w, h));
    this.root.append(this.plot_.canvas, this.map_.canvas);
    this.listen();
  }

  dispose(): void {
    this.plot_.dispose();
    this.map_.dispose();
    hideTip();
  }

  refresh(): void {
    this.plot_.refresh();
    this.map_.refresh();
  }

  get stretch(): Stretch {
    return this.stretch_;
  }

  /** Shows these moments, all bytes. */
  show(from: number, to: number): void {
    const least = Math.min(kLeastEvents, this.history_.events + 1);
    const span = Math.max(least, Math.min(this.history_.events + 1, to - from));
    this.stretch_.from = Math.max(0, Math.min(this.history_.events + 1 - span, from));
    this.stretch_.to = this.stretch_.from + span;
    this.moved();
  }

  reset(): void {
    this.stretch_.low = 0;
    this.stretch_.high = this.most_;
    this.show(0, this.history_.events + 1);
  }

  zoom(factor: number, about: number): void {
    const { from, to } = this.stretch_;
    this.show(about - (about - from) * factor, about + (to - about) * factor);
  }

  /** Taller or lower boxes, about a number of bytes. */
  stretchBytes(factor: number, about = this.stretch_.low): void {
    const { low, high } = this.stretch_;
    const span = Math.max(this.most_ / 100_000, Math.min(this.most_, (high - low) * factor));
    const share = (about - low) / (high - low);
    this.stretch_.low = Math.max(0, Math.min(this.most_ - span, about - share * span));
    this.stretch_.high = this.stretch_.low + span;
    this.moved();
  }

  setMoment(moment: number): void {
    this.moment = Math.max(0, Math.min(this.history_.events, Math.round(moment)));
    const { from, to } = this.stretch_;
    if (this.moment < from || this.moment >= to) this.show(this.moment - (to - from) / 2, this.moment + (to - from) / 2);
    this.actions_.moved(this.moment);
    this.refresh();
  }

  private moved(): void {
    this.refresh();
    this.actions_.changed();
  }

  // Coordinates

  private get wide(): number {
    return Math.max(1, this.width_ - kLeft);
  }

  private x(moment: number): number {
    return kLeft + ((moment - this.stretch_.from) / (this.stretch_.to - this.stretch_.from)) * this.wide;
  }

  private momentAt(x: number): number {
    return this.stretch_.from + ((x - kLeft) / this.wide) * (this.stretch_.to - this.stretch_.from);
  }

  private point(event: MouseEvent): { x: number; y: number } {
    const box = this.plot_.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  /** The column of the picture, and what is there. */
  private under({ x, y }: { x: number; y: number }): { column: number; piece: Piece | undefined } | undefined {
    const column = Math.floor((x - kLeft) * this.ratio);
    if (column < 0 || column >= this.strip.moments.length || y >= kHeight - kBottom) return undefined;
    return { column, piece: this.strip.at(column, y * this.ratio, this.rows, this.stretch_, this.arrangement) };
  }

  private get ratio(): number {
    return devicePixelRatio || 1;
  }

  private get rows(): number {
    return Math.round((kHeight - kBottom) * this.ratio);
  }

  // Input

  private listen(): void {
    const { canvas } = this.plot_;
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'application');
    canvas.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      this.from_ = { ...this.point(event), stretch: { ...this.stretch_ } };
      this.dragged_ = false;
    });
    canvas.addEventListener('pointermove', (event) => this.move(event));
    canvas.addEventListener('pointerup', (event) => {
      if (this.from_ && !this.dragged_) this.click(this.point(event));
      this.from_ = undefined;
    });
    canvas.addEventListener('pointercancel', () => (this.from_ = undefined));
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('blur', hideTip);
    canvas.addEventListener('dblclick', () => this.reset());
    canvas.addEventListener('keydown', (event) => this.key(event));
    this.map_.canvas.style.touchAction = 'none';
    const centre = (event: PointerEvent) => {
      const box = this.map_.canvas.getBoundingClientRect();
      const at = ((event.clientX - box.left - kLeft) / Math.max(1, box.width - kLeft)) * (this.history_.events + 1);
      const half = (this.stretch_.to - this.stretch_.from) / 2;
      this.show(at - half, at + half);
    };
    this.map_.canvas.addEventListener('pointerdown', (event) => {
      this.map_.canvas.setPointerCapture(event.pointerId);
      centre(event);
    });
    this.map_.canvas.addEventListener('pointermove', (event) => event.buttons > 0 && centre(event));
  }

  // Over the plot the wheel zooms, as over the timeline; with alt, the bytes.
  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const delta = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 20 : 1);
    const factor = Math.exp(Math.max(-1, Math.min(1, delta * (event.ctrlKey ? 0.01 : 0.002))));
    const { x, y } = this.point(event);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = ((event.deltaX || delta) / this.wide) * (this.stretch_.to - this.stretch_.from);
      this.show(this.stretch_.from + by, this.stretch_.to + by);
    } else if (event.altKey) {
      const { low, high } = this.stretch_;
      this.stretchBytes(factor, high - (y / (kHeight - kBottom)) * (high - low));
    } else {
      this.zoom(factor, this.momentAt(x));
    }
  }

  private move(event: PointerEvent): void {
    const now = this.point(event);
    const { from_: from } = this;
    if (!from) return this.hover(event, now);
    if (!this.dragged_ && Math.hypot(now.x - from.x, now.y - from.y) < kClick_px) return;
    this.dragged_ = true;
    hideTip();
    const { stretch } = from;
    const by = ((from.x - now.x) / this.wide) * (stretch.to - stretch.from);
    const up = ((now.y - from.y) / (kHeight - kBottom)) * (stretch.high - stretch.low);
    const span = stretch.high - stretch.low;
    this.stretch_.low = Math.max(0, Math.min(this.most_ - span, stretch.low + up));
    this.stretch_.high = this.stretch_.low + span;
    this.show(stretch.from + by, stretch.to + by);
  }

  private hover(event: PointerEvent, now: { x: number; y: number }): void {
    const under = this.under(now);
    this.plot_.canvas.style.cursor = under?.piece && under.piece.allocation >= 0 ? 'pointer' : '';
    if (!under) return hideTip();
    const moment = this.strip.moments[under.column];
    const levels = `event ${count(this.history_.eventNumber(moment))}: ${bytes(this.history_.allocated[moment])} held${this.history_.segments.count > 0 ? ` of ${bytes(this.history_.reserved[moment])} reserved` : ''}`;
    showTip(event.clientX, event.clientY, under.piece ? [...this.actions_.describe(under.piece, moment), levels] : [levels]);
  }

  private click(at: { x: number; y: number }): void {
    const under = this.under(at);
    if (!under) return;
    this.moment = this.strip.moments[under.column];
    this.chosen = under.piece && under.piece.allocation >= 0 ? under.piece.allocation : -1;
    this.actions_.moved(this.moment);
    this.actions_.pick(this.chosen);
    this.refresh();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.round((this.stretch_.to - this.stretch_.from) / 20));
    const by = event.shiftKey ? 1 : page;
    const acts: Record<string, () => void> = {
      'ArrowLeft': () => this.step(-by), 'ArrowRight': () => this.step(by), 'Home': () => this.setMoment(0), 'End': () => this.setMoment(this.history_.events),
      '+': () => this.zoom(1 / 1.5, this.moment), '=': () => this.zoom(1 / 1.5, this.moment), '-': () => this.zoom(1.5, this.moment),
      'ArrowUp': () => this.walk(1), 'ArrowDown': () => this.walk(-1), 'p': () => this.step(this.history_.peak - this.moment), 'Escape': () => this.reset(),
      'Enter': () => this.actions_.pick(this.chosen),
    };
    const act = acts[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }

  private step(by: number): void {
    this.setMoment(this.moment + by);
    this.actions_.say(`Event ${count(this.history_.eventNumber(this.moment))}: ${bytes(this.history_.allocated[this.moment])} held`);
  }

  // Up or down what is held at the cursor.
  private walk(by: number): void {
    const column = this.strip.moments.findIndex((m) => m >= this.moment);
    const pieces = this.strip.pieces(Math.max(0, column), this.arrangement).filter(({ allocation }) => allocation >= 0);
    if (pieces.length === 0) return;
    const at = pieces.findIndex(({ allocation }) => allocation === this.chosen);
    const next = pieces[at < 0 ? (by > 0 ? 0 : pieces.length - 1) : Math.max(0, Math.min(pieces.length - 1, at + by))];
    this.chosen = next.allocation;
    this.actions_.pick(this.chosen);
    this.actions_.say(this.actions_.describe(next, this.moment).join(', '));
    this.refresh();
  }

  // Pictures

  private inks(): Inks {
    const back = rgbOf(colour('back'));
    const [full, dimmed, edge] = [0, 1, 2].map(() => new Uint32Array(kMemoryCategories.length * kShades));
    kMemoryCategories.forEach((_, c) => {
      const base = rgbOf(colourOf(colourName(c)));
      for (let s = 0; s < kShades; s++) {
        const shaded = mix(base, isDark() ? [0, 0, 0] : [255, 255, 255], (0.32 * s) / (kShades - 1));
        full[c * kShades + s] = pixelOf(shaded);
        dimmed[c * kShades + s] = pixelOf(mix(back, mix(shaded, [128, 128, 128], 0.5), 0.3));
        edge[c * kShades + s] = pixelOf(mix(shaded, isDark() ? back : [0, 0, 0], 0.3));
      }
    });
    return { full, dimmed, edge, chosen: pixelOf(rgbOf(colour('text'))) };
  }

  private draw(painter: CanvasRenderingContext2D, width: number, height: number): void {
    this.width_ = width;
    const columns = Math.max(1, Math.round(this.wide * this.ratio));
    const { rows } = this;
    if (this.image_.width !== columns || this.image_.height !== rows) {
      this.image_ = new ImageData(columns, rows);
      [this.atlas_.width, this.atlas_.height] = [columns, rows];
    }
    this.picture(columns, rows);
    painter.font = '11px system-ui, sans-serif';
    const tall = height - kBottom;
    if (this.arrangement !== 'lanes') this.bytesAxis(painter, width, tall);
    painter.imageSmoothingEnabled = false;
    painter.drawImage(this.atlas_, kLeft, 0, this.wide, tall);
    if (this.arrangement === 'lanes') this.laneTitles(painter, width, tall);
    else this.reservedLine(painter, tall);
    this.eventsAxis(painter, tall);
    this.marks(painter, tall);
  }

  // Drawn again where something in it is another: a cursor that moves changes nothing.
  private picture(columns: number, rows: number): void {
    const { from, to, low, high } = this.stretch_;
    const key = [from, to, low, high, columns, rows, this.arrangement, this.chosen, isDark()].join(' ');
    if (key === this.pictured_.key && this.matches === this.pictured_.matches) return;
    this.pictured_ = { key, matches: this.matches };
    this.strip.prepare(this.stretch_, columns);
    this.strip.paint(new Uint32Array(this.image_.data.buffer), rows, this.stretch_, this.arrangement, this.inks(), this.matches, this.chosen);
    this.atlas_.getContext('2d')!.putImageData(this.image_, 0, 0);
  }

  private bytesAxis(painter: CanvasRenderingContext2D, width: number, tall: number): void {
    const { low, high } = this.stretch_;
    painter.textAlign = 'right';
    painter.textBaseline = 'middle';
    const step = 2 ** Math.ceil(Math.log2((high - low) / 6));
    for (let mark = Math.ceil(low / step) * step; mark <= high; mark += step) {
      const y = Math.round(tall - ((mark - low) / (high - low)) * tall) + 0.5;
      painter.fillStyle = colour('line');
      painter.fillRect(kLeft, y, width - kLeft, 1);
      painter.fillStyle = colour('quiet');
      painter.fillText(brief(bytes(mark)), kLeft - 8, Math.max(7, Math.min(tall - 6, y)));
    }
  }

  private laneTitles(painter: CanvasRenderingContext2D, width: number, tall: number): void {
    const lanes = this.strip.lanes();
    painter.textAlign = 'left';
    painter.textBaseline = 'middle';
    lanes.forEach(({ category, high }, i) => {
      const top = (i * tall) / lanes.length;
      painter.fillStyle = colour('line');
      painter.fillRect(kLeft, Math.round(top), width - kLeft, 1);
      painter.fillStyle = colour('text');
      painter.fillText(`${categoryTitle(colourName(category))}, up to ${bytes(high)}`, kLeft + 4, top + kLaneTitle / 2 + 1);
    });
  }

  private reservedLine(painter: CanvasRenderingContext2D, tall: number): void {
    const { low, high } = this.stretch_;
    const { reserved } = this.history_;
    if (this.history_.segments.count === 0) return;
    painter.strokeStyle = colour('text');
    painter.lineWidth = 1;
    painter.beginPath();
    this.strip.moments.forEach((moment, column) => {
      const [x, y] = [kLeft + column / this.ratio, tall - ((reserved[moment] - low) / (high - low)) * tall];
      if (column === 0) painter.moveTo(x, y);
      else painter.lineTo(x, y);
    });
    painter.stroke();
  }

  private eventsAxis(painter: CanvasRenderingContext2D, tall: number): void {
    painter.fillStyle = colour('quiet');
    painter.textAlign = 'center';
    painter.textBaseline = 'middle';
    const { from, to } = this.stretch_;
    const first = this.history_.of.first;
    const step = roundStep(Math.max(1, (to - from) / Math.max(2, Math.floor(this.wide / 90))));
    for (let mark = Math.ceil((from + first) / step) * step; mark <= to + first; mark += step) {
      const x = this.x(mark - first + 1);
      if (x > kLeft + 14 && x < kLeft + this.wide - 24) painter.fillText(count(mark), x, tall + 13);
    }
    painter.textAlign = 'right';
    painter.fillText('event', kLeft - 8, tall + 13);
  }

  private marks(painter: CanvasRenderingContext2D, tall: number): void {
    const line = (moment: number, ink: string, dash: number[]) => {
      const x = Math.round(this.x(moment + 0.5)) + 0.5;
      if (x < kLeft || x > kLeft + this.wide) return undefined;
      painter.strokeStyle = ink;
      painter.lineWidth = 1.5;
      painter.setLineDash(dash);
      painter.beginPath();
      painter.moveTo(x, 0);
      painter.lineTo(x, tall);
      painter.stroke();
      painter.setLineDash([]);
      return x;
    };
    line(this.history_.peak, colour('text'), [4, 3]);
    const x = line(this.moment, colour('accent'), []);
    if (x === undefined) return;
    painter.fillStyle = colour('accent');
    painter.beginPath();
    painter.moveTo(x - 5, tall + 6);
    painter.lineTo(x + 5, tall + 6);
    painter.lineTo(x, tall);
    painter.fill();
  }

  private drawMap(painter: CanvasRenderingContext2D, width: number, height: number): void {
    const { allocated, events } = this.history_;
    const wide = Math.max(1, Math.floor(width - kLeft));
    painter.fillStyle = colour('raised');
    painter.fillRect(kLeft, 0, wide, height);
    painter.fillStyle = hexOf(mix(rgbOf(colour('quiet')), rgbOf(colour('back')), 0.35));
    if (this.map_levels_.length !== wide) this.map_levels_ = highestBy(allocated, events + 1, wide);
    this.map_levels_.forEach((most, x) => {
      const tall = (most / this.most_) * (height - 2);
      painter.fillRect(kLeft + x, height - tall, 1, tall);
    });
    const [from, to] = [this.stretch_.from, this.stretch_.to].map((m) => kLeft + (m / (events + 1)) * wide);
    painter.strokeStyle = colour('accent');
    painter.lineWidth = 2;
    painter.strokeRect(from + 1, 1, Math.max(3, to - from - 2), height - 2);
  }
}

function highestBy(levels: Float64Array, count: number, columns: number) {
  return Float64Array.from({ length: columns }, (_, x) => {
    let most = 0;
    const first = Math.floor((x * count) / columns);
    for (let m = first; m < Math.max(first + 1, Math.floor(((x + 1) * count) / columns)); m++) most = Math.max(most, levels[m] ?? 0);
    return most;
  });
}

function reservedPeak({ reserved, segments }: HeldHistory): number[] {
  if (segments.count === 0) return [];
  let most = 0;
  for (let m = 0; m < reserved.length; m++) most = Math.max(most, reserved[m]);
  return [most];
}
