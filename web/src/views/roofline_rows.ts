// Rows of the roofline: what binds them, their table, and where they are in the timeline.

import { swatch } from './bars';
import { shown } from './dom';
import { longestEvent, withMargin } from './evidence';
import { count, fieldText, number, percent } from './quantity';
import { timeColumn, type Column } from './table';
import { element } from './dom';
import type { Context, Stretch } from './view';
import type { RooflineRow } from './report';

const kBounds: Record<string, string> = { compute: 'limit:products', memory: 'limit:memory_bound', latency: 'limit:small_kernels' };
export const kBoundTitles: Record<string, string> = {
  compute: 'bound by compute', memory: 'bound by memory', latency: 'bound by latency: too small for the GPU', unknown: 'limit not known', recomputed: 'recomputation',
};

/** As the part of the distance that it adds to. */
export function boundOf(row: RooflineRow): string {
  return row.recomputed ? 'recomputed' : kBoundTitles[row.bound] ? row.bound : 'unknown';
}

export function categoryOfBound(row: RooflineRow): string {
  return row.recomputed ? 'limit:recomputation' : kBounds[row.bound] ?? 'limit:unknown_work';
}

const squeezed = (text: string) => text.replace(/\s/g, '');
/** Long texts of the timeline are cut. */
const isSame = (cut: string, whole: string) => cut === whole || (cut.endsWith('…') && whole.startsWith(cut.slice(0, -1)));

/** The longest call of the kernel, or of the operator with these shapes; undefined where the file's timeline holds none. */
export function stretchOf({ data, rank }: Context, { name, shapes }: RooflineRow): Stretch | undefined {
  const is_kernel = shapes === null && rank.kernels.some((kernel) => kernel.name === name);
  const wanted = shapes === null ? '' : squeezed(shapes);
  const args = shapes === null ? undefined : data.args.map((of) => of.shapes !== undefined && isSame(squeezed(of.shapes), wanted));
  const found = longestEvent(data, rank.rank, [is_kernel ? 'stream' : 'thread'], (of) => of === name, { args });
  return found && withMargin(found, data.span_ns, 2);
}

/** `whole_ns`: of all rows that are shown. */
export function rooflineColumns(whole_ns: () => number, name: (row: RooflineRow) => string): Column<RooflineRow>[] {
  return [
    { key: 'name', title: 'Name', wide: true, cell: (row) => element('span', {}, swatch(categoryOfBound(row)), shown(name(row))), order: name },
    { key: 'bound', title: 'Bound', roomy: true, cell: (row) => (row.recomputed ? 'recomputed' : row.bound), order: boundOf },
    { key: 'precision', title: 'Precision', spare: true, cell: (row) => (row.precision ?? '').toUpperCase(), order: (row) => row.precision },
    { key: 'count', title: 'Calls', numeric: true, roomy: true, cell: (row) => count(row.count), order: (row) => row.count },
    timeColumn('total', 'Total', (row) => row.total_ns, 'Device time of all calls in the measured steps'),
    { key: 'share', title: 'Of all', spare: true, numeric: true, cell: (row) => percent((100 * row.total_ns) / (whole_ns() || 1)), order: (row) => row.total_ns },
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
