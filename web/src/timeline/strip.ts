// What one row of the plot shows at each device pixel: a category, the share of the pixel's time that is busy, and
// where boxes begin. Cost is bounded by the pixels, not by the events: levels of detail where there are any, else a
// bounded look at the events of a pixel and a jump to the next pixel's edge.

import type { Numbers } from '../page_data';
import { firstEndingAfter, type Row } from './model';
import { levelFor, type Pyramid } from './pyramid';

/** Device pixels of a row, on the same time axis for all rows. */
export interface Grid {
  start: number;
  ns_per_px: number;
  width: number;
}

/** An event wide enough to be a box; `from` and `to` in device pixels, not cut to the grid. */
export interface Box {
  at: number;
  from: number;
  to: number;
}

/** Events of one pixel that are looked at one by one. */
const kMostPerPixel = 24;
/** What a pixel shows at least where anything happens in it, 0..255: short events must not vanish. */
const kLeastShare = 40;

export class Strip {
  readonly category: Uint8Array;
  /** 0: nothing happens. */
  readonly share: Uint8Array;
  /** 1 where a box of some width begins. */
  readonly edge: Uint8Array;
  private readonly sums_ = new Float64Array(256);
  private readonly touched_: number[] = [];
  private open_ = -1;
  private seen_ = 0;
  /** Pixels with no more than this share stay empty. */
  hidden = 0;

  constructor(readonly width: number) {
    this.category = new Uint8Array(width);
    this.share = new Uint8Array(width);
    this.edge = new Uint8Array(width);
  }

  clear(): void {
    this.share.fill(0);
    this.edge.fill(0);
  }

  /** The row's events. `boxes` gets those at least `least_px` wide. */
  events(row: Row, grid: Grid, pyramid: Pyramid | undefined, least_px: number, boxes: Box[]): void {
    let time = grid.start;
    const end = grid.start + grid.width * grid.ns_per_px;
    for (const segment of pyramid?.done ? pyramid.segments : []) {
      if (segment.to <= time || segment.from >= end) continue;
      const level = levelFor(segment, grid.ns_per_px / 2);
      if (!level) continue;
      // Whole pixels of the segment come from the level; what is before it, from the events.
      const first = Math.max(0, Math.floor((segment.from - grid.start) / grid.ns_per_px));
      const last = Math.min(grid.width, Math.ceil((segment.to - grid.start) / grid.ns_per_px));
      this.each(row.ids, row, grid, time, grid.start + first * grid.ns_per_px, least_px, boxes);
      this.level(level.category, level.busy, segment.from, level.bin_ns, grid, first, last);
      time = grid.start + last * grid.ns_per_px;
    }
    this.each(row.ids, row, grid, time, end, least_px, boxes);
  }

  /** Some events of the row, whatever its levels: those that a search found. */
  some(ids: Uint32Array, row: Row, grid: Grid): void {
    this.each(ids, row, grid, grid.start, grid.start + grid.width * grid.ns_per_px, Infinity, []);
  }

  /** Bins of equal width from `from` on; the pixels [first, last) only. */
  level(category: Numbers, busy: Numbers, from: number, bin_ns: number, grid: Grid, first: number, last: number): void {
    const bins = Math.min(category.length, busy.length);
    for (let px = Math.max(0, first); px < last; px++) {
      const time = grid.start + px * grid.ns_per_px - from;
      // The bins whose centre is in the pixel, or the one that holds the pixel's.
      let bin = Math.max(0, Math.ceil(time / bin_ns - 0.5));
      let stop = Math.min(bins, Math.ceil((time + grid.ns_per_px) / bin_ns - 0.5));
      if (stop <= bin) {
        bin = Math.floor((time + grid.ns_per_px / 2) / bin_ns);
        stop = bin + 1;
        if (bin < 0 || bin >= bins) continue;
      }
      if (stop - bin === 1) {
        this.set(px, category[bin], busy[bin]);
        continue;
      }
      for (let i = bin; i < stop; i++) if (busy[i] > 0) this.sum(category[i], busy[i]);
      this.settle(px, 1 / (stop - bin));
    }
  }

  private each(ids: Uint32Array, row: Row, grid: Grid, from: number, to: number, least_px: number, boxes: Box[]): void {
    if (from >= to) return;
    const { start, duration, category } = row.track;
    const { ns_per_px, width } = grid;
    let low = Math.round((from - grid.start) / ns_per_px);
    const stop = Math.min(width, Math.round((to - grid.start) / ns_per_px));
    this.open_ = -1;
    let k = firstEndingAfter(ids, start, duration, from, 0);
    while (k < ids.length) {
      const id = ids[k];
      const x0 = (start[id] - grid.start) / ns_per_px;
      if (x0 >= stop) break;
      const x1 = x0 + duration[id] / ns_per_px;
      const p0 = Math.max(low, Math.floor(x0));
      const p1 = Math.min(stop, Math.floor(x1));
      const kind = category[id] & 0xff;
      if (x1 - x0 >= 3 && x0 >= low) this.edge[p0] = 1;
      if (x1 - x0 >= least_px) boxes.push({ at: id, from: x0, to: x1 });
      if (p1 <= p0) {
        this.cover(p0, kind, 255 * (x1 - Math.max(x0, low)));
        if (this.seen_ > kMostPerPixel) {
          // What is known of the pixel stands for the rest of it.
          const known = x1 - p0;
          this.flush(known > 0 ? Math.min(1 / known, 8) : 1);
          low = p0 + 1;
          k = firstEndingAfter(ids, start, duration, grid.start + low * ns_per_px, k + 1);
          continue;
        }
      } else {
        this.cover(p0, kind, 255 * (p0 + 1 - Math.max(x0, low)));
        this.flush(1);
        this.category.fill(kind, p0 + 1, p1);
        this.share.fill(255, p0 + 1, p1);
        if (p1 < stop && x1 > p1) this.cover(p1, kind, 255 * (x1 - p1));
      }
      k++;
    }
    this.flush(1);
  }

  private cover(px: number, category: number, amount: number): void {
    if (px !== this.open_) {
      this.flush(1);
      this.open_ = px;
    }
    this.seen_++;
    this.sum(category, Math.max(amount, 1e-9));
  }

  private flush(scale: number): void {
    if (this.open_ >= 0) this.settle(this.open_, scale);
    this.open_ = -1;
    this.seen_ = 0;
  }

  private sum(category: number, amount: number): void {
    if (this.sums_[category] === 0) this.touched_.push(category);
    this.sums_[category] += amount;
  }

  private settle(px: number, scale: number): void {
    let total = 0;
    let winner = -1;
    let most = 0;
    for (const category of this.touched_) {
      const sum = this.sums_[category];
      this.sums_[category] = 0;
      total += sum;
      if (sum > most) {
        most = sum;
        winner = category;
      }
    }
    this.touched_.length = 0;
    if (winner >= 0) this.set(px, winner, Math.max(1, total * scale));
  }

  private set(px: number, category: number, share: number): void {
    if (share <= this.hidden) return;
    this.category[px] = category;
    this.share[px] = Math.max(kLeastShare, Math.min(255, share));
  }
}
