// What the page knows: the pack's header as `web/README.md` describes it, after checking, and its columns, decoded on
// demand. Times are nanoseconds since `origin_ns`.

/** A column's index in the header's list. */
export type ColumnIndex = number;

export type Numbers = Uint8Array | Uint32Array | Float64Array;

/** How a column's numbers stand in the pack. */
export type Encoding = 'plain' | 'delta' | 'zigzag';

export type TrackKind = 'step' | 'phase' | 'idle' | 'stream' | 'collective' | 'thread' | 'sync' | 'counter';

export interface Density {
  bin_ns: number;
  category: ColumnIndex;
  /** Share of the bin that any event covers, 0..255. */
  busy: ColumnIndex;
}

interface TrackBase {
  rank: number;
  group: string;
  title: string;
}

export interface EventTrack extends TrackBase {
  kind: Exclude<TrackKind, 'counter'>;
  /** Number of its first event. */
  first: number;
  events: number;
  start: ColumnIndex;
  duration: ColumnIndex;
  name: ColumnIndex;
  category: ColumnIndex;
  depth?: ColumnIndex;
  args?: ColumnIndex;
  link?: ColumnIndex;
  slow?: ColumnIndex;
  density?: Density;
}

/** A quantity over time. Its values times `scale` are in `unit`. */
export interface Series {
  title: string;
  unit: string;
  time: ColumnIndex;
  value: ColumnIndex;
  scale: number;
}

export interface CounterTrack extends TrackBase, Series {
  kind: 'counter';
}

export type Track = EventTrack | CounterTrack;

/** A call tree; node i is row i of every column, parents stand before their children. */
export interface FlameTree {
  title: string;
  parent: ColumnIndex;
  name: ColumnIndex;
  total_ns: ColumnIndex;
  self_ns: ColumnIndex;
  device_ns: ColumnIndex;
  calls: ColumnIndex;
  category: ColumnIndex;
}

export interface KernelHistogram {
  device: number;
  name: string;
  histogram: { from_ns: number; to_ns: number; counts: number[] };
}

export interface MemoryOverTime {
  device: number;
  time: ColumnIndex;
  allocated: ColumnIndex;
  reserved: ColumnIndex;
  peak_ns?: number;
  held: { op: string; stack: string; bytes: number; blocks: number }[];
}

/** A stretch in which a device did nothing. */
export interface Gap {
  device: number;
  start: number;
  duration: number;
  cause: string;
  after: string;
  before: string;
  host: string;
}

/** A step's use of the device's peak rate. */
export interface Utilization {
  /** Its place in the report's `steps`. */
  step: number;
  mfu_pct: number;
  hfu_pct: number;
}

/** All stacks of a memory snapshot; node i is row i of `parent` and `frame`, a frame's number a row of the others. */
export interface MemoryStacks {
  parent: ColumnIndex;
  frame: ColumnIndex;
  name: ColumnIndex;
  file: ColumnIndex;
  line: ColumnIndex;
}

/** What is held when: `made` is 1 + the event's place, 0 before the first; `events` how long, 0 to the end. */
export interface MemoryHolds {
  made: ColumnIndex;
  events: ColumnIndex;
  bytes: ColumnIndex;
  address: ColumnIndex;
}

/** A device's events in a memory snapshot, and what they allocated and reserved. */
export interface MemoryHistory {
  device: number;
  all_events: number;
  first: number;
  start_us?: bigint;
  time: ColumnIndex;
  action: ColumnIndex;
  addresses: ColumnIndex;
  allocations: MemoryHolds;
  /** 1 + node of the stacks, 0 for none. */
  stack: ColumnIndex;
  /** 3 · category + how sure. */
  kind: ColumnIndex;
  segments: MemoryHolds;
  stream: ColumnIndex;
  streams: string[];
}

export interface SnapshotData {
  stacks: MemoryStacks;
  histories: MemoryHistory[];
}

export interface Rank {
  rank: number;
  /** What a time of the report, on the rank's own clock, is moved by to be one of the page. */
  shift_ns: bigint;
  flame: FlameTree[];
  kernels: KernelHistogram[];
  memory?: MemoryOverTime;
  /** Longest first. */
  gaps: Gap[];
  utilization: Utilization[];
  snapshot?: SnapshotData;
}

export interface SampleSeries extends Series {
  device: string;
  rank?: number;
  metric: string;
}

export interface ClockReason {
  bit: number;
  words: string;
}

/** The document of `analyze --json`; a view types the parts that it reads. */
export type Report = Record<string, unknown>;

export interface PageData {
  report: Report;
  /** The trace's own clock at 0; exact, unlike a number. */
  origin_ns: bigint;
  unix_origin_ns?: bigint;
  span_ns: number;
  /** Windows whose events are all there, in order and apart. */
  kept: [number, number][];
  events: number;
  events_kept: number;
  strings: string[];
  categories: string[];
  args: Record<string, string>[];
  tracks: Track[];
  ranks: Rank[];
  samples: SampleSeries[];
  /** Bits of the series of metric clock_event_reasons, and what holds clocks back. */
  reasons: ClockReason[];
  /** Within `kept`, host ranges that are shorter and launch nothing were left out. */
  host_least_ns: number;
  /** Ranks of the report whose events are in no track, tree or other part of the page. */
  without_events: number[];
  /** A column's numbers, decoded at the first call. Shorter than the header says where the pack is damaged. */
  column(index: ColumnIndex | undefined, encoding?: Encoding): Numbers;
  /** What of the pack could not be read, as sentences; grows while columns are decoded. */
  damage: string[];
}
