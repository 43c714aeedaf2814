// The allocator at one moment: its segments, the blocks in them and what is free, and the events around it.

import { colourOf } from './colours';
import { button, element } from './dom';
import { drawing, hatch } from './drawing';
import { colourName, kMemoryCategories, stateAt, type HeldHistory, type Placed } from './memory_model';
import { bytes, count, counted, percent } from './quantity';
import { colour } from './theme';
import { hideTip, showTip } from './tooltip';

const kRow = 20;
const kGap = 3;         // between rows
const kMostRows = 24;
const kLeastWidth = 3;  // pixels of a segment
const kAround = 6;      // events before and after the moment

/** A segment in the picture, which is one ribbon that is cut into rows. */
interface Drawn {
  segment: Placed;
  from: number;
  to: number;
}

/** Colours of a picture: looked up once, not for each block. */
interface StateInks {
  categories: string[];
  chosen: string;
  free: string;
  line: string;
  edge: string;
}

function inksNow(): StateInks {
  return {
    categories: kMemoryCategories.map((_, c) => colourOf(colourName(c))), chosen: colour('text'), free: colour('raised'), line: colour('line'), edge: colour('quiet'),
  };
}

export interface StateActions {
  describe(allocation: number): string[];
  pick(allocation: number): void;
  move(moment: number): void;
}

export class MemoryState {
  readonly root = element('div', { class: 'memstate' });
  private readonly drawing_;
  private readonly said_ = element('p', { class: 'quiet', role: 'status' });
  private readonly slider_ = element('input', { 'type': 'range', 'min': 0, 'aria-label': 'Event whose state is shown' });
  private readonly list_ = element('div', {});
  private drawn_: Drawn[] = [];
  private placed_: Placed[] = [];
  private rows_ = 1;
  private moment_ = -1;
  chosen = -1;
  matches: Uint8Array | undefined;

  constructor(private readonly history_: HeldHistory, private readonly actions_: StateActions) {
    this.drawing_ = drawing('Segments of the allocator and the blocks in them; the list below names the events', () => this.rows_ * (kRow + kGap), (p, w) => this.draw(p, w));
    const { canvas } = this.drawing_;
    canvas.addEventListener('pointermove', (event) => this.hover(event));
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('click', (event) => {
      const found = this.at(event);
      if (found && found.block >= 0) this.actions_.pick(found.block);
    });
    this.slider_.max = String(history_.events);
    this.slider_.addEventListener('input', () => this.actions_.move(Number(this.slider_.value)));
    const go = (title: string, hint: string, to: () => number) => button(title, { title: hint }, () => this.actions_.move(to()));
    this.root.append(
      element('div', { class: 'tools' }, go('‹', 'The event before', () => this.moment_ - 1), go('›', 'The next event', () => this.moment_ + 1),
        go('« segment', 'The segment event before', () => this.segmentEvent(-1)), go('segment »', 'The next segment event', () => this.segmentEvent(1)),
        go('Peak', 'The highest level', () => history_.peak), go('End', 'As the snapshot was taken', () => history_.events), this.slider_),
      this.said_, element('div', { class: 'canvas' }, canvas), this.list_);
  }

  dispose(): void {
    this.drawing_.dispose();
  }

  refresh(): void {
    this.drawing_.refresh();
  }

  show(moment: number): void {
    if (moment === this.moment_) return this.refresh();
    this.moment_ = moment;
    this.slider_.value = String(moment);
    this.placed_ = stateAt(this.history_, moment);
    const reserved = this.history_.reserved[moment];
    const held = this.history_.allocated[moment];
    const blocks = this.placed_.reduce((sum, segment) => sum + segment.blocks.length, 0);
    const when = moment > 0 ? `After event ${count(this.history_.eventNumber(moment))}` : 'Before the first event';
    this.said_.textContent = this.history_.segments.count === 0 ? `${when}: ${bytes(held)} held; the file has no segments.`
      : `${when}: ${counted(this.placed_.length, 'segment')}, ${bytes(reserved)} reserved; ${counted(blocks, 'block')}, ${bytes(held)} held; ` +
        `free or rounding ${bytes(Math.max(0, reserved - held))}${reserved > 0 ? ` (${percent((100 * Math.max(0, reserved - held)) / reserved)})` : ''}`;
    this.slider_.setAttribute('aria-valuetext', `event ${count(this.history_.eventNumber(moment))}`);
    this.events();
    this.refresh();
  }

  private segmentEvent(by: number): number {
    const { made, end, count: segments } = this.history_.segments;
    let found = by < 0 ? 0 : this.history_.events;
    for (let i = 0; i < segments; i++)
      for (const m of [made[i], end[i]]) {
        if (m < 1 || m > this.history_.events) continue;
        if (by < 0 ? m < this.moment_ && m > found : m > this.moment_ && m < found) found = m;
      }
    return found;
  }

  // The ribbon's scale is such that all of it has at most so many rows.
  private place(width: number): void {
    const total = this.placed_.reduce((sum, { bytes: of }) => sum + of, 0);
    const rows = Math.max(1, Math.min(kMostRows, Math.ceil(Math.sqrt(this.placed_.length) * 1.5)));
    const room = Math.max(width, rows * width - this.placed_.length * (kLeastWidth + 1));
    let at = 0;
    this.drawn_ = this.placed_.map((segment) => {
      const from = at;
      at += Math.max(kLeastWidth, (segment.bytes / Math.max(1, total)) * room) + 1;
      return { segment, from, to: at - 1 };
    });
    this.rows_ = Math.max(1, Math.ceil(at / width));
  }

  private draw(painter: CanvasRenderingContext2D, width: number): void {
    const rows = this.rows_;
    this.place(width);
    // Its height follows from its width.
    if (rows !== this.rows_) return this.refresh();
    const inks = inksNow();
    for (const { segment, from, to } of this.drawn_) {
      this.ribbon(from, to, width, (x, y, wide) => {
        painter.fillStyle = inks.free;
        painter.fillRect(x, y, wide, kRow);
        hatch(painter, x, y, wide, kRow, inks.line);
      });
      const scale = (to - from) / Math.max(1, segment.bytes);
      const start = (i: number) => from + (this.history_.allocations.address[i] - segment.address) * scale;
      for (const i of segment.blocks) this.block(painter, inks, i, start(i), scale, to, width);
      this.ribbon(from, to, width, (x, y, wide) => {
        painter.strokeStyle = inks.edge;
        painter.lineWidth = 1;
        painter.strokeRect(x + 0.5, y + 0.5, Math.max(0, wide - 1), kRow - 1);
      });
    }
  }

  private block(painter: CanvasRenderingContext2D, inks: StateInks, i: number, from: number, scale: number, most: number, width: number): void {
    const { allocations, category } = this.history_;
    const to = Math.min(most, from + allocations.bytes[i] * scale);
    painter.globalAlpha = this.matches !== undefined && !this.matches[i] ? 0.25 : 1;
    painter.fillStyle = i === this.chosen ? inks.chosen : inks.categories[category[i]]!;
    this.ribbon(from, Math.max(to, from + 0.5), width, (x, y, wide) => {
      painter.fillRect(x, y + 1, wide > 3 ? wide - 0.7 : wide, kRow - 2);
    });
    painter.globalAlpha = 1;
  }

  // Parts of the ribbon, row by row.
  private ribbon(from: number, to: number, width: number, part: (x: number, y: number, wide: number) => void): void {
    for (let row = Math.floor(from / width); row * width < to; row++) {
      const x = Math.max(0, from - row * width);
      part(x, row * (kRow + kGap), Math.min(width, to - row * width) - x);
    }
  }

  private at(event: MouseEvent): { segment: Placed; block: number } | undefined {
    const box = this.drawing_.canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / (kRow + kGap));
    const ribbon = row * box.width + (event.clientX - box.left);
    const found = this.drawn_.find(({ from, to }) => from <= ribbon && ribbon < to);
    if (!found) return undefined;
    const { segment, from, to } = found;
    const address = segment.address + ((ribbon - from) / (to - from)) * segment.bytes;
    const { allocations } = this.history_;
    const slack = segment.bytes / Math.max(1, to - from);   // of half a pixel on each side
    const block = segment.blocks.find((i) => allocations.address[i] - slack / 2 <= address && address < allocations.address[i] + allocations.bytes[i] + slack / 2);
    return { segment, block: block ?? -1 };
  }

  private hover(event: PointerEvent): void {
    const found = this.at(event);
    this.drawing_.canvas.style.cursor = found && found.block >= 0 ? 'pointer' : '';
    if (!found) return hideTip();
    const { segment, block } = found;
    const held = segment.blocks.reduce((sum, i) => sum + this.history_.allocations.bytes[i], 0);
    const of_segment = `segment 0x${segment.address.toString(16)} of ${bytes(segment.bytes)}, ${counted(segment.blocks.length, 'block')}, ` +
      `${percent((100 * held) / Math.max(1, segment.bytes))} held; stream ${segment.stream}`;
    showTip(event.clientX, event.clientY, block >= 0 ? [...this.actions_.describe(block), of_segment] : ['free, or rounding', of_segment]);
  }

  // What happened right before and what will.
  private events(): void {
    const from = Math.max(0, Math.min(this.moment_ - kAround, this.history_.events - 2 * kAround));
    const rows: HTMLElement[] = [];
    for (let index = from; index < Math.min(this.history_.events, from + 2 * kAround); index++) {
      const row = this.history_.event(index);
      const now = index === this.moment_ - 1;
      const what = row.allocation === null ? row.action
        : button(row.action, { class: 'place', title: 'Shows the allocation' }, () => this.actions_.pick(row.allocation!));
      rows.push(element('tr', { 'class': now ? 'active' : null, 'aria-current': now ? 'true' : null },
        element('td', { class: 'num' }, button(count(row.event), { 'class': 'place', 'title': 'Shows the state after it', 'aria-label': `After event ${count(row.event)}` }, () => this.actions_.move(index + 1))),
        element('td', {}, what), element('td', { class: 'num' }, row.bytes === null ? '' : bytes(row.bytes)),
        element('td', { class: 'mono' }, row.address === null ? '' : `0x${row.address.toString(16)}`)));
    }
    if (rows.length === 0) return this.list_.replaceChildren();
    this.list_.replaceChildren(element('table', { 'class': 'data static events', 'aria-label': 'Events around it' },
      element('thead', {}, element('tr', {}, ...['Event', 'What', 'Bytes', 'Address'].map((title, i) => element('th', { scope: 'col', class: i % 2 === 0 ? 'num' : null }, title)))),
      element('tbody', {}, ...rows)));
  }
}
