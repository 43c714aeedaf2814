// What the device could do and what it did: the distance of a step from its limit, the roofline, utilization by step.

import { legend } from './bars';
import { append, button, element, shown } from './dom';
import { evidenceOfGap, findButton, stepStretches } from './evidence';
import { factList } from './facts';
import { beyond, boundOf, categoryOfBound, kBoundTitles, rooflineColumns, stretchOf } from './roofline_rows';
import { ceilings, nameOf, RooflinePlot } from './roofline_plot';
import { bytes, count, counted, duration, flops, gbps, kUnknown, number, percent } from './quantity';
import { settled } from './settled';
import { DataTable } from './table';
import { utilizationChart } from './utilization';
import { waterfall } from './waterfall';
import { isWholeTrace, type RankReport, type Roofline, type RooflineRow } from './report';
import { kernelNames } from '../kernel_names';
import { carryRow, placeOf, rankName, type Context, type View } from './view';

const kPartBounds: Record<string, string> = { products: 'compute', memory_bound: 'memory', small_kernels: 'latency', recomputation: 'recomputed', unknown_work: 'unknown' };
const kMinLeftOut = 0.01;   // of a step, as in the terminal
const kMaxTimes = 9.95;   // of larger ratios the times are said, as in the terminal
const kLeastKnown_pct = 70;   // as the report's first screen: figures of a run of which more is unknown would mislead

/** "The hardware could run this step 3.4x as fast (MFU 29 %)", as the terminal says it; null where too little is known. */
export function distanceSentence({ rank }: Context): string | null {
  const { distance, roofline } = rank;
  if (!distance || distance.times_limit === null || (distance.known_pct ?? 0) < kLeastKnown_pct) return null;
  const of = isWholeTrace(rank) ? 'trace' : 'step', whole_ns = distance.wall_ns + distance.left_out_ns;
  const each = (ns: number) => duration(ns / Math.max(1, distance.steps));
  const in_part = distance.left_out_ns >= kMinLeftOut * whole_ns && whole_ns > 0;
  const what = in_part ? `the known ${each(distance.wall_ns)} of this ${of}'s ${each(whole_ns)}` : `this ${of}`;
  const used = [
    [roofline?.mfu_is_lower_bound ? 'MFU at least' : 'MFU', roofline?.mfu_pct],
    [roofline?.mbu_is_lower_bound ? 'MBU at least' : 'MBU', roofline?.mbu_pct],
  ].filter((pair): pair is [string, number] => typeof pair[1] === 'number')
    .map(([name, pct]) => `${name} ${percent(pct, pct < 10 ? 1 : 0)}`).join(', ');
  const { times_limit: times, times_limit_is_lower_bound: is_bound } = distance;
  const instead = in_part ? '' : ` instead of ${each(distance.wall_ns)}`;
  const at_limit = times < 1.05 ? `The hardware could run ${what} no faster`
    : times < kMaxTimes ? `The hardware could run ${what} ${is_bound ? 'at least ' : ''}${times.toFixed(1)}x as fast`
      : `At the hardware's limit ${what} would take ${is_bound ? 'at most ' : ''}${each(distance.limit_ns ?? 0)}${instead}`;
  return `${at_limit}${used ? ` (${used})` : ''}`;
}

/** Without a device all time is outside of its work. */
export function hasDistance(rank: RankReport): boolean {
  return rank.distance?.parts.some(({ part }) => part !== 'outside') ?? false;
}

// Time of which nothing can be known is no distance: then this says of what part of a step the figures are.
function distanceOf({ rank }: Context): string {
  const { distance } = rank;
  if (!distance || !hasDistance(rank)) return '';
  const each = (ns: number) => duration(ns / Math.max(1, distance.steps));
  const whole = `${isWholeTrace(rank) ? 'the whole trace' : 'a step'}, ${each(distance.wall_ns + distance.left_out_ns)}`;
  if (distance.left_out_ns === 0) return `of ${whole}`;
  return `of ${each(distance.wall_ns)} of ${whole}: the rest is untraced work or time without requests`;
}

function facts({ rank }: Context): HTMLElement {
  const { limits, roofline, distance } = rank;
  const rates = ceilings(limits);
  const pairs: [string, string][] = [
    ['MFU', percent(roofline?.mfu_pct)], ['HFU', percent(roofline?.hfu_pct)], ['MBU', percent(roofline?.mbu_pct)],
    ['Limit known for', roofline?.known_pct == null ? kUnknown : `${percent(roofline.known_pct, 0)} of kernel time`],
    ['Limit', distance?.limit_ns == null ? kUnknown : duration(distance.limit_ns / Math.max(1, distance.steps)) + (isWholeTrace(rank) ? '' : ' per step')],
    ['Device', limits?.device ?? kUnknown], ['Memory', gbps(limits?.memory_gbps)],
    ['Peak rates', rates.length === 0 ? kUnknown : `${rates.map(({ tflops, precisions }) => `${precisions.map((p) => p.toUpperCase()).join(', ')} ${number(tflops)}`).join('; ')} TFLOP/s`],
  ];
  return factList(pairs.map(([name, value]) => [name, shown(value, 300)]), 'wide');
}

function notes({ rank }: Context): HTMLElement | null {
  const missing = rank.roofline?.missing ?? [];
  const source = rank.limits?.source ? [`Peak rates from: ${rank.limits.source}`] : [];
  if (missing.length + source.length === 0) return null;
  return element('div', {}, ...missing.map((text) => element('p', { class: 'warn' }, shown(text, 600))),
    ...source.map((text) => element('p', { class: 'quiet' }, shown(text, 400))));
}

/** Plot, legend and table of operators or kernels, with a choice of what binds them. */
class Rows {
  readonly root = element('div', {});
  private readonly plot_: RooflinePlot;
  private readonly table_: DataTable<RooflineRow>;
  private readonly panel_ = element('aside', { 'class': 'detail', 'aria-label': 'What is picked of the roofline', 'aria-live': 'polite' });
  private readonly keys_ = element('div');
  private readonly left_ = element('span', { class: 'quiet', role: 'status' });
  private readonly bound_ = element('select', { 'aria-label': 'Bound by' });
  private readonly search_ = element('input', { 'type': 'search', 'placeholder': 'Search names and shapes', 'aria-label': 'Search names and shapes', 'spellcheck': 'false' });
  private readonly names_: Map<string, string>;
  private readonly buttons_: HTMLButtonElement[];
  private rows_: RooflineRow[] = [];
  private picked_: RooflineRow | undefined;
  private readonly settled_ = settled(() => this.remember());

  constructor(private readonly context_: Context, private readonly roofline_: Roofline) {
    this.names_ = kernelNames(context_.data);
    const name = (row: RooflineRow) => this.name(row);
    this.plot_ = new RooflinePlot(context_.rank.limits, name, (row) => this.open(row));
    const whole = () => this.rows_.reduce((sum, row) => sum + row.total_ns, 0);
    this.table_ = new DataTable<RooflineRow>({
      label: 'Operators or kernels and their limits', sorted: 'total', most_rows: 14, detail: this.panel_, columns: rooflineColumns(whole, name), picked: (row) => this.pick(row),
    });
    this.buttons_ = [this.choice('Operators', roofline_.ops), this.choice('Kernels', roofline_.kernels)];
    this.search_.addEventListener('input', () => this.changed());
    this.bound_.addEventListener('change', () => this.changed());
    this.panel_.append(element('p', { class: 'quiet' }, 'Pick a row or a point to see its figures.'));
    this.root.append(
      element('div', { class: 'tools' }, element('div', { 'class': 'group', 'role': 'group', 'aria-label': 'What the points are' }, ...this.buttons_),
        this.bound_, this.search_, this.left_),
      this.keys_, this.plot_.root, element('div', { class: 'beside' }, this.table_.root, this.panel_));
    this.show(roofline_.ops.length > 0 ? roofline_.ops : roofline_.kernels);
    this.filter();
  }

  dispose(): void {
    this.settled_.cancel();
    this.plot_.dispose();
  }

  /** Only what is bound so. */
  choose(bound: string): void {
    if (!this.has(bound)) this.show(this.roofline_.ops);
    this.bound_.value = bound;
    this.changed();
    this.root.scrollIntoView({ block: 'start' });
    this.bound_.focus({ preventScroll: true });
  }

  has(bound: string): boolean {
    return this.rows_.some((row) => boundOf(row) === bound);
  }

  private choice(title: string, rows: RooflineRow[]): HTMLButtonElement {
    return button(title, { disabled: rows.length === 0 }, () => {
      this.show(rows);
      this.changed();
    });
  }

  private name(row: RooflineRow): string {
    return row.shapes === null ? this.names_.get(row.name) ?? row.name : nameOf(row);
  }

  private changed(): void {
    this.filter();
    this.settled_.now();
  }

  private remember(): void {
    const row = this.picked_ ? this.rows_.indexOf(this.picked_) : -1;
    this.context_.remember(roofline, placeOf({
      of: this.rows_ === this.roofline_.kernels ? 'kernels' : '', bound: this.bound_.value, q: this.search_.value, row: row < 0 ? '' : String(row),
    }));
  }

  goTo(place: URLSearchParams): void {
    this.show(place.get('of') === 'kernels' ? this.roofline_.kernels : this.rows_);
    this.bound_.value = place.get('bound') ?? '';
    this.search_.value = place.get('q') ?? '';
    this.filter();
    const row = this.rows_[Number(place.get('row') ?? NaN)];
    if (row) this.table_.choose(row);
  }

  // Of these; what is in view follows with `filter`.
  private show(rows: RooflineRow[]): void {
    this.rows_ = rows;
    this.buttons_.forEach((made, i) => made.setAttribute('aria-pressed', String(rows === [this.roofline_.ops, this.roofline_.kernels][i])));
    const bounds = [...new Set(rows.map(boundOf))].sort();
    const kept = this.bound_.value;
    this.bound_.replaceChildren(element('option', { value: '' }, 'All bounds'), ...bounds.map((bound) => element('option', { value: bound }, kBoundTitles[bound]!)));
    this.bound_.value = bounds.includes(kept) ? kept : '';
    this.keys_.replaceChildren(legend([...new Map(rows.map((row) => [kBoundTitles[boundOf(row)]!, categoryOfBound(row)] as const))]));
  }

  private filter(): void {
    const text = this.search_.value.toLowerCase();
    const wanted = this.rows_.filter((row) => (this.bound_.value === '' || boundOf(row) === this.bound_.value) &&
      (text === '' || `${row.name} ${this.name(row)}`.toLowerCase().includes(text)));
    this.table_.show(wanted);
    this.plot_.show(wanted);
    this.left_.textContent = wanted.length === this.rows_.length ? counted(wanted.length, 'row') : `${count(wanted.length)} of ${counted(this.rows_.length, 'row')}`;
  }

  private open(row: RooflineRow): void {
    const stretch = stretchOf(this.context_, row);
    if (stretch) return this.context_.show(stretch);
    this.pick(row);
  }

  private pick(row: RooflineRow): void {
    this.plot_.mark(row);
    this.picked_ = row;
    this.settled_.soon();
    const pairs: [string, string][] = [
      ['Calls', count(row.count)], ['Total', duration(row.total_ns)], ['Limit', duration(row.limit_ns)], ['Over it', duration(beyond(row))],
      ['Of limit', percent(row.limit_pct)], ['Bound', row.recomputed ? 'recomputed' : row.bound], ['FLOPs', flops(row.flops)], ['Bytes', bytes(row.bytes)],
      ['TFLOP/s', number(row.tflops)], ['GB/s', number(row.memory_gbps)], ['FLOP/byte', number(row.intensity)], ['Precision', (row.precision ?? kUnknown).toUpperCase()],
    ];
    this.panel_.replaceChildren();
    append(this.panel_, [
      element('h3', {}, shown(this.name(row), 300)),
      factList(pairs), row.kernel && element('p', {}, 'Most time in ', element('code', { title: shown(row.kernel, 2000) }, shown(this.names_.get(row.kernel) ?? row.kernel, 300))),
      ...findButton(this.context_, () => stretchOf(this.context_, row))]);
  }
}

let in_view: Rows | undefined;

export const roofline: View = {
  id: 'roofline',
  title: 'Roofline',
  of_rank: true,
  absent: ({ rank }) => {
    const known = hasDistance(rank) || (rank.roofline?.ops.length ?? 0) + (rank.roofline?.kernels.length ?? 0) > 0;
    return known ? null : `Unknown how near the device comes to its limit: ${rank.roofline?.missing[0] ?? rank.limits?.reason ?? 'the file holds no work of a GPU'}.`;
  },
  mount(root, context) {
    const { rank, data } = context;
    const rows = rank.roofline && rank.roofline.ops.length + rank.roofline.kernels.length > 0 ? new Rows(context, rank.roofline) : undefined;
    const actions = (part: string) => {
      const bound = kPartBounds[part];
      if (bound) return rows?.has(bound) ? { title: 'Shows what it is made of', act: () => rows.choose(bound) } : undefined;
      const gap = part.startsWith('idle: ') ? evidenceOfGap(data, context.rank_index, part.slice('idle: '.length)) : undefined;
      return gap && { title: `Shows ${gap.text} in the timeline`, act: () => context.show(gap) };
    };
    in_view = rows;
    const made: { dispose(): void }[] = rows ? [rows] : [];
    const { distance } = rank;
    const sentence = distanceSentence(context);
    append(root, [element('h2', {}, 'Distance from the limit', element('span', { class: 'quiet' }, [rankName(context), distanceOf(context)].filter(Boolean).join('; '))),
      sentence && element('p', { class: 'distance' }, sentence), facts(context), notes(context)]);
    if (distance && hasDistance(rank)) root.append(waterfall(distance, actions));
    if (rows) root.append(element('h2', {}, 'Roofline', element('span', { class: 'quiet' }, 'area: time; click a point to see its longest call in the timeline')), rows.root);
    const use = data.ranks[context.rank_index]?.utilization.filter(({ step }) => step < rank.steps.length) ?? [];
    if (use.length > 0 && !isWholeTrace(rank)) {
      const windows = stepStretches(data, rank);
      const chart = utilizationChart(rank.steps, use, rank.roofline?.mfu_pct ?? null, (step) => context.show(windows[step]!));
      root.append(element('h2', {}, 'Utilization by step', element('span', { class: 'quiet' }, 'click a bar to see it in the timeline; the view Steps has the numbers')), chart.root);
      made.push(chart);
    }
    return () => {
      in_view = undefined;
      made.forEach((part) => part.dispose());
    };
  },
  goTo: (place) => in_view?.goTo(place),
  carry: (place, from, to) => {
    const rows = (rank: RankReport) => (place.get('of') === 'kernels' ? rank.roofline?.kernels : rank.roofline?.ops) ?? [];
    carryRow(place, rows(from), rows(to), (a, b) => a.name === b.name && a.shapes === b.shapes && a.bound === b.bound && a.precision === b.precision && a.recomputed === b.recomputed);
  },
};
