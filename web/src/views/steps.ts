// A bar for each step; a click shows it in the timeline.

import { legend } from './bars';
import { button, element, shown } from './dom';
import { isEventTrack, stepStretches } from './evidence';
import { brief, duration, kUnknown, number, percent } from './quantity';
import { deviceOfSteps, isLeftOut, isWholeTrace, ofRange, words, type RankReport, type Step } from './report';
import { StepBars } from './step_bars';
import { DataTable, timeColumn, type Column } from './table';
import { placeOf, withoutEvents, type Context, type View } from './view';
import type { PageData, Utilization } from '../page_data';

interface Piece {
  name: string;
  ns: number;
  category: string;
}
type Split = 'device' | 'phases';

const kChartHeight = 260;
const kLeastRest = 0.001;
const kPhaseOrder = ['data_loading', 'forward', 'backward', 'optimizer', 'communication', 'checkpoint', 'own_phase', 'other_phase'];

function busyPieces(step: Step, device: string): Piece[] {
  if (step.device_busy_ns === null) return [{ name: 'step', ns: step.duration_ns, category: 'step' }];
  return [
    { name: `${device} busy`, ns: step.device_busy_ns, category: 'compute' },
    { name: `${device} idle`, ns: step.device_idle_ns ?? step.duration_ns - step.device_busy_ns, category: 'idle' },
  ];
}

/** Each step's time by phase, from the phases' own track, as far as the file holds that; empty where there is none. */
function phasePieces(data: PageData, rank: RankReport): Piece[][] {
  const track = data.tracks.find((t) => t.kind === 'phase' && t.rank === rank.rank);
  const windows = stepStretches(data, rank);
  if (!track || !isEventTrack(track)) return [];
  const sums = windows.map(() => new Map<string, number>());
  const starts = data.column(track.start, 'delta');
  const durations = data.column(track.duration);
  const categories = data.column(track.category);
  let first = 0;
  for (let i = 0; i < durations.length; i++) {
    const [start, end] = [starts[i]!, starts[i]! + durations[i]!];
    while (first < windows.length && windows[first]!.end_ns <= start) first++;
    for (let w = first; w < windows.length && windows[w]!.start_ns < end; w++) {
      const part = Math.min(end, windows[w]!.end_ns) - Math.max(start, windows[w]!.start_ns);
      const name = data.categories[categories[i]!] ?? 'other_phase';
      if (part > 0) sums[w]!.set(name, (sums[w]!.get(name) ?? 0) + part);
    }
  }
  if (sums.every((sum) => sum.size === 0)) return [];
  return sums.map((sum, i) => {
    const pieces = kPhaseOrder.filter((name) => sum.has(name)).map((name) => ({
      name: name === 'other_phase' ? 'other' : name === 'own_phase' ? 'named by the program' : words(name), ns: sum.get(name)!, category: name,
    }));
    const rest = rank.steps[i]!.duration_ns - pieces.reduce((all, piece) => all + piece.ns, 0);
    // Phases are a partition of the step: what is missing was not kept.
    if (rest > kLeastRest * rank.steps[i]!.duration_ns) pieces.push({ name: 'phase not kept in this file', ns: rest, category: 'warmup' });
    return pieces;
  });
}

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length > 0 ? sorted[Math.floor((sorted.length - 1) / 2)]! : 0;
}

function stepChart(rank: RankReport, ahead: boolean, pieces: () => Piece[][], open: ((step: number) => void) | undefined): StepBars {
  const { steps } = rank;
  const middle = median(steps.filter((s) => !isLeftOut(s)).map((s) => s.duration_ns));
  return new StepBars(steps, {
    label: 'Durations of the steps; the table below has the numbers', height: kChartHeight, marks: 5, open,
    most: steps.reduce((most, s) => Math.max(most, s.duration_ns), 1), text: (ns) => brief(duration(ns)),
    level: steps.length < 3 || middle === 0 ? undefined : { amount: middle, text: `median ${duration(middle)}${ahead ? ` ${ofRange(rank)}` : ''}` },
    parts: (step) => (pieces()[step] ?? []).map(({ ns, category }) => ({ amount: ns, category })),
    lines: (step) => (pieces()[step] ?? []).map((p) => `${p.name}  ${duration(p.ns)}  ${percent((100 * p.ns) / steps[step]!.duration_ns)}`),
  });
}

function piecesLegend(pieces: Piece[][], someLeftOut: boolean): HTMLElement {
  const made = legend([...new Map(pieces.flat().map((p) => [p.name, p.category]))]);
  if (someLeftOut) made.append(element('li', {}, element('i', { class: 'swatch hatched' }), 'left out of averages'));
  return made;
}

// Figures that logs print, and those of a device: only where some step has one.
function figureColumns(rank: RankReport): Column<Step>[] {
  const { steps } = rank;
  const device = deviceOfSteps(rank);
  const columns: [keyof Step, string, (s: Step) => string, string?][] = [
    ['device_busy_ns', `${device} busy`, (s) => duration(s.device_busy_ns), busiestOf(rank)], ['device_idle_ns', `${device} idle`, (s) => duration(s.device_idle_ns), busiestOf(rank)],
    ['loss', 'Loss', (s) => number(s.loss)], ['learning_rate', 'Learning rate', (s) => number(s.learning_rate)], ['grad_norm', 'Gradient norm', (s) => number(s.grad_norm)],
    ['samples_per_s', 'Samples/s', (s) => number(s.samples_per_s)], ['tokens_per_s', 'Tokens/s', (s) => number(s.tokens_per_s)],
    ['device_tokens_per_s', 'Tokens/s per GPU', (s) => number(s.device_tokens_per_s)], ['tflops', 'TFLOP/s', (s) => number(s.tflops), 'Per GPU, as the log says'],
    ['mfu_pct', 'MFU', (s) => percent(s.mfu_pct), 'Model FLOPs utilization, as the log says'],
  ];
  return columns.filter(([key]) => steps.some((s) => (s[key] ?? null) !== null))
    .map(([key, title, cell, help]) => ({ key, title, help, numeric: true, cell, order: (s) => s[key] as number | null }));
}

// Of several devices one counts.
function busiestOf(rank: RankReport): string | undefined {
  return rank.devices.length > 1 ? `${deviceOfSteps(rank)} is the busiest of ${rank.devices.length}; the overview has the others` : undefined;
}

function stepTable(rank: RankReport, use: Map<Step, Utilization>, open: ((index: number) => void) | undefined): DataTable<Step> {
  const table: DataTable<Step> = new DataTable<Step>({
    label: 'Steps', most_rows: 16,
    columns: [
      { key: 'index', title: 'Step', numeric: true, cell: (s) => String(s.index ?? kUnknown), order: (s) => s.index },
      { key: 'name', title: 'Name', wide: true, cell: (s) => shown(s.name), order: (s) => s.name },
      ...(runsAhead(rank) ? [timeColumn<Step>('elapsed', 'Elapsed', (s) => s.elapsed_ns, 'From the end of the step before until what it launched has ended; averages are of this')] : []),
      timeColumn('duration', runsAhead(rank) ? (rank.average_step?.works_between ? 'In its range' : 'On the host') : 'Duration', (s) => s.duration_ns),
      ...figureColumns(rank),
      ...(rank.steps.some((s) => busyShare(s) !== null) ? [{ key: 'share', title: rank.devices.length > 1 ? `Busy, ${deviceOfSteps(rank)}` : 'Busy', help: busiestOf(rank), numeric: true, cell: (s: Step) => percent(busyShare(s)), order: busyShare }] : []),
      ...(use.size > 0 ? [{ key: 'mfu', title: 'MFU', help: 'Model FLOPs utilization', numeric: true, cell: (s: Step) => percent(use.get(s)?.mfu_pct), order: (s: Step) => use.get(s)?.mfu_pct }] : []),
      { key: 'left_out', title: 'Left out', cell: (s) => (s.warmup ? 'warm-up' : s.incomplete ? 'incomplete' : ''), order: (s) => Number(isLeftOut(s)) },
      ...(open ? [{ key: 'see', title: '', cell: (s: Step) => button('Timeline', { class: 'cell' }, () => open(rank.steps.indexOf(s))) }] : []),
    ],
  });
  table.show(rank.steps);
  return table;
}

/** Whether the host is done with a step before the device is. */
function runsAhead({ steps }: RankReport): boolean {
  return steps.some((s) => duration(s.elapsed_ns) !== duration(s.duration_ns));
}

function busyShare(step: Step): number | null {
  return step.device_busy_ns === null || step.duration_ns <= 0 ? null : (100 * step.device_busy_ns) / step.duration_ns;
}

/** Shows what an address names, in the view that is there. */
let go_to: ((place: URLSearchParams) => void) | undefined;

export const steps: View = {
  id: 'steps',
  title: 'Steps',
  of_rank: true,
  absent: ({ rank }) => (rank.steps.length > 0 && !isWholeTrace(rank) ? null
    : 'No steps are marked. Call prof.step() once an iteration, or name the ranges that are steps with --step-pattern.'),
  mount(root, context: Context) {
    const { rank, data } = context;
    const by_phase = phasePieces(data, rank);
    const device = deviceOfSteps(rank);
    const by_device = rank.steps.map((step) => busyPieces(step, device));
    const left_out = withoutEvents(context);
    const windows = stepStretches(data, rank);
    const open = left_out ? undefined : (index: number) => context.show(windows[index]!);
    const use = new Map((data.ranks[context.rank_index]?.utilization ?? []).flatMap((of) => (rank.steps[of.step] ? [[rank.steps[of.step]!, of] as const] : [])));
    let pieces = by_device;
    const chart = stepChart(rank, runsAhead(rank), () => pieces, open);
    const key = element('div');
    const usual: Split = by_phase.length > 0 ? 'phases' : 'device';
    const choose = (split: Split) => {
      pieces = split === 'phases' ? by_phase : by_device;
      chart.refresh();
      key.replaceChildren(piecesLegend(pieces, rank.steps.some(isLeftOut)));
      for (const b of buttons) b.setAttribute('aria-pressed', String(b.dataset.split === split));
    };
    const change = (split: Split) => {
      choose(split);
      context.remember(steps, placeOf({ by: split === usual ? '' : split }));
    };
    const buttons = [
      button('By phase', { 'data-split': 'phases', disabled: by_phase.length === 0, title: by_phase.length === 0 ? left_out ?? 'This file holds no phases of each step' : null }, () => change('phases')),
      button('By device', { 'data-split': 'device', title: busiestOf(rank) }, () => change('device')),
    ];
    root.append(
      element('h2', {}, 'Steps', element('span', { class: 'quiet' }, left_out ?? 'click a bar to see it in the timeline')),
      element('div', { class: 'tools' }, element('div', { class: 'group', role: 'group', 'aria-label': 'What the bars show' }, ...buttons), key),
      chart.root, stepTable(rank, use, open).root);
    choose(usual);
    go_to = (place) => choose(place.get('by') === 'device' ? 'device' : usual);
    return () => {
      go_to = undefined;
      chart.dispose();
    };
  },
  goTo: (place) => go_to?.(place),
  carry: () => {},
};
