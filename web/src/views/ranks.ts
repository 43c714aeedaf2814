// Ranks side by side: who is late, who waits, and what the collectives achieve.

import { legend } from './bars';
import { cssColour } from './colours';
import { button, element, shown } from './dom';
import { bytes, count, counted, duration, gbps, kUnknown, percent } from './quantity';
import { type Cluster, type Collective, type Device, type RankReport, type Use, words } from './report';
import { DataTable, timeColumn as time, type Column } from './table';
import type { Context, View } from './view';

interface RankRow {
  index: number;
  rank: RankReport;
  device: Device | undefined;
  use: Use | undefined;
  step_ns: number | null;
  wait_ns: number | null;
  /** Whether more ranks, whose traces are not here, may have come later. */
  waits_at_least: boolean;
  late: { excess_ns_per_step: number; excess_pct: number; kind: string } | undefined;
  clock: { offset_ns: number; error_ns: number | null; method: string } | undefined;
}
type Call = Collective & { rank: number };

function rowsOf(context: Context): RankRow[] {
  const { analysis } = context;
  const hangs = analysis.ranks.some((rank) => rank.average_step?.includes_hang);
  return analysis.ranks.map((rank, index) => {
    const device = rank.devices.reduce<Device | undefined>((a, b) => (!a || b.busy_ns > a.busy_ns ? b : a), undefined);
    const waits = rank.collectives.map((c) => c.wait_ns).filter((w): w is number => w !== null);
    return {
      index, rank, device,
      use: rank.use.find((row) => row.device === device?.id),
      // Without the step that hangs.
      step_ns: (hangs ? analysis.cluster?.step_mean_ns_by_rank?.[String(rank.rank)] : undefined) ?? rank.average_step?.elapsed_ns ?? null,
      wait_ns: waits.length > 0 ? waits.reduce((a, b) => a + b, 0) : null,
      waits_at_least: rank.collectives.some((c) => c.wait_is_lower_bound && c.wait_ns !== null),
      late: analysis.cluster?.stragglers?.find((s) => s.rank === rank.rank),
      clock: analysis.cluster?.clocks?.find((c) => c.rank === rank.rank),
    };
  });
}

const kParts: [string, string][] = [
  ['compute', 'compute'], ['communication alone', 'communication'], ['waiting for other ranks', 'wait'], ['copies alone', 'memcpy'], ['idle', 'idle'],
];

// The device's span as one bar. How much of the exposed communication is waiting is known where no compute hides any.
function split(row: RankRow, longest: number): HTMLElement {
  const bar = element('span', { class: 'cellstack' });
  const { use } = row;
  if (!use) return bar;
  const hidden = use.communication_ns - use.exposed_communication_ns > 0;
  const wait = hidden ? 0 : Math.min(row.wait_ns ?? 0, use.exposed_communication_ns);
  const times = [use.compute_ns, use.exposed_communication_ns - wait, wait, use.exposed_memory_ns, use.window_ns - use.busy_ns];
  for (const [i, [name, category]] of kParts.entries()) {
    const ns = times[i]!;
    if (ns <= 0) continue;
    const piece = element('span', { title: `${name}  ${duration(ns)}  ${percent((100 * ns) / use.window_ns)}` });
    piece.style.width = `${(100 * ns) / longest}%`;
    piece.style.background = cssColour(category);
    bar.append(piece);
  }
  return bar;
}

function rankColumns(context: Context, longest: number): Column<RankRow>[] {
  const late = (r: RankRow) => (r.late ? `${duration(r.late.excess_ns_per_step)} per step, ${percent(r.late.excess_pct)}` : '');
  const clock = (r: RankRow) => (r.clock && r.clock.method !== 'none' ? `${duration(-r.clock.offset_ns || 0)}${r.clock.error_ns ? ` ± ${duration(r.clock.error_ns)}` : ''}` : kUnknown);
  return [
    { key: 'rank', title: 'Rank', numeric: true, cell: (r) => String(r.rank.rank), order: (r) => r.rank.rank },
    { key: 'host', title: 'Host', cell: (r) => shown(r.rank.host ?? kUnknown, 60), order: (r) => r.rank.host },
    time('step', 'Mean step', (r) => r.step_ns),
    { key: 'busy', title: 'GPU busy', numeric: true, cell: (r) => percent(r.use?.busy_pct), order: (r) => r.use?.busy_pct },
    { key: 'split', title: 'Time of the GPU', wide: true, cell: (r) => split(r, longest) },
    time('compute', 'Compute', (r) => r.use?.compute_ns), time('communication', 'Communication', (r) => r.use?.communication_ns),
    time('exposed', 'Exposed', (r) => r.use?.exposed_communication_ns, 'Communication that no compute hides'),
    { key: 'wait', title: 'Waits', help: 'In collectives, for ranks that came later; ≥ if not all of a group are in the input', numeric: true,
      cell: (r) => `${r.waits_at_least ? '≥ ' : ''}${duration(r.wait_ns)}`, order: (r) => r.wait_ns },
    { key: 'late', title: 'Late by', cell: (r) => element('b', {}, late(r)), order: (r) => r.late?.excess_ns_per_step },
    { key: 'kind', title: 'Why', cell: (r) => (r.late ? words(r.late.kind) : ''), order: (r) => r.late?.kind },
    { key: 'clock', title: 'Clock', help: 'How far this rank’s clock is ahead, as estimated', numeric: true, cell: (r) => element('span', { title: r.clock && words(r.clock.method) }, clock(r)), order: (r) => (r.clock ? -r.clock.offset_ns : undefined) },
    { key: 'look', title: '', cell: (r) => button('Show', { class: 'cell', title: `Show rank ${r.rank.rank} in all views` }, () => context.choose_rank(r.index)) },
  ];
}

const kMostSentences = 20;
const kTellingPct = 3; // of a step: a change that gains less is no advice
const kChanges: Record<string, string> = {
  communication_free: 'without transfers', input_free: 'with input always ready', host_bound_free: 'if work were launched in time',
  even_ranks: 'with all ranks alike in each step', even_stages: 'with even pipeline stages',
};

// What the job is, what it lacks and what a step would take otherwise.
function jobSentences(cluster: Cluster): string[] {
  const missing = (cluster.missing ?? []).map((m) => {
    const call = `${m.name} ${m.number} of group ${m.process_group}${m.step === null ? '' : `, step ${m.step}`}`;
    return m.kind === 'never_arrived' ? `Rank ${m.rank} never arrived at ${call}: the others wait in it to the end of their traces`
      : `Rank ${m.rank}: no record of ${count(m.calls)} calls, the first ${call}`;
  });
  const changes = (cluster.what_if ?? []).filter((w) => w.saved_pct >= kTellingPct).map((w) => {
    const change = kChanges[w.change] ?? `with rank ${w.ranks.join(', ')} like the others`;
    return `A step would take ${w.lower_bound ? 'at most ' : ''}${duration(w.step_ns)} ${change}, ${percent(w.saved_pct)} less`;
  });
  const ways = (cluster.parallelism ?? []).map((way) => way.words + (way.overlap_pct === null ? '' : `; ${percent(way.overlap_pct)} of its communication hidden`));
  const turns = cluster.late_by_turns;
  const late = turns ? [`Rotating stragglers, ${words(turns.kind)}: in each step the others wait for another rank, ${duration(turns.wait_ns_per_step)} per step (${percent(turns.wait_pct)})`] : [];
  return [...missing.slice(0, kMostSentences), ...late, ...(cluster.notes ?? []), ...ways, ...changes.slice(0, kMostSentences)];
}

function collectiveColumns(many: boolean): Column<Call>[] {
  const columns: Column<Call>[] = [
    { key: 'name', title: 'Collective', wide: true, cell: (c) => shown(words(c.name)), order: (c) => c.name },
    { key: 'rank', title: 'Rank', numeric: true, cell: (c) => String(c.rank), order: (c) => c.rank },
    { key: 'dtype', title: 'Type', cell: (c) => shown(c.dtype ?? kUnknown, 40), order: (c) => c.dtype },
    { key: 'group', title: 'Group', cell: (c) => shown(c.process_group ?? kUnknown, 60), order: (c) => c.process_group },
    { key: 'size', title: 'Ranks', numeric: true, cell: (c) => count(c.group_size), order: (c) => c.group_size },
    { key: 'calls', title: 'Calls', numeric: true, cell: (c) => count(c.calls), order: (c) => c.calls },
    { key: 'bytes', title: 'Message', numeric: true, cell: (c) => bytes(c.message_bytes), order: (c) => c.message_bytes },
    time('total', 'Total', (c) => c.total_ns), time('exposed', 'Exposed', (c) => c.exposed_ns, 'Time that no compute hides'),
    { key: 'wait', title: 'Waits', help: 'Waiting for later ranks; ≥ if not the whole group is in the input', numeric: true, cell: (c) => `${c.wait_is_lower_bound && c.wait_ns !== null ? '≥ ' : ''}${duration(c.wait_ns)}`, order: (c) => c.wait_ns },
    { key: 'algbw', title: 'Algorithm bw', numeric: true, cell: (c) => gbps(c.algbw_gbps), order: (c) => c.algbw_gbps },
    { key: 'busbw', title: 'Bus bw', numeric: true, cell: (c) => gbps(c.busbw_gbps), order: (c) => c.busbw_gbps },
  ];
  return many ? columns : columns.filter((column) => column.key !== 'rank');
}

export const ranks: View = {
  id: 'ranks',
  title: 'Ranks',
  of_rank: false,
  absent: ({ analysis }) => (analysis.ranks.length > 1 || analysis.ranks.some((r) => r.collectives.length > 0) ? null
    : 'One rank without collectives. Give a folder with the traces of all ranks of a job to see them side by side: profgpu analyze FOLDER.'),
  mount(root, context) {
    const { analysis } = context;
    const many = analysis.ranks.length > 1;
    if (many) {
      const rows = rowsOf(context);
      const longest = rows.reduce((most, row) => Math.max(most, row.use?.window_ns ?? 0), 1);
      const named = rows.some((row) => row.rank.host);
      const columns = rankColumns(context, longest).filter((column) => named || column.key !== 'host');
      const table = new DataTable<RankRow>({ label: 'Ranks', columns, most_rows: 24 });
      table.show(rows);
      const spread = analysis.cluster?.step_spread_pct;
      root.append(element('h2', {}, counted(analysis.ranks.length, 'rank'),
        element('span', { class: 'quiet' }, spread === undefined || spread === null ? '' : `steps differ by ${percent(spread)}`)), legend(kParts), table.root);
      const said = analysis.cluster ? jobSentences(analysis.cluster) : [];
      if (said.length > 0) root.append(element('ul', { class: 'job' }, ...said.map((text) => element('li', {}, shown(text, 400)))));
    }
    const calls = analysis.ranks.flatMap((rank) => rank.collectives.map((c) => ({ ...c, rank: rank.rank })));
    root.append(element('h2', {}, 'Collectives'));
    if (calls.length === 0) {
      root.append(element('p', { class: 'nothing' }, 'None: no rank ran a communication kernel.'));
      return;
    }
    const table = new DataTable<Call>({ label: 'Collectives', columns: collectiveColumns(many), sorted: 'total', most_rows: 24 });
    table.show(calls);
    root.append(table.root);
    if (calls.some((c) => c.busbw_gbps === null)) {
      root.append(element('p', { class: 'quiet' }, 'Bandwidths need the traces of the whole group, with message sizes.'));
    }
  },
};
