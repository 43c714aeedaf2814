// Levels of detail of a row: bins of time, each with the category that has most of it and the share that is busy. A
// level's bins are twice as wide as those of the one below. Each level is exact: sums per category go up, not the
// winners. Bins cover only the windows whose events are kept, so that a short window of a long run is as fine as a long
// one.

import type { Row } from './model';

/** Events of a finest bin, on average; fewer cost memory, more cost time when drawing between levels. */
const kEventsPerBin = 4;
const kFewestEvents = 512;

export interface Level {
  bin_ns: number;
  category: Uint8Array;
  /** Share of the bin that is busy, 0..255; never 0 for a bin that anything happens in. */
  busy: Uint8Array;
}

export interface Segment {
  from: number;
  to: number;
  levels: Level[];
}

export class Pyramid {
  readonly segments: Segment[] = [];
  done = false;
  private builder_: SegmentBuilder | undefined;
  private next_window_ = 0;
  private next_event_ = 0;

  constructor(
    private readonly row_: Row,
    private readonly windows_: [number, number][],
  ) {
    if (row_.ids.length < kFewestEvents) this.done = true;
  }

  /** Takes in up to `events` more. */
  advance(events: number): void {
    const { ids, track } = this.row_;
    let left = events;
    while (!this.done && left > 0) {
      if (!this.builder_) {
        if (!this.nextSegment()) break;
        continue;
      }
      const last = Math.min(this.builder_.last_event, this.next_event_ + left);
      left -= Math.max(1, last - this.next_event_);
      for (; this.next_event_ < last; this.next_event_++) {
        const id = ids[this.next_event_];
        this.builder_.add(track.start[id], track.start[id] + track.duration[id], track.category[id]);
      }
      if (this.next_event_ >= this.builder_.last_event) {
        this.builder_.finish();
        this.segments.push(this.builder_.segment);
        this.builder_ = undefined;
      }
    }
  }

  private nextSegment(): boolean {
    const { ids, track } = this.row_;
    const window = this.windows_[this.next_window_++];
    if (!window || this.next_event_ >= ids.length) {
      this.done = true;
      return false;
    }
    let end = this.next_event_;
    let high = ids.length;
    while (end < high) {
      const middle = (end + high) >> 1;
      if (track.start[ids[middle]] < window[1]) end = middle + 1;
      else high = middle;
    }
    const count = end - this.next_event_;
    if (count < kFewestEvents) {
      this.next_event_ = end;
      return true;
    }
    const from = track.start[ids[this.next_event_]];
    const last = ids[end - 1];
    const to = Math.max(from + 1, track.start[last] + track.duration[last]);
    this.builder_ = new SegmentBuilder(from, to, count, end);
    return true;
  }
}

/** Sums of the bin that is open at one level. */
interface OpenBin {
  index: number;
  sums: Float64Array;
}

class SegmentBuilder {
  readonly segment: Segment;
  private readonly open_: OpenBin[];
  // The categories of the row get small numbers of their own, so that closing a bin looks at few.
  private readonly local_ = new Int16Array(256).fill(-1);
  private readonly categories_: number[] = [];
  private last_end_ = -Infinity;

  constructor(
    from: number,
    to: number,
    events: number,
    readonly last_event: number,
  ) {
    const finest = 2 ** Math.max(0, Math.ceil(Math.log2(events / kEventsPerBin)));
    const levels: Level[] = [];
    for (let bins = finest; bins >= 1; bins /= 2) {
      levels.push({ bin_ns: (to - from) / bins, category: new Uint8Array(bins), busy: new Uint8Array(bins) });
    }
    this.segment = { from, to, levels };
    this.open_ = levels.map(() => ({ index: 0, sums: new Float64Array(16) }));
  }

  add(start: number, end: number, category: number): void {
    const {
      from,
      to,
      levels: [{ bin_ns, busy }],
    } = this.segment;
    let at = Math.max(start, this.last_end_, from);
    const stop = Math.min(end, to);
    this.last_end_ = Math.max(this.last_end_, end);
    const local = this.localCategory(category & 0xff);
    const open = this.open_[0];
    // An event without length still marks its bin.
    if (at >= stop) {
      if (start < from || start > to) return;
      at = Math.max(from, Math.min(start, to));
      this.moveTo(Math.min(busy.length - 1, Math.floor((at - from) / bin_ns)));
      open.sums[local] += Number.MIN_VALUE;
      return;
    }
    const last = busy.length - 1;
    for (let index = Math.max(open.index, Math.min(last, Math.floor((at - from) / bin_ns))); at < stop; index++) {
      this.moveTo(index);
      const bin_end = index === last ? stop : Math.min(stop, from + (index + 1) * bin_ns);
      open.sums[local] += Math.max(bin_end - at, Number.MIN_VALUE);
      at = Math.max(at, bin_end);
    }
  }

  finish(): void {
    for (let level = 0; level < this.open_.length; level++) this.close(level);
  }

  private localCategory(category: number): number {
    let local = this.local_[category];
    if (local < 0) {
      local = this.local_[category] = this.categories_.length;
      this.categories_.push(category);
      if (local >= this.open_[0].sums.length) {
        for (const open of this.open_) {
          const wider = new Float64Array(open.sums.length * 2);
          wider.set(open.sums);
          open.sums = wider;
        }
      }
    }
    return local;
  }

  private moveTo(index: number): void {
    for (let level = 0; level < this.open_.length && this.open_[level].index !== index; level++) {
      this.close(level);
      this.open_[level].index = index;
      index >>= 1;
    }
  }

  // Writes the open bin and adds its sums to the open bin of the level above, which is always the one that holds it.
  private close(level: number): void {
    const { index, sums } = this.open_[level];
    const above = this.open_[level + 1]?.sums;
    let total = 0;
    let winner = -1;
    let most = 0;
    for (let local = 0; local < this.categories_.length; local++) {
      const sum = sums[local];
      if (sum === 0) continue;
      total += sum;
      if (sum > most) {
        most = sum;
        winner = local;
      }
      if (above) above[local] += sum;
      sums[local] = 0;
    }
    if (winner < 0) return;
    const { bin_ns, category, busy } = this.segment.levels[level];
    category[index] = this.categories_[winner];
    busy[index] = Math.max(1, Math.min(255, Math.round((255 * total) / bin_ns)));
  }
}

/** The coarsest level whose bins are no wider than `ns`; undefined where even the finest are wider. */
export function levelFor(segment: Segment, ns: number): Level | undefined {
  let found: Level | undefined;
  for (const level of segment.levels) {
    if (level.bin_ns > ns) break;
    found = level;
  }
  return found;
}
