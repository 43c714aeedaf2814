// Rows of the roofline: what binds them, their table, and where they are in the timeline.

import { swatch } from './bars';
import { shown } from './dom';
import { isEventTrack, longestEvent, withMargin } from './evidence';
import { count, fieldText, number, percent } from './quantity';
import { timeColumn, type Column } from './table';
import { element } from './dom';
import type { Context, Stretch } from './view';
import type { RooflineRow } from './report';

const kBounds: Record<string, string> = { compute: 'limit:products', memory: 'limit:memory_bound', latency: 'limit:small_kernels' };
export const kBoundTitles: Record<string, string> = {
  compute: 'bound by compute', memory: 'bound by memory', latency: 'too small for the GPU', unknown: 'limit not known', recomputed: 'recomputation',
};

/** As the part of the distance that it adds to. */
export function boundOf(row: RooflineRow): string {
  return row.recomputed ? 'recomputed' : kBoundTitles[row.bound] ? row.bound : 'unknown';
}

export function categoryOfBound(row: RooflineRow): string {
  return row.recomputed ? 'limit:recomputation' : kBounds[row.bound] ?? 'limit:unknown_work';
}

const squeezed = (text: string) => text.replace(/\s/g, '');

// Calls with the row's shapes, where the timeline has the arguments.
function longestCall({ data, rank }: Context, { name, shapes }: RooflineRow): Stretch | undefined {
  if (shapes === null) return undefined;
  const wanted = squeezed(shapes);
  const has_shapes = data.args.map((args) => args.shapes !== undefined && squeezed(args.shapes) === wanted);
  let found: Stretch | undefined;
  let longest = -1;
  for (const track of data.tracks) {
    if (!isEventTrack(track) || track.rank !== rank.rank || track.kind !== 'thread' || track.args === undefined) continue;
    const names = data.column(track.name);
    const args = data.column(track.args);
    const starts = data.column(track.start, 'delta');
    const durations = data.column(track.duration);
    for (let i = 0; i < durations.length; i++) {
      if (durations[i]! <= longest || !has_shapes[args[i]!] || data.strings[names[i]!] !== name) continue;
      longest = durations[i]!;
      found = { start_ns: starts[i]!, end_ns: starts[i]! + longest, target: { event: track.first + i } };
    }
  }
  return found;
}

/** The longest call of the kernel or operator; undefined where the file's timeline holds none. */
export function stretchOf(context: Context, row: RooflineRow): Stretch | undefined {
  const { data, rank } = context;
  const kinds = row.shapes === null && rank.kernels.some((kernel) => kernel.name === row.name) ? (['stream'] as const) : (['thread'] as const);
  const found = longestCall(context, row) ?? longestEvent(data, rank.rank, [...kinds], (name) => name === row.name);
  return found && withMargin(found, data.span_ns, 2);
}

export function rooflineColumns(whole_ns: number, name: (row: RooflineRow) => string): Column<RooflineRow>[] {
  return [
    { key: 'name', title: 'Name', wide: true, cell: (row) => element('span', {}, swatch(categoryOfBound(row)), shown(name(row))), order: name },
    { key: 'bound', title: 'Bound', cell: (row) => (row.recomputed ? 'recomputed' : row.bound), order: boundOf },
    { key: 'precision', title: 'Precision', spare: true, cell: (row) => (row.precision ?? '').toUpperCase(), order: (row) => row.precision },
    { key: 'count', title: 'Calls', numeric: true, cell: (row) => count(row.count), order: (row) => row.count },
    timeColumn('total', 'Total', (row) => row.total_ns, 'Device time of all calls in the measured steps'),
    { key: 'share', title: 'Of all', spare: true, numeric: true, cell: (row) => percent((100 * row.total_ns) / (whole_ns || 1)), order: (row) => row.total_ns },
    timeColumn('beyond', 'Over limit', (row) => beyond(row), 'What its time is above the shortest that the device could take'),
    { key: 'limit', title: 'Of limit', help: 'The shortest time that the device could take, as a share of the time', numeric: true, cell: (row) => percent(row.limit_pct), order: (row) => row.limit_pct },
    { key: 'tflops', title: 'TFLOP/s', numeric: true, cell: (row) => number(row.tflops), order: (row) => row.tflops },
    { key: 'gbps', title: 'GB/s', spare: true, numeric: true, cell: (row) => fieldText(row.memory_gbps, 'gbps'), order: (row) => row.memory_gbps },
    { key: 'intensity', title: 'FLOP/byte', spare: true, numeric: true, cell: (row) => number(row.intensity), order: (row) => row.intensity },
  ];
}

export function beyond(row: RooflineRow): number | null {
  return row.limit_ns === null ? null : Math.max(0, row.total_ns - row.limit_ns);
}
