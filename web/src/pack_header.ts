// Checks a pack's header. The rest of the page relies on the types of `page_data.ts`, so nothing passes here unchecked.

import type {
  ClockReason,
  ColumnIndex,
  CounterTrack,
  Density,
  EventTrack,
  FlameTree,
  Gap,
  KernelHistogram,
  MemoryHistory,
  MemoryHolds,
  MemoryOverTime,
  Rank,
  Report,
  SampleSeries,
  Series,
  SnapshotData,
  Track,
  TrackKind,
} from './page_data';

export interface Header {
  report: Report;
  origin_ns: bigint;
  unix_origin_ns?: bigint;
  span_ns: number;
  kept: [number, number][];
  events: number;
  events_kept: number;
  strings: string[];
  categories: string[];
  args: Record<string, string>[];
  tracks: Track[];
  ranks: Rank[];
  samples: SampleSeries[];
  reasons: ClockReason[];
  host_least_ns: number;
  without_events: number[];
  columns: [number, number, number][];
}

type Json = Record<string, unknown>;

const kVersion = 1;
const kEventKinds: ReadonlySet<string> = new Set<TrackKind>([
  'step',
  'phase',
  'idle',
  'stream',
  'collective',
  'thread',
  'sync',
]);

export function checkedHeader(json: unknown, damage: string[]): Header {
  if (!isObject(json)) throw new Error("the header of this page's data is damaged");
  if (json.version !== kVersion)
    throw new Error(`this page reads packs of version ${kVersion}, and its data has another`);
  const columns = list(json.columns).map(columnPlace);
  const check = new HeaderCheck(columns.length, damage);
  const strings = list(json.strings).map(text);
  return {
    report: isObject(json.report) ? json.report : {},
    origin_ns: bigint(json.origin_ns) ?? 0n,
    unix_origin_ns: bigint(json.unix_origin_ns),
    span_ns: Math.max(1, number(json.span_ns)),
    kept: list(json.kept)
      .map(window)
      .filter(([start, end]) => start < end)
      .sort((a, b) => a[0] - b[0]),
    events: number(json.events),
    events_kept: number(json.events_kept),
    strings,
    categories: list(json.categories).map(text),
    args: list(json.args).map((a) =>
      isObject(a) ? Object.fromEntries(Object.entries(a).map(([k, v]) => [k, text(v)])) : {},
    ),
    tracks: list(json.tracks)
      .map((t) => check.track(t))
      .filter((t) => t !== undefined),
    ranks: objects(json.ranks).map((r) => check.rank(r, bigint(json.origin_ns) ?? 0n)),
    samples: objects(json.samples)
      .map((s) => check.samples(s))
      .filter((s) => s !== undefined),
    reasons: objects(json.reasons).map((r) => ({ bit: number(r.bit), words: text(r.words) })),
    host_least_ns: number(json.host_least_ns),
    without_events: list(json.without_events).map(number),
    columns,
  };
}

class HeaderCheck {
  constructor(
    private readonly columns_: number,
    private readonly damage_: string[],
  ) {}

  track(json: unknown): Track | undefined {
    if (!isObject(json)) return undefined;
    const base = { rank: number(json.rank), group: text(json.group), title: text(json.title) };
    const kind = text(json.kind);
    if (kind === 'counter') {
      const series = this.series(json);
      return series && ({ ...base, kind, ...series } satisfies CounterTrack);
    }
    const start = this.column(json.start);
    const duration = this.column(json.duration);
    const name = this.column(json.name);
    const category = this.column(json.category);
    if (
      !kEventKinds.has(kind) ||
      start === undefined ||
      duration === undefined ||
      name === undefined ||
      category === undefined
    ) {
      const why = kEventKinds.has(kind) ? 'columns are missing' : `its kind "${kind}" is unknown`;
      this.damage_.push(`The track "${base.title}" is left out: ${why}.`);
      return undefined;
    }
    return {
      ...base,
      kind: kind as EventTrack['kind'],
      first: number(json.first),
      events: number(json.events),
      start,
      duration,
      name,
      category,
      depth: this.column(json.depth),
      args: this.column(json.args),
      link: this.column(json.link),
      slow: this.column(json.slow),
      density: this.density(json.density),
    };
  }

  rank(json: Json, origin_ns: bigint): Rank {
    return {
      rank: number(json.rank),
      shift_ns: bigint(json.shift_ns) ?? -origin_ns,
      flame: objects(json.flame)
        .map((f) => this.flame(f))
        .filter((f) => f !== undefined),
      kernels: objects(json.kernels).map(kernelHistogram),
      memory: this.memory(json.memory),
      gaps: objects(json.gaps).map(gap),
      utilization: objects(json.utilization).map((u) => ({ step: number(u.step), mfu_pct: number(u.mfu_pct), hfu_pct: number(u.hfu_pct) })),
      snapshot: this.snapshot(json.snapshot),
    };
  }

  private snapshot(json: unknown): SnapshotData | undefined {
    if (!isObject(json)) return undefined;
    const stacks = this.columns(json.stacks, ['parent', 'frame', 'name', 'file', 'line']);
    const histories = objects(json.histories).map((h) => this.history(h)).filter((h) => h !== undefined);
    if (!stacks) this.damage_.push('The memory snapshot is left out: its stacks are missing.');
    return stacks && { stacks, histories };
  }

  private history(json: Json): MemoryHistory | undefined {
    const columns = this.columns(json, ['time', 'action', 'addresses', 'stack', 'kind', 'stream']);
    const allocations = this.holds(json.allocations);
    const segments = this.holds(json.segments);
    if (!columns || !allocations || !segments) {
      this.damage_.push(`The memory history of device ${number(json.device)} is left out: columns are missing.`);
      return undefined;
    }
    return {
      device: number(json.device), all_events: number(json.all_events), first: number(json.first), start_us: bigint(json.start_us),
      ...columns, allocations, segments, streams: list(json.streams).map(text),
    };
  }

  private holds(json: unknown): MemoryHolds | undefined {
    return this.columns(json, ['made', 'events', 'bytes', 'address']);
  }

  /** Undefined where one of them is missing. */
  private columns<Key extends string>(json: unknown, keys: Key[]): Record<Key, ColumnIndex> | undefined {
    if (!isObject(json)) return undefined;
    const found = keys.map((key) => [key, this.column(json[key])] as const);
    return found.some(([, index]) => index === undefined) ? undefined : (Object.fromEntries(found) as Record<Key, ColumnIndex>);
  }

  samples(json: Json): SampleSeries | undefined {
    const series = this.series(json);
    const rank = typeof json.rank === 'number' ? json.rank : undefined;
    return series && { ...series, device: text(json.device), rank, metric: text(json.metric) };
  }

  private series(json: Json): Series | undefined {
    const time = this.column(json.time);
    const value = this.column(json.value);
    if (time === undefined || value === undefined) return undefined;
    return {
      title: text(json.title),
      unit: text(json.unit),
      time,
      value,
      scale: json.scale === undefined ? 1 : number(json.scale),
    };
  }

  private density(json: unknown): Density | undefined {
    if (!isObject(json)) return undefined;
    const bin_ns = number(json.bin_ns);
    const category = this.column(json.category);
    const busy = this.column(json.busy);
    return bin_ns > 0 && category !== undefined && busy !== undefined ? { bin_ns, category, busy } : undefined;
  }

  private flame(json: Json): FlameTree | undefined {
    const columns = {
      parent: this.column(json.parent),
      name: this.column(json.name),
      total_ns: this.column(json.total_ns),
      self_ns: this.column(json.self_ns),
      device_ns: this.column(json.device_ns),
      calls: this.column(json.calls),
      category: this.column(json.category),
    };
    if (Object.values(columns).includes(undefined)) return undefined;
    return { title: text(json.title), ...(columns as Omit<FlameTree, 'title'>) };
  }

  private memory(json: unknown): MemoryOverTime | undefined {
    if (!isObject(json)) return undefined;
    const time = this.column(json.time);
    const allocated = this.column(json.allocated);
    const reserved = this.column(json.reserved);
    if (time === undefined || allocated === undefined || reserved === undefined) return undefined;
    const held = objects(json.held).map((h) => ({
      op: text(h.op),
      stack: text(h.stack),
      bytes: number(h.bytes),
      blocks: number(h.blocks),
    }));
    const peak_ns = typeof json.peak_ns === 'number' ? json.peak_ns : undefined;
    return { device: number(json.device), time, allocated, reserved, peak_ns, held };
  }

  private column(value: unknown): ColumnIndex | undefined {
    return Number.isInteger(value) && (value as number) >= 0 && (value as number) < this.columns_
      ? (value as number)
      : undefined;
  }
}

function kernelHistogram(json: Json): KernelHistogram {
  const histogram = isObject(json.histogram) ? json.histogram : {};
  return {
    device: number(json.device),
    name: text(json.name),
    histogram: {
      from_ns: number(histogram.from_ns),
      to_ns: number(histogram.to_ns),
      counts: list(histogram.counts).map(number),
    },
  };
}

function gap(json: Json): Gap {
  return {
    device: number(json.device),
    start: number(json.start),
    duration: number(json.duration),
    cause: text(json.cause),
    after: text(json.after),
    before: text(json.before),
    host: text(json.host),
  };
}

function columnPlace(json: unknown): [number, number, number] {
  const [offset, size, count] = list(json).map((n) => Math.max(0, Math.floor(number(n))));
  return [offset ?? 0, size ?? 0, count ?? 0];
}

function window(json: unknown): [number, number] {
  const [start, end] = list(json).map(number);
  return [start ?? 0, end ?? 0];
}

function isObject(json: unknown): json is Json {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}

function list(json: unknown): unknown[] {
  return Array.isArray(json) ? json : [];
}

function objects(json: unknown): Json[] {
  return list(json).filter(isObject);
}

function number(json: unknown): number {
  return typeof json === 'number' && Number.isFinite(json) ? json : 0;
}

function text(json: unknown): string {
  return typeof json === 'string' ? json : typeof json === 'number' ? String(json) : '';
}

function bigint(json: unknown): bigint | undefined {
  return typeof json === 'string' && /^-?\d{1,20}$/.test(json) ? BigInt(json) : undefined;
}
