// The events of a track as rows of disjoint stretches, which is what drawing, hit tests and levels of detail work on.

import { kernelNames } from '../kernel_names';
import { CounterLevels } from './counter_levels';
import type { ClockReason, CounterTrack, EventTrack, Numbers, PageData, SampleSeries, Series, TrackKind } from '../page_data';

/** An event: its track and its place there. */
export interface EventPlace {
  track: TrackEvents;
  at: number;
}

/** Events of one track that do not overlap, as places in the track's columns, by start. */
export class Row {
  constructor(
    readonly track: TrackEvents,
    readonly ids: Uint32Array,
  ) {}

  /** Number of the first event of the row that ends after `time`; at least `from`. */
  firstEndingAfter(time: number, from = 0): number {
    const { start, duration } = this.track;
    return firstEndingAfter(this.ids, start, duration, time, from);
  }
}

/** Gallops from `from`, since what is asked for is usually near. */
export function firstEndingAfter(
  ids: Uint32Array,
  start: Numbers,
  duration: Numbers,
  time: number,
  from: number,
): number {
  let low = from;
  let step = 1;
  let high = from;
  while (high < ids.length && start[ids[high]] + duration[ids[high]] <= time) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  high = Math.min(high, ids.length);
  while (low < high) {
    const middle = (low + high) >> 1;
    const id = ids[middle];
    if (start[id] + duration[id] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

const kMostLanes = 8;

export class TrackEvents {
  readonly kind: TrackKind;
  readonly rank: number;
  readonly group: string;
  /** Empty until `prepare`. */
  rows: Row[] = [];
  count = 0;
  start: Numbers = new Float64Array(0);
  duration: Numbers = new Float64Array(0);
  category: Numbers = new Uint8Array(0);
  depth: Numbers = new Uint8Array(0);
  prepared = false;
  /** Categories of its events. */
  readonly used = new Set<number>();
  /** Rows that the track has, or one that is not prepared is taken to have. */
  row_count = 1;

  constructor(
    readonly data: PageData,
    readonly header: EventTrack,
  ) {
    this.kind = header.kind;
    this.rank = header.rank;
    this.group = header.group;
    this.depth = data.column(header.depth);
    for (let i = 0; i < this.depth.length; i++) if (this.depth[i] >= this.row_count) this.row_count = this.depth[i] + 1;
    this.row_count = Math.min(this.row_count, 1024);
  }

  prepare(): void {
    if (this.prepared) return;
    this.prepared = true;
    const { data, header } = this;
    this.start = data.column(header.start, 'delta');
    this.duration = data.column(header.duration);
    this.category = data.column(header.category);
    this.count = Math.min(this.start.length, this.duration.length, this.category.length);
    let last = -1;
    for (let i = 0; i < this.count; i++) if (this.category[i] !== last) this.used.add((last = this.category[i]));
    const row_of = header.depth === undefined ? this.lanes() : this.depth;
    this.rows = splitRows(this, row_of, this.row_count);
  }

  name(at: number): string {
    return this.data.strings[this.names[at]] ?? '(name missing)';
  }

  get names(): Numbers {
    return this.data.column(this.header.name);
  }
  get args(): Numbers {
    return this.data.column(this.header.args);
  }
  get links(): Numbers {
    return this.data.column(this.header.link);
  }
  get slow(): Numbers {
    return this.data.column(this.header.slow);
  }

  categoryId(at: number): string {
    return this.data.categories[this.category[at]] ?? 'other';
  }

  end(at: number): number {
    return this.start[at] + this.duration[at];
  }

  depthOf(at: number): number {
    return this.row_of_?.[at] ?? this.depth[at] ?? 0;
  }

  private row_of_: Uint8Array | undefined;

  // Events of a stream or of collectives may run beside each other: each goes to the first lane that is free. Clocks
  // that round let neighbours overlap a little, which is no reason for another lane.
  private lanes(): Uint8Array {
    const ends: number[] = [];
    const lanes = new Uint8Array(this.count);
    for (let i = 0; i < this.count; i++) {
      const tolerance = Math.min(1000, this.duration[i] / 4);
      const end = this.end(i);
      let lane = 0;
      while (
        lane < ends.length &&
        lane < kMostLanes - 1 &&
        (this.start[i] < ends[lane] - tolerance || end < ends[lane])
      )
        lane++;
      lanes[i] = lane;
      ends[lane] = Math.max(ends[lane] ?? 0, end);
    }
    this.row_count = Math.max(1, ends.length);
    this.row_of_ = lanes;
    return lanes;
  }
}

function splitRows(track: TrackEvents, row_of: Numbers, row_count: number): Row[] {
  const sizes = new Uint32Array(row_count);
  const rowAt = (i: number) => Math.min(row_of[i] ?? 0, row_count - 1);
  for (let i = 0; i < track.count; i++) sizes[rowAt(i)]++;
  const ids = Array.from(sizes, (size) => new Uint32Array(size));
  sizes.fill(0);
  for (let i = 0; i < track.count; i++) {
    const row = rowAt(i);
    ids[row][sizes[row]++] = i;
  }
  return ids.map((of_row) => new Row(track, of_row));
}

/** A quantity over time: a value holds until the next. */
export class Counter {
  readonly kind = 'counter';
  private levels_: CounterLevels | undefined;

  /** `bit`: the values are masks, and this is whether they have it. */
  constructor(
    readonly data: PageData,
    readonly series: Series,
    readonly group: string,
    readonly rank: number,
    readonly bit?: number,
  ) {}

  get levels(): CounterLevels {
    return (this.levels_ ??= new CounterLevels(this.data.column(this.series.time, 'delta'), this.values()));
  }

  private values(): Numbers {
    const { bit, series } = this;
    const values = this.data.column(series.value, 'zigzag');
    return bit === undefined ? values : Uint8Array.from(values, (v) => (Math.round(v * series.scale) & bit ? 1 : 0));
  }

  /** Place of the value that holds at `time`; -1 before the first. */
  at(time: number): number {
    return this.levels.before(time, 0) - 1;
  }
}

export type TrackModel = TrackEvents | Counter;

const models = new WeakMap<PageData, Model>();

/** One model for all views: rows of tracks are made once. */
export function modelOf(data: PageData): Model {
  let model = models.get(data);
  if (!model) models.set(data, (model = new Model(data)));
  return model;
}

// A device's host: what samples of several hosts are told apart by, and tracks by their rank.
export const kOfHost = / of .*$/;

export class Model {
  readonly tracks: TrackModel[] = [];
  readonly event_tracks: TrackEvents[];
  /** Names of kernels, as every view shows them, by their full ones. */
  readonly short_names: Map<string, string>;

  constructor(readonly data: PageData) {
    for (const header of data.tracks) {
      this.tracks.push(header.kind === 'counter' ? counterOf(data, header) : new TrackEvents(data, header));
    }
    for (const series of data.samples) this.addSamples(series);
    this.event_tracks = this.tracks.filter((t): t is TrackEvents => t instanceof TrackEvents);
    this.short_names = kernelNames(data);
  }

  // Next to what the device did, so that both can be seen together.
  private addSamples(series: SampleSeries): void {
    const rank = series.rank ?? this.data.ranks[0]?.rank ?? 0;
    const under = `GPU ${series.device} samples`;
    const group = `GPU ${series.device.replace(kOfHost, '')}`;
    const counters =
      series.metric === 'clock_event_reasons'
        ? this.flags(series).map(({ bit, words }) => {
            return new Counter(this.data, { ...series, title: `held back: ${words}`, unit: '' }, under, rank, bit);
          })
        : [new Counter(this.data, { ...series, title: series.title || series.metric }, under, rank)];
    const beside = this.tracks
      .map((track) => track.rank === rank && [group, under].includes(track.group))
      .lastIndexOf(true);
    this.tracks.splice(beside < 0 ? this.tracks.length : beside + 1, 0, ...counters);
  }

  /** The bits that any of the series' masks has: each becomes a lane of its own. */
  private flags({ value, scale }: SampleSeries): ClockReason[] {
    let any = 0;
    for (const v of this.data.column(value, 'zigzag')) any |= Math.round(v * scale);
    return this.data.reasons.filter(({ bit }) => (any & bit) !== 0);
  }

  /** The event of a number; undefined where the numbers of a damaged pack lead nowhere. */
  place(event: number): EventPlace | undefined {
    for (const track of this.event_tracks) {
      const at = event - track.header.first;
      if (at < 0 || at >= track.header.events) continue;
      track.prepare();
      return at < track.count ? { track, at } : undefined;
    }
    return undefined;
  }

  number({ track, at }: EventPlace): number {
    return track.header.first + at;
  }

  label({ track, at }: EventPlace): string {
    const name = track.name(at);
    return this.short_names.get(name) ?? name;
  }
}

function counterOf(data: PageData, header: CounterTrack): Counter {
  return new Counter(data, header, header.group, header.rank);
}
