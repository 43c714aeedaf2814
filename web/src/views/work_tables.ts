// Kernels and operators: every row, sorted and searched; a kernel's durations beside the table.

import { swatch } from './bars';
import { append, copyButton, element, shown } from './dom';
import { findButton, longestEvent, withMargin } from './evidence';
import { factList } from './facts';
import { histogram } from './histogram';
import { originList, originsOf } from './origins';
import { count, counted, duration, flops, kUnknown, percent } from './quantity';
import { categoryOfKernel, type Kernel, type Op } from './report';
import { settled } from './settled';
import { DataTable, timeColumn as time, type Column } from './table';
import { carryRow, placeOf, rankName, withoutEvents, type Context, type View } from './view';
import { categoryTitle } from '../categories';
import { kernelNames } from '../kernel_names';

interface Searchable<Row> {
  table: DataTable<Row>;
  rows: Row[];
  /** The one that is picked. */
  picked(): Row | undefined;
  /** What a row is searched by. */
  text(row: Row): string;
  category?(row: Row): string;
  /** What a row is, in the singular. */
  one: string;
}

/** What the address says of the tables: set by a table when it is made. */
const filters = new Map<string, (place: URLSearchParams) => void>();

// Search and, where rows have categories, a choice of them; says how many rows are left.
function filterTools<Row>(of: Searchable<Row>, view: View, context: Context): { root: HTMLElement; picked(): void } {
  const search = element('input', { type: 'search', placeholder: `Search ${of.one}s`, 'aria-label': `Search ${of.one}s`, spellcheck: 'false' });
  const left = element('span', { class: 'quiet', role: 'status' });
  const categories = of.category ? [...new Set(of.rows.map(of.category))].sort() : [];
  const select = element('select', { 'aria-label': 'Category' }, element('option', { value: '' }, 'All categories'),
    ...categories.map((name) => element('option', { value: name }, categoryTitle(name))));
  const apply = () => {
    const wanted = search.value.toLowerCase();
    const rows = of.rows.filter((row) =>
      (wanted === '' || of.text(row).toLowerCase().includes(wanted)) && (select.value === '' || of.category?.(row) === select.value));
    of.table.show(rows);
    left.textContent = rows.length === of.rows.length ? counted(rows.length, of.one) : `${count(rows.length)} of ${counted(of.rows.length, of.one)}`;
  };
  const remember = settled(() => {
    const picked = of.picked();
    context.remember(view, placeOf({ q: search.value, category: select.value, row: picked === undefined ? '' : String(of.rows.indexOf(picked)) }));
  });
  const changed = () => {
    apply();
    remember.now();
  };
  search.addEventListener('input', changed);
  select.addEventListener('change', changed);
  filters.set(view.id, (place) => {
    search.value = place.get('q') ?? '';
    select.value = place.get('category') ?? '';
    apply();
    const row = of.rows[Number(place.get('row') ?? NaN)];
    if (row !== undefined) of.table.choose(row);
  });
  apply();
  return {
    root: element('div', { class: 'tools' }, search, categories.length > 1 && select, left),
    picked: () => remember.soon(),
  };
}

function swatched(category: string, text: string): HTMLElement {
  return element('span', {}, swatch(category), text);
}

function kernelColumns(devices: number, names: Map<string, string>): Column<Kernel>[] {
  const columns: Column<Kernel>[] = [
    { key: 'name', title: 'Kernel', wide: true, cell: (k) => swatched(categoryOfKernel(k), shown(names.get(k.name) ?? k.name)), order: (k) => names.get(k.name) ?? k.name },
    { key: 'category', title: 'Category', roomy: true, cell: (k) => categoryTitle(categoryOfKernel(k)), order: (k) => categoryTitle(categoryOfKernel(k)) },
    { key: 'count', title: 'Calls', numeric: true, roomy: true, cell: (k) => count(k.count), order: (k) => k.count },
    time('total', 'Total', (k) => k.total_ns, 'Sum of the durations'),
    { key: 'share', title: 'Of kernels', help: 'Share of the summed time of the device’s kernels', numeric: true, cell: (k) => percent(k.kernel_pct), order: (k) => k.kernel_pct },
    time('mean', 'Mean', (k) => k.mean_ns), { ...time<Kernel>('median', 'Median', (k) => k.median_ns), spare: true },
    time('p95', 'p95', (k) => k.p95_ns, '95th percentile'), { ...time<Kernel>('max', 'Max', (k) => k.max_ns), spare: true },
    { key: 'tensor', title: 'Tensor cores', spare: true, cell: (k) => (k.tensor_cores === null ? '' : k.tensor_cores ? 'yes' : 'no'), order: (k) => (k.tensor_cores === null ? null : Number(k.tensor_cores)) },
  ];
  if (devices > 1) columns.splice(1, 0, { key: 'device', title: 'GPU', numeric: true, cell: (k) => String(k.device), order: (k) => k.device });
  return columns;
}

const kMostName = 20000;  // characters that a detail shows of a name

function fullName(name: string): HTMLElement {
  return element('div', { class: 'fullname' }, element('code', { tabindex: 0 }, shown(name, kMostName)), copyButton(name, 'the full name'));
}

// The detail beside the kernels: name, statistics, distribution, and the way to the timeline.
function kernelDetail(panel: HTMLElement, kernel: Kernel, context: Context): () => void {
  const spread = context.data.ranks[context.rank_index]?.kernels.find((k) => k.device === kernel.device && k.name === kernel.name);
  const chart = spread && histogram(spread.histogram, categoryOfKernel(kernel), [{ name: 'median', ns: kernel.median_ns }, { name: 'p95', ns: kernel.p95_ns }]);
  const longest = () => {
    const found = longestEvent(context.data, context.rank.rank, ['stream'], (name) => name === kernel.name, { device: kernel.device });
    return found && withMargin(found, context.data.span_ns, 2);
  };
  panel.replaceChildren();
  append(panel, [
    element('h3', {}, swatched(categoryOfKernel(kernel), shown(kernelNames(context.data).get(kernel.name) ?? kernel.name, 200))), fullName(kernel.name),
    factList([['Calls', count(kernel.count)], ['Total', duration(kernel.total_ns)], ['Min', duration(kernel.min_ns)], ['Median', duration(kernel.median_ns)],
      ['Mean', duration(kernel.mean_ns)], ['p95', duration(kernel.p95_ns)], ['Max', duration(kernel.max_ns)], ['Std dev', duration(kernel.stddev_ns)],
      ['GPU', String(kernel.device)], ['Tensor cores', kernel.tensor_cores === null ? kUnknown : kernel.tensor_cores ? 'yes' : 'no']]),
    element('h4', {}, 'Distribution of durations'),
    chart ? element('div', { class: 'chart' }, chart.canvas) : element('p', { class: 'quiet' }, withoutEvents(context) ? 'The distribution is not in this file.' : 'The distribution is not in this file: it is kept for the kernels that take most time.'),
    originList('Launched from: operator, module, source line',
      originsOf(context.data, context.rank.rank).filter((row) => row.kernel === kernel.name && row.device === `GPU ${kernel.device}`),
      (row) => [row.op || 'no operator', row.module, row.source], context),
    ...findButton(context, longest)]);
  panel.hidden = false;
  return () => chart?.dispose();
}

export const kernels: View = {
  id: 'kernels',
  title: 'Kernels',
  of_rank: true,
  absent: ({ rank }) => (rank.kernels.length > 0 ? null
    : 'The trace holds no activity of a GPU. Record it with ProfilerActivity.CUDA, or with profgpu run --trace.'),
  mount(root, context) {
    const { rank } = context;
    const panel = element('aside', { class: 'detail', 'aria-label': 'The kernel that is picked', 'aria-live': 'polite' },
      element('p', { class: 'quiet' }, 'Pick a row to see its full name and how its durations are spread.'));
    let dispose: (() => void) | undefined;
    let chosen: Kernel | undefined;
    const table = new DataTable<Kernel>({
      label: 'Kernels', detail: panel, columns: kernelColumns(rank.devices.length, kernelNames(context.data)), sorted: 'total',
      picked: (kernel) => {
        dispose?.();
        chosen = kernel;
        dispose = kernelDetail(panel, kernel, context);
        tools.picked();
      },
    });
    const tools = filterTools({ table, rows: rank.kernels, picked: () => chosen, text: (k) => `${k.name} ${kernelNames(context.data).get(k.name) ?? ''}`, category: categoryOfKernel, one: 'kernel' }, kernels, context);
    root.append(element('h2', {}, 'Kernels', ofRank(context)), tools.root, element('div', { class: 'beside' }, table.root, panel));
    return () => dispose?.();
  },
  goTo: (place) => filters.get('kernels')?.(place),
  carry: (place, from, to) => carryRow(place, from.kernels, to.kernels, (a, b) => a.name === b.name && a.device === b.device),
};

function ofRank(context: Context): HTMLElement {
  return element('span', { class: 'quiet' }, rankName(context));
}

function opColumns(rows: Op[]): Column<Op>[] {
  const columns: Column<Op>[] = [
    { key: 'name', title: 'Op', wide: true, cell: (op) => shown(op.name), order: (op) => op.name },
    { key: 'calls', title: 'Calls', numeric: true, roomy: true, cell: (op) => count(op.calls), order: (op) => op.calls },
    time('cpu_self', 'CPU self', (op) => op.cpu_self_ns, 'Time on the host without the ops that it called'),
    time('cpu_total', 'CPU total', (op) => op.cpu_total_ns, 'Time on the host with the ops that it called'),
    time('device_self', 'GPU self', (op) => op.device_self_ns, 'Summed time of the kernels and copies that it launched itself'),
    time('device_total', 'GPU total', (op) => op.device_total_ns, 'Summed time of the kernels and copies that it and its ops launched'),
    { key: 'mean', title: 'CPU mean', numeric: true, cell: (op) => duration(op.cpu_total_ns / op.calls), order: (op) => op.cpu_total_ns / op.calls },
  ];
  if (rows.some((op) => (op.flops ?? 0) > 0)) {
    columns.push({ key: 'flops', title: 'FLOP', numeric: true, cell: (op) => flops(op.flops), order: (op) => op.flops });
  }
  return columns;
}

export const ops: View = {
  id: 'ops',
  title: 'Ops',
  of_rank: true,
  absent: ({ rank }) => (rank.ops.length > 0 ? null
    : 'The trace holds no operators of the host. Record them with ProfilerActivity.CPU.'),
  mount(root, context) {
    const { rank, data } = context;
    const panel = element('aside', { class: 'detail', 'aria-label': 'The op that is picked', 'aria-live': 'polite' },
      element('p', { class: 'quiet' }, 'Pick a row to see its full name and its share of the time.'));
    const whole = rank.ops.reduce((sum, op) => sum + op.cpu_self_ns, 0);
    const names = kernelNames(data);
    const many = rank.devices.length > 1;
    const on_device = rank.ops.reduce((sum, op) => sum + op.device_self_ns, 0);
    let chosen: Op | undefined;
    const table = new DataTable<Op>({
      label: 'Ops', detail: panel, columns: opColumns(rank.ops), sorted: 'cpu_self',
      picked: (op) => {
        chosen = op;
        tools.picked();
        panel.replaceChildren();
        append(panel, [
          element('h3', {}, shown(op.name, 200)), fullName(op.name),
          factList([['Calls', count(op.calls)], ['CPU self', `${duration(op.cpu_self_ns)}, ${percent((100 * op.cpu_self_ns) / (whole || 1))} of all ops`],
            ['CPU total', duration(op.cpu_total_ns)], ['GPU self', `${duration(op.device_self_ns)}, ${percent((100 * op.device_self_ns) / (on_device || 1))} of all ops`],
            ['GPU total', duration(op.device_total_ns)], ['FLOP', flops(op.flops)]]),
          originList('Launched: kernels and copies, by source line', originsOf(data, rank.rank).filter((row) => row.op === op.name),
            (row) => [names.get(row.kernel) ?? row.kernel, many ? row.device : '', row.module, row.source], context),
          ...findButton(context, () => {
            const found = longestEvent(data, rank.rank, ['thread', 'step'], (name) => name === op.name);
            return found && withMargin(found, data.span_ns);
          })]);
      },
    });
    const tools = filterTools({ table, rows: rank.ops, picked: () => chosen, text: (op) => op.name, one: 'op' }, ops, context);
    root.append(element('h2', {}, 'Ops', ofRank(context)), tools.root, element('div', { class: 'beside' }, table.root, panel));
  },
  goTo: (place) => filters.get('ops')?.(place),
  carry: (place, from, to) => carryRow(place, from.ops, to.ops, (a, b) => a.name === b.name),
};
