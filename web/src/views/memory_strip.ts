// What is held over a stretch of events, as pixels: a column shows the highest moment that it covers, and in it all that
// is held then, one above the other. Cost is bounded by the pixels and one look at each allocation.

import { kMemoryCategories, type HeldHistory } from './memory_model';

export type Arrangement = 'category' | 'made' | 'lanes';

export interface Stretch {
  /** Moments; `to` is not included. */
  from: number;
  to: number;
  /** Bytes at the lower and upper edge. */
  low: number;
  high: number;
}

/** What pixels look like: little-endian words by category · kShades + shade. */
export interface Inks {
  full: Uint32Array;
  dimmed: Uint32Array;
  /** Under the upper edge of a box. */
  edge: Uint32Array;
  chosen: number;
}

export const kShades = 8;
/** Boxes · columns that a frame may look at: beyond it the smallest are drawn as one. */
const kMostWork = 800_000;
/** Allocations that are passed over together where all of them end before the stretch. */
const kChunk = 256;
const kEdge_px = 4;   // lower boxes have no edge

/** A part of a column: an allocation, or the small ones of a category (-1 - category). */
export interface Piece {
  allocation: number;
  from: number;
  to: number;
}

interface Seen {
  id: Int32Array;
  first: Int32Array;
  last: Int32Array;
  count: number;
}

const kCategories = kMemoryCategories.length;

export class MemoryStrip {
  /** By column: the moment that it shows. */
  moments = new Float64Array(0);
  private readonly seen_: Seen = { id: new Int32Array(0), first: new Int32Array(0), last: new Int32Array(0), count: 0 };
  /** By category · columns + column: bytes of what is too small to be drawn. */
  private small_ = new Float64Array(0);
  private columns_ = 0;
  private least_ = 0;
  private lanes_: { category: number; high: number }[] | undefined;   // of what was prepared last

  /** By chunk of allocations: the last moment at which one of them ends. */
  private readonly chunk_ends_: Float64Array;

  constructor(readonly history: HeldHistory) {
    const { end, count } = history.allocations;
    this.chunk_ends_ = new Float64Array(Math.ceil(count / kChunk));
    for (let i = 0; i < count; i++) this.chunk_ends_[Math.floor(i / kChunk)] = Math.max(this.chunk_ends_[Math.floor(i / kChunk)], end[i]);
  }

  /** Allocations of at least this many bytes are drawn one by one. */
  get least_bytes(): number {
    return this.least_;
  }

  /** Works out what is seen of a stretch in so many columns. */
  prepare({ from, to }: Stretch, columns: number): void {
    this.columns_ = columns;
    this.lanes_ = undefined;
    this.sample(from, to, columns);
    const { bytes, count } = this.history.allocations;
    const { category } = this.history;
    if (this.seen_.id.length < count) for (const key of ['id', 'first', 'last'] as const) this.seen_[key] = new Int32Array(count);
    if (this.small_.length !== (columns + 1) * kCategories) this.small_ = new Float64Array((columns + 1) * kCategories);
    this.small_.fill(0);
    const work = new Float64Array(64);   // by the size's power of two
    const seen = this.look(from, columns / (to - from), work);
    let [power, sum] = [63, work[63]];
    while (power > 0 && sum + work[power - 1] <= kMostWork) sum += work[--power];
    this.least_ = power === 0 ? 0 : 2 ** power;
    let kept = 0;
    for (let k = 0; k < seen; k++) {
      const [id, first, last] = [this.seen_.id[k], this.seen_.first[k], this.seen_.last[k]];
      if (bytes[id] >= this.least_) {
        [this.seen_.id[kept], this.seen_.first[kept], this.seen_.last[kept]] = [id, first, last];
        kept++;
      } else {
        this.small_[category[id] * (columns + 1) + first] += bytes[id];
        this.small_[category[id] * (columns + 1) + last] -= bytes[id];
      }
    }
    this.seen_.count = kept;
    for (let c = 0; c < kCategories; c++)
      for (let x = 1; x <= columns; x++) this.small_[c * (columns + 1) + x] += this.small_[c * (columns + 1) + x - 1];
  }

  // All that is alive at a moment of a column, with the columns that it spans.
  private look(from: number, scale: number, work: Float64Array): number {
    const { made, end, bytes, count } = this.history.allocations;
    const { moments, columns_: columns, seen_: { id, first, last } } = this;
    const [first_moment, last_moment] = [moments[0], moments[columns - 1]];
    let seen = 0;
    for (let i = 0; i < count && made[i] <= last_moment; i++) {
      if (i % kChunk === 0 && this.chunk_ends_[i / kChunk] <= first_moment) {
        i += kChunk - 1;
        continue;
      }
      if (end[i] <= first_moment) continue;
      let x = Math.max(0, Math.min(columns - 1, Math.floor((made[i] - from) * scale)));
      while (x > 0 && moments[x - 1] >= made[i]) x--;
      while (x < columns && moments[x] < made[i]) x++;
      // Most are gone before the next moment that is shown.
      if (x >= columns || moments[x] >= end[i]) continue;
      let y = end[i] > last_moment ? columns : Math.max(x, Math.min(columns - 1, Math.floor((end[i] - from) * scale)));
      while (y > x && moments[y - 1] >= end[i]) y--;
      while (y < columns && moments[y] < end[i]) y++;
      id[seen] = i;
      first[seen] = x;
      last[seen++] = y;
      work[sizeClass(bytes[i])] += y - x;
    }
    return seen;
  }

  private sample(from: number, to: number, columns: number): void {
    const { allocated, events } = this.history;
    if (this.moments.length !== columns) this.moments = new Float64Array(columns);
    const per = (to - from) / columns;
    for (let x = 0; x < columns; x++) {
      const start = Math.max(0, Math.min(events, Math.floor(from + x * per)));
      const stop = Math.max(start + 1, Math.min(events + 1, Math.floor(from + (x + 1) * per)));
      let best = start;
      for (let m = start + 1; m < stop; m++) if (allocated[m] > allocated[best]) best = m;
      this.moments[x] = best;
    }
  }

  /** The highest level of each category in the stretch, for lanes of its own scale. */
  private laneHeights(): Float64Array {
    const high = new Float64Array(kCategories);
    const columns = this.columns_;
    const level = new Float64Array(kCategories * (columns + 1));
    for (let k = 0; k < this.seen_.count; k++) {
      const id = this.seen_.id[k];
      const at = this.history.category[id] * (columns + 1);
      level[at + this.seen_.first[k]] += this.history.allocations.bytes[id];
      level[at + this.seen_.last[k]] -= this.history.allocations.bytes[id];
    }
    for (let c = 0; c < kCategories; c++) {
      let sum = 0;
      for (let x = 0; x < columns; x++) {
        sum += level[c * (columns + 1) + x];
        high[c] = Math.max(high[c], sum + this.small_[c * (columns + 1) + x]);
      }
    }
    return high;
  }

  /** Categories with a lane, by their highest level, and that level. */
  lanes(): { category: number; high: number }[] {
    return (this.lanes_ ??= Array.from(this.laneHeights(), (high, category) => ({ category, high }))
      .filter(({ high }) => high > 0).sort((a, b) => b.high - a.high));
  }

  /** Fills the picture, one word a pixel, `height` rows. `matches`: by allocation; undefined: no search. */
  paint(words: Uint32Array, height: number, stretch: Stretch, by: Arrangement, inks: Inks, matches: Uint8Array | undefined, chosen: number): void {
    const columns = this.columns_;
    words.fill(0);
    const { bytes } = this.history.allocations;
    const { category, node } = this.history;
    const place = this.placing(height, stretch, by);
    this.walk(by, (x, from, to, piece) => {
      const of = piece < 0 ? -1 - piece : category[piece];
      const { base, scale, top } = place(of);
      const y0 = base - from * scale;
      const y1 = base - to * scale;
      const first = Math.max(top, Math.ceil(y1 - 0.5));
      const last = Math.min(height - 1, Math.min(base, Math.ceil(y0 - 0.5)) - 1);
      if (last < first) return;
      const shade = of * kShades + (piece < 0 ? 0 : shadeOf(node[piece] || bytes[piece]));
      const fades = matches !== undefined && (piece < 0 || !matches[piece]);
      const ink = piece === chosen ? inks.chosen : (fades ? inks.dimmed : inks.full)[shade];
      for (let y = first; y <= last; y++) words[y * columns + x] = ink;
      if (y0 - y1 >= kEdge_px && piece >= 0 && first > y1 - 1) words[first * columns + x] = inks.edge[shade];
    });
  }

  /** Of a category: the lower edge in pixels, pixels a byte, and the uppermost row. */
  private placing(height: number, { low, high }: Stretch, by: Arrangement): (category: number) => { base: number; scale: number; top: number } {
    if (by !== 'lanes') {
      const scale = height / Math.max(1, high - low);
      const all = { base: height + low * scale, scale, top: 0 };
      return () => all;
    }
    const lanes = this.lanes();
    const tall = height / Math.max(1, lanes.length);
    const places = new Map(lanes.map(({ category, high: most }, i) =>
      [category, { base: Math.round((i + 1) * tall) - 1, scale: (tall - kLaneTitle) / Math.max(1, most), top: Math.round(i * tall) }]));
    const none = { base: 0, scale: 0, top: 0 };
    return (category) => places.get(category) ?? none;
  }

  /** Every piece of every column: from and to in bytes above the lower edge of its place. */
  private walk(by: Arrangement, visit: (x: number, from: number, to: number, piece: number) => void): void {
    const columns = this.columns_;
    const { bytes } = this.history.allocations;
    const { category } = this.history;
    const lists: number[][] = Array.from({ length: by === 'made' ? 1 : kCategories }, () => []);
    const order = beginnings(this.seen_, columns);
    let next = 0;
    for (let x = 0; x < columns; x++) {
      for (; next < order.length && this.seen_.first[order[next]] === x; next++) {
        const k = order[next];
        lists[by === 'made' ? 0 : category[this.seen_.id[k]]].push(k);
      }
      let at = 0;
      for (let l = 0; l < lists.length; l++) {
        const list = lists[l];
        if (by === 'lanes') at = 0;
        let kept = 0;
        for (let j = 0; j < list.length; j++) {
          const k = list[j];
          if (this.seen_.last[k] <= x) continue;
          list[kept++] = k;
          const id = this.seen_.id[k];
          visit(x, at, at + bytes[id], id);
          at += bytes[id];
        }
        list.length = kept;
        if (by === 'made') continue;
        at = this.rest(x, l, at, visit);
      }
      if (by === 'made') for (let c = 0; c < kCategories; c++) at = this.rest(x, c, at, visit);
    }
  }

  private rest(x: number, category: number, at: number, visit: (x: number, from: number, to: number, piece: number) => void): number {
    const small = this.small_[category * (this.columns_ + 1) + x];
    if (small > 0) visit(x, at, at + small, -1 - category);
    return at + Math.max(0, small);
  }

  /** What is at a pixel; undefined: nothing. */
  at(x: number, y: number, height: number, stretch: Stretch, by: Arrangement): Piece | undefined {
    const place = this.placing(height, stretch, by);
    return this.pieces(x, by).find(({ allocation, from, to }) => {
      const { base, scale } = place(allocation < 0 ? -1 - allocation : this.history.category[allocation]);
      return base - to * scale <= y && y < base - from * scale;
    });
  }

  /** All pieces of a column, from the lowest up. */
  pieces(x: number, by: Arrangement): Piece[] {
    const moment = this.moments[x];
    const { bytes, made, end } = this.history.allocations;
    const lists: number[][] = Array.from({ length: by === 'made' ? 1 : kCategories }, () => []);
    for (let k = 0; k < this.seen_.count; k++) {
      const id = this.seen_.id[k];
      if (made[id] <= moment && moment < end[id]) lists[by === 'made' ? 0 : this.history.category[id]].push(id);
    }
    const found: Piece[] = [];
    let at = 0;
    const add = (allocation: number, size: number) => {
      if (size <= 0) return;
      found.push({ allocation, from: at, to: at + size });
      at += size;
    };
    const small = (category: number) => add(-1 - category, this.small_[category * (this.columns_ + 1) + x]);
    lists.forEach((list, l) => {
      if (by === 'lanes') at = 0;
      for (const id of list) add(id, bytes[id]);
      if (by !== 'made') small(l);
    });
    if (by === 'made') for (let c = 0; c < kCategories; c++) small(c);
    return found;
  }
}

/** Pixels of a lane that its title takes. */
export const kLaneTitle = 16;

/** Neighbours that were allocated at different places differ a little. */
function shadeOf(seed: number): number {
  return ((seed * 2654435761) >>> 0) >>> 29;
}

function sizeClass(bytes: number): number {
  return bytes < 2 ** 31 ? 31 - Math.clz32(Math.max(1, bytes)) : Math.min(63, Math.floor(Math.log2(bytes)));
}

// Numbers of what is seen by the column where it begins, in the order in which they were made.
function beginnings({ first, count }: Seen, columns: number): Int32Array {
  const starts = new Int32Array(columns + 1);
  for (let k = 0; k < count; k++) starts[Math.min(columns, first[k] + 1)]++;
  for (let x = 1; x <= columns; x++) starts[x] += starts[x - 1];
  const order = new Int32Array(count);
  for (let k = 0; k < count; k++) order[starts[first[k]]++] = k;
  return order;
}
