// Device memory over time, and what held it at the peak.

import { append, element, shown, type Child } from './dom';
import { factList } from './facts';
import { bytes, count, counted, duration, kUnknown, percent } from './quantity';
import { seriesPlot, zoomTools, type Line, type SeriesPlot } from './series_plot';
import { DataTable } from './table';
import { peakExplained, snapshotFacts, snapshotNotes } from './memory_peak';
import { SnapshotView } from './memory_snapshot';
import type { MemoryOverTime } from '../page_data';
import { rankName, withoutEvents, type Context, type View } from './view';

type Held = MemoryOverTime['held'][number];

function known(context: Context): MemoryOverTime | undefined {
  const memory = context.data.ranks[context.rank_index]?.memory;
  return memory && context.data.column(memory.time, 'delta').length > 0 ? memory : undefined;
}

function summary(context: Context): HTMLElement {
  const { memory } = context.rank;
  const at = context.data.ranks[context.rank_index]?.memory?.peak_ns;
  const used = memory?.peak_reserved_bytes && memory.capacity_bytes ? ` (${percent((100 * memory.peak_reserved_bytes) / memory.capacity_bytes)} of capacity)` : '';
  const growth = memory?.growth_bytes_per_step;
  const pairs: [string, string][] = [
    ['Peak allocated', bytes(memory?.peak_allocated_bytes)], ['Peak reserved', bytes(memory?.peak_reserved_bytes) + used],
    ['Capacity', bytes(memory?.capacity_bytes)], ['Peak at', at === undefined ? kUnknown : duration(at)],
    ['Growth per step', bytes(growth)], ['Fragmentation', percent(memory?.fragmentation_pct)],
    ['Calls of the driver’s allocator', count(memory?.allocator_calls)],
  ];
  return factList(pairs, 'wide');
}

const kFramework = /^(torch\/|<built-in|aten::)/;

// Innermost first, so that what a table cuts off is what all stacks share; the framework's own frames tell no two apart.
function calledFrom(held: Held): string {
  const frames = held.stack.split('\n').reverse();
  const own = frames.filter((frame) => !kFramework.test(frame));
  return (own.length > 0 ? own : frames).join(' ‹ ') || kUnknown;
}

/** The innermost frame that is not the framework's: the line of the program that holds the memory. */
function sourceLine(held: Held): string {
  const own = held.stack.split('\n').reverse().filter((frame) => frame !== '' && !kFramework.test(frame));
  return own.find((frame) => /\.pyx?\(\d+\)/.test(frame)) ?? own[0] ?? (held.stack ? 'in the framework' : 'stack not recorded');
}

/** Blocks of one line together; what allocated them is listed in the place of the operator. */
function byLine(all: Held[]): Held[] {
  const lines = new Map<string, Held & { ops: Set<string> }>();
  for (const held of all) {
    const line = sourceLine(held);
    let sum = lines.get(line);
    if (!sum) lines.set(line, (sum = { op: '', stack: line, bytes: 0, blocks: 0, ops: new Set() }));
    sum.bytes += held.bytes;
    sum.blocks += held.blocks;
    if (held.op) sum.ops.add(held.op);
  }
  return [...lines.values()].map(({ ops, ...sum }) => ({ ...sum, op: [...ops].slice(0, 4).join(', ') })).sort((a, b) => b.bytes - a.bytes);
}

function heldDetail(held: Held): Child[] {
  return [
    element('h3', {}, shown(held.op || 'not known')), element('p', {}, held.blocks > 0 ? `${bytes(held.bytes)} in ${count(held.blocks)} block${held.blocks > 1 ? 's' : ''}` : bytes(held.bytes)),
    element('h4', {}, 'Called from, innermost first'),
    held.stack ? element('ol', { class: 'stacktrace' }, ...held.stack.split('\n').reverse().map((frame) => element('li', {}, shown(frame, 300))))
      : element('p', { class: 'quiet' }, 'Stack unknown; with_stack=True records it.'),
  ];
}

function heldTable(held: Held[], peak: number): HTMLElement {
  const largest = held.reduce((most_bytes, h) => Math.max(most_bytes, h.bytes), 1);
  const panel = element('aside', { class: 'detail', 'aria-label': 'The holder that is picked', 'aria-live': 'polite' },
    element('p', { class: 'quiet' }, 'Pick a row to see its whole stack.'));
  const table = new DataTable<Held>({
    label: 'What held memory at the peak', sorted: 'bytes', most_rows: 20, detail: panel,
    picked: (h) => {
      panel.replaceChildren();
      append(panel, heldDetail(h));
    },
    columns: [
      { key: 'op', title: 'Allocated by', cell: (h) => shown(h.op || 'not known', 60), order: (h) => h.op },
      { key: 'stack', title: 'Called from', wide: true, cell: (h) => shown(calledFrom(h)), order: calledFrom },
      { key: 'blocks', title: 'Blocks', numeric: true, cell: (h) => (h.blocks > 0 ? count(h.blocks) : kUnknown), order: (h) => h.blocks },
      { key: 'bytes', title: 'Held', numeric: true, cell: (h) => bytes(h.bytes), order: (h) => h.bytes },
      { key: 'share', title: 'Of the peak', numeric: true, cell: (h) => percent(peak > 0 ? (100 * h.bytes) / peak : null), order: (h) => h.bytes },
      { key: 'bar', title: '', cell: (h) => {
        const bar = element('span', { class: 'bar accent' });
        bar.style.width = `${(100 * h.bytes) / largest}%`;
        return element('span', { class: 'cellbar' }, bar);
      } },
    ],
  });
  const lines = byLine(held);
  const ways: [string, Held[]][] = [['by source line', lines], ['by operator and stack', held]];
  // Without stacks there are no lines to tell apart.
  if (lines.length < 2) ways.reverse();
  const select = element('select', { 'aria-label': 'Group blocks' }, ...ways.map(([name], i) => element('option', { value: i }, name)));
  select.addEventListener('change', () => table.show(ways[Number(select.value)]![1]));
  table.show(ways[0]![1]);
  return element('div', {}, element('div', { class: 'tools' }, select), element('div', { class: 'beside' }, table.root, panel));
}

function most(values: ArrayLike<number>): number {
  let found = 0;
  for (let i = 0; i < values.length; i++) found = Math.max(found, values[i]!);
  return found;
}

let of_snapshot: SnapshotView | undefined;

/** The snapshot of a rank; one that was exported as a timeline of categories has no allocations to show. */
function mountSnapshot(root: HTMLElement, context: Context): (() => void) | undefined {
  const section = context.rank.snapshot;
  const data = context.data.ranks[context.rank_index]?.snapshot;
  if (!section && !data) return undefined;
  root.append(element('h2', {}, 'Memory snapshot', element('span', { class: 'quiet' }, rankName(context))));
  if (data && data.histories.length > 0) {
    const view = new SnapshotView(context, data, section ?? null, (place) => context.remember(memory, place));
    root.append(view.root);
    of_snapshot = view;
    return () => {
      view.dispose();
      of_snapshot = undefined;
    };
  }
  if (!section) return undefined;
  append(root, [snapshotFacts(section), snapshotNotes(section)]);
  const course = section.timeline.filter((point) => point.time_ns !== null);
  const start = course[0]?.time_ns ?? 0;
  const span = (course[course.length - 1]?.time_ns ?? 0) - start;
  let plot: SeriesPlot | undefined;
  if (span > 0) {
    const lines: Line[] = [{ title: 'held', values: course.map((point) => point.allocated_bytes), colour: 'series-1', stepped: true, filled: true }];
    plot = seriesPlot({
      label: 'Memory that is held over time', span_ns: span, time: course.map((point) => point.time_ns! - start), lines, height: 260, text: bytes, binary: true,
      marked_ns: section.peak.time_ns === null ? undefined : section.peak.time_ns - start,
    });
    root.append(plot.root);
  }
  append(root, peakExplained(section, () => {}));
  return () => plot?.dispose();
}

function mountTrace(root: HTMLElement, context: Context): () => void {
  const { data, rank } = context;
  const over_time = known(context)!;
  const time = data.column(over_time.time, 'delta');
  const allocated = data.column(over_time.allocated);
  const reserved = data.column(over_time.reserved);
  const lines: Line[] = [
    { title: 'reserved', values: reserved, colour: 'series-2', stepped: true },
    { title: 'allocated', values: allocated, colour: 'series-1', stepped: true, filled: true },
  ];
  const capacity = rank.memory?.capacity_bytes;
  // A line far above the others would press them flat; the number stands in the summary.
  const peak = Math.max(most(reserved), most(allocated));
  if (capacity && capacity < 4 * peak) {
    lines.push({ title: 'capacity', values: Array.from(time, () => capacity), colour: 'series-3', dashed: true });
  }
  const plot = seriesPlot({
    label: 'Device memory over time', span_ns: data.span_ns, time, lines, height: 320, text: bytes, binary: true, marked_ns: over_time.peak_ns,
  });
  const steps = rank.steps.length;
  root.append(
    element('h2', {}, 'Memory', element('span', { class: 'quiet' }, `GPU ${over_time.device}${steps > 0 ? ` over ${counted(steps, 'step')}` : ''}`)),
    summary(context), zoomTools(context, plot), plot.root);
  if (over_time.held.length > 0) {
    root.append(element('h2', {}, 'Held at the peak', element('span', { class: 'quiet' }, 'live blocks, by what allocated them')),
      heldTable(over_time.held, rank.memory?.peak_allocated_bytes ?? 0));
  } else {
    root.append(element('p', { class: 'nothing' }, 'Unknown what held the memory at the peak: the trace does not record which operator allocated which block.'));
  }
  return () => plot.dispose();
}

export const memory: View = {
  id: 'memory',
  title: 'Memory',
  of_rank: true,
  absent: (context) => withoutEvents(context) ?? (known(context) || context.rank.snapshot || context.data.ranks[context.rank_index]?.snapshot ? null
    : 'The trace holds no allocations of device memory. Record them with profile(profile_memory=True), or take a snapshot with torch.cuda.memory._record_memory_history().'),
  mount(root, context) {
    const snapshot = mountSnapshot(root, context);
    const trace = known(context) ? mountTrace(root, context) : undefined;
    return () => {
      snapshot?.();
      trace?.();
    };
  },
  goTo: (place) => of_snapshot?.goTo(place),
};
