// The first view: the verdict, what it costs, what to change, and the sums behind it.

import { insteadOfWarnings } from './all_clear';
import { barList, stackedBar, type Part } from './bars';
import { element, shown } from './dom';
import { findingList } from './finding_list';
import { hero } from './hero';
import { logSections } from './log';
import { peakCategories } from './memory_peak';
import { bytes, count, counted, duration, inUnit, percent } from './quantity';
import { distanceSentence } from './roofline';
import { categoryOfKernel, devicesOfFindings, isPhase, isWholeTrace, ofRange, words, type AverageStep, type Check, type Cluster, type Input, type RankReport, type Use } from './report';
import { categoryTitle, causeTitle } from '../categories';
import { rankName, type Context, type View } from './view';

const kChecks = { pass: '✓', fail: '✗', unknown: '?' } as const;

function checkItem(check: Check): HTMLElement {
  const value = check.value === null ? '' : inUnit(check.value, '%');
  const answer = check.applies ? value || { pass: 'yes', fail: 'no', unknown: 'not known' }[check.verdict] : 'does not apply';
  return element('tr', { class: check.verdict },
    element('td', { class: 'verdict', 'aria-label': check.applies ? check.verdict : 'does not apply' }, check.applies ? kChecks[check.verdict] ?? '?' : '·'),
    element('th', { scope: 'row' }, check.question),
    element('td', { class: 'num', title: check.record === null ? null : `To know it, record ${check.record}` }, answer));
}

function checklist(context: Context): HTMLElement | null {
  const { checklist: checks } = context.analysis;
  if (checks.length === 0) return null;
  return element('section', {}, element('h2', {}, 'Checklist'),
    element('table', { class: 'checks' }, element('tbody', {}, ...checks.map(checkItem))));
}

function share(ns: number, whole: number): number {
  return whole > 0 ? (100 * ns) / whole : 0;
}

// The host may launch and go on, or the loop does something between the ranges that it marks.
function lastsLonger(rank: RankReport, average: AverageStep): boolean {
  return !isWholeTrace(rank) && duration(average.duration_ns) !== duration(average.elapsed_ns);
}

// Shares are of the time in the title.
function stepLength(rank: RankReport, average: AverageStep): string {
  const host = duration(average.duration_ns), elapsed = duration(average.elapsed_ns);
  if (!lastsLonger(rank, average)) return host;
  return average.elapsed_ns < average.duration_ns ? `${elapsed}, shares of ${host} ${ofRange(rank)}` : elapsed;
}

function phaseParts(rank: RankReport, average: AverageStep | null, phases: readonly { name: string; wall_ns: number; wall_pct: number }[]): Part[] {
  const longer = average !== null && lastsLonger(rank, average) && average.elapsed_ns > average.duration_ns;
  const scale = longer ? average.duration_ns / average.elapsed_ns : 1;
  const parts = phases.map((phase) => ({
    name: isPhase(phase.name) ? words(phase.name) : shown(phase.name, 60), ns: phase.wall_ns, pct: phase.wall_pct * scale, category: phase.name === 'other' ? 'other_phase' : isPhase(phase.name) ? phase.name : 'own_phase',
  }));
  if (longer) {
    const rest = average.elapsed_ns - average.duration_ns;
    parts.push({ name: average.works_between ? 'between steps' : 'GPU finishing', ns: rest, pct: share(rest, average.elapsed_ns), category: 'other_phase' });
  }
  return parts;
}

function stepSection(context: Context): HTMLElement | null {
  const { rank } = context;
  const average = rank.average_step;
  const phases = (average?.phases ?? rank.phases).filter((phase) => phase.wall_ns > 0);
  if (phases.length === 0) return null;
  const hangs = rank.average_step?.includes_hang ? ' with the one that hangs' : '';
  const whose = isWholeTrace(rank) ? 'The whole trace,' : 'A step of';
  const title = average ? `${whose} ${stepLength(rank, average)}${hangs}` : 'Phases of the steps';
  return element('section', {}, element('h2', {}, title, element('span', { class: 'quiet' }, rankName(context))), barList(phaseParts(rank, average ?? null, phases)));
}

// What a memory snapshot holds at its peak.
function peakSection({ snapshot }: RankReport): HTMLElement | null {
  const categories = snapshot && peakCategories(snapshot);
  return categories && element('section', { class: 'peak' },
    element('h2', {}, 'Memory at the peak', element('span', { class: 'quiet' }, `${bytes(snapshot.peak.allocated_bytes)} allocated of ${bytes(snapshot.peak.reserved_bytes)} reserved`)),
    categories, element('p', {}, element('a', { href: '#memory' }, 'Over time, and by stack')));
}

// Nobody is a straggler, but somebody else is late in each step.
function turnsSection(cluster: Cluster | null): HTMLElement | null {
  const late = cluster?.late_by_turns;
  if (!late) return null;
  const said = `In ${count(late.steps_measured)} steps the others wait ${duration(late.wait_ns_per_step)} per step (${percent(late.wait_pct)}), each time for another rank`;
  const turns = late.ranks.map((turn) => element('tr', {},
    element('th', { scope: 'row' }, `rank ${turn.rank}`), element('td', { class: 'num' }, count(turn.steps_latest))));
  return element('section', { class: 'turns' },
    element('h2', {}, 'Rotating stragglers', element('span', { class: 'quiet' }, words(late.kind))),
    element('ul', {}, ...[said, ...late.evidence].map((text) => element('li', {}, unbroken(shown(text, 400))))),
    element('table', {}, element('thead', {}, element('tr', {}, element('td'), element('th', { scope: 'col' }, 'Last in steps'))),
      element('tbody', {}, ...turns)));
}

// An inference engine's steps by kind, and the tokens that they make.
function servingSection(rank: RankReport): HTMLElement | null {
  const serving = rank.serving;
  if (!serving) return null;
  const said = [
    serving.token_interval_ns !== null && `a token every ${duration(serving.token_interval_ns)}${serving.speculative ? ' or less' : ''} for each sequence`,
    serving.tokens_per_s !== null && `${serving.speculative ? 'at least ' : ''}${count(Math.round(serving.tokens_per_s))} tokens a second while the engine works${serving.speculative ? ': a step checks drafted tokens and may accept several' : ''}`,
    serving.between_ns > 0 && `${duration(serving.between_ns)} between steps, ${percent(serving.between_pct)} of the time`,
  ].filter((text): text is string => typeof text === 'string');
  const titles = ['Steps', 'Median', '95th percentile', 'Sequences', 'Tokens', 'Graphs'];
  const rows = serving.kinds.map((kind) => element('tr', {}, element('th', { scope: 'row' }, words(kind.kind)),
    ...[count(kind.count), duration(kind.median_ns), duration(kind.p95_ns), mean(kind.sequences), mean(kind.tokens),
      percent(kind.graph_pct)].map((text) => element('td', { class: 'num' }, text))));
  return element('section', {}, element('h2', {}, 'Engine steps'),
    element('table', { class: 'engine' }, element('thead', {}, element('tr', {}, element('td'), ...titles.map((title) => element('th', { scope: 'col' }, title)))),
      element('tbody', {}, ...rows)),
    said.length > 0 && element('ul', {}, ...said.map((text) => element('li', {}, unbroken(text)))));
}

function mean(figure: number | null): string {
  return figure === null ? '–' : figure.toLocaleString('en-US', { maximumFractionDigits: 1 });
}

// Compute, then what of communication and copies no compute hides: together exactly the busy time.
function deviceParts(use: Use): Part[] {
  const part = (name: string, ns: number, category: string) => ({ name, ns, pct: share(ns, use.window_ns), category });
  const untraced = use.idle.find((row) => row.cause === 'untraced_work')?.total_ns ?? 0;
  return [
    part('compute', use.compute_ns, 'compute'), part('communication alone', use.exposed_communication_ns, 'communication'),
    part('copies alone', use.exposed_memory_ns, 'memcpy'), part('not recorded', untraced, 'other_phase'),
    part('idle', use.window_ns - use.busy_ns - untraced, 'idle'),
  ];
}

const kNotable_pct = 3;   // of the window: less is not worth a second figure

// Of time without records, or without requests, a verdict knows nothing: it is of the rest.
function busyOfTheRest(use: Use): string | null {
  const of = (cause: string) => use.idle.find((row) => row.cause === cause)?.window_pct ?? 0;
  const without = of('untraced_work') + of('no_requests');
  if (without < kNotable_pct || without >= 100) return null;
  return `${percent((100 * (use.busy_pct ?? 0)) / (100 - without))} of ${of('no_requests') > of('untraced_work') ? 'the time with requests' : 'the recorded time'}`;
}

function withoutWarmup(use: Use): string {
  return use.of_steps ? ' without warm-up' : '';
}

function deviceNotes(use: Use): string {
  const notes = [[`busy ${percent(use.busy_pct)} of ${duration(use.window_ns)}${withoutWarmup(use)}`, busyOfTheRest(use)].filter(Boolean).join(', ')];
  const overlap = share(use.communication_ns - use.exposed_communication_ns, use.communication_ns);
  if (use.communication_ns > 0) notes.push(`communication ${duration(use.communication_ns)}, ${overlap > 0 ? percent(overlap) : 'none'} of it overlapped with compute`);
  if (use.memory_ns > 0) notes.push(`copies ${duration(use.memory_ns)}`);
  return notes.join('; ');
}

function kernelParts(rank: RankReport, device: number): Part[] {
  const sums = new Map<string, number>();
  for (const kernel of rank.kernels) {
    if (kernel.device === device) sums.set(categoryOfKernel(kernel), (sums.get(categoryOfKernel(kernel)) ?? 0) + kernel.total_ns);
  }
  const whole = [...sums.values()].reduce((a, b) => a + b, 0);
  return [...sums].map(([category, ns]) => ({ name: categoryTitle(category), ns, pct: share(ns, whole), category })).sort((a, b) => b.ns - a.ns);
}

// Of many devices: those that findings name, then the least busy.
const kMostDevices = 8;

function devicesShown({ analysis, rank }: Context): Use[] {
  const named = devicesOfFindings(analysis, rank);
  const place = (use: Use) => (named.includes(use.device) ? named.indexOf(use.device) : named.length);
  const first = [...rank.use].sort((a, b) => place(a) - place(b) || (a.busy_pct ?? 0) - (b.busy_pct ?? 0)).slice(0, kMostDevices);
  return rank.use.filter((use) => first.includes(use));
}

function deviceSections(context: Context): HTMLElement[] {
  const { rank } = context;
  const shown_here = devicesShown(context);
  const rest = rank.use.length - shown_here.length;
  const sections = shown_here.flatMap((use) => {
    const kernels = kernelParts(rank, use.device);
    const idle = use.idle.map((share) => {
      const all = rank.idle.find((row) => row.device === use.device && row.cause === share.cause);
      return {
        name: causeTitle(share.cause), ns: share.total_ns, pct: share.window_pct, category: `idle:${share.cause}`,
        note: all ? `${counted(all.count, 'gap')}, the longest ${duration(all.longest?.[0]?.duration_ns)}` : '',
      };
    });
    return [
      element('section', {},
        element('h2', {}, `GPU ${use.device}`, element('span', { class: 'quiet' }, deviceNotes(use))),
        stackedBar(deviceParts(use), `Time of GPU ${use.device}`),
        kernels.length > 0 && element('h3', { class: 'small' }, 'Kernels by kind, of their summed time'),
        kernels.length > 0 && stackedBar(kernels, 'Kernels by kind')),
      idle.length > 0 && element('section', {},
        element('h2', {}, `Idle by cause`, element('span', { class: 'quiet' }, `GPU ${use.device}; of ${duration(use.window_ns)}${withoutWarmup(use)}${isWholeTrace(rank) ? ', the whole trace' : ', from the first step’s start to the last one’s end or the last activity'}`)), barList(idle)),
    ].filter((part): part is HTMLElement => part instanceof HTMLElement);
  });
  if (rest > 0) {
    sections.unshift(element('p', { class: 'quiet more-devices' },
      `${count(shown_here.length)} of ${counted(rank.use.length, 'GPU')}: those that findings name, then the least busy. All are in `, element('code', {}, 'profgpu analyze --section use'), '.'));
  }
  return sections;
}

function provenance(context: Context): string {
  const { analysis, data } = context;
  const events = analysis.inputs.reduce((sum, input) => sum + input.events, 0);
  const formats = [...new Set(analysis.inputs.map((input) => input.format))].join(', ');
  const apart = [[analysis.warmup_steps, 'warm-up'], [analysis.incomplete_steps, 'incomplete']] as const;
  const named = apart.filter(([steps]) => steps > 0).map(([steps, what]) => `${steps} ${what}`).join(', ');
  const left_out = named ? ` (${named} left out)` : '';
  const steps = analysis.measured_steps + analysis.warmup_steps + analysis.incomplete_steps;
  const parts = [
    analysis.ranks.length > 1 ? counted(analysis.ranks.length, 'rank') : '', shown(context.rank.frameworks.join(', '), 200),
    events > 0 ? counted(events, 'event') : '', formats,
    steps > 0 && !analysis.has_steps && isWholeTrace(analysis.ranks[0]!) ? 'no steps marked' : steps > 0 ? `${counted(steps, 'step')}${left_out}` : '',
    data.tracks.length > 0 ? duration(data.span_ns) : '',
  ];
  return parts.filter(Boolean).join(' · ');
}

const kMostIssues = 3;

// Each text once; with its rank where only one of several has it.
function textsOf(inputs: Input[]): string[] {
  const all = inputs.flatMap(({ rank, issues }) => issues.filter(({ severity }) => severity !== 'info').map(({ text }) => ({ rank, text })));
  const many = new Set(inputs.map(({ rank }) => rank)).size > 1;
  const alone = ({ text }: { text: string }) => many && new Set(all.filter((other) => other.text === text).map(({ rank }) => rank)).size === 1;
  return [...new Set(all.map((issue) => (alone(issue) && issue.rank !== null ? `Rank ${issue.rank}: ${issue.text}` : issue.text)))];
}

function issueNote(context: Context): HTMLElement | null {
  const texts = textsOf(context.analysis.inputs);
  if (context.data.damage.length > 0) texts.push('this file is damaged');
  if (texts.length === 0) return null;
  const more = texts.length - kMostIssues;
  return element('ul', { class: 'warn', 'aria-label': 'What is wrong with the input' },
    ...texts.slice(0, kMostIssues).map((text) => element('li', {}, shown(text, 400))),
    element('li', {}, element('a', { href: '#inputs' }, more > 0 ? `${count(more)} more in Inputs` : 'See Inputs')));
}

function next(context: Context): HTMLElement | null {
  if (context.analysis.next.length === 0) return null;
  return element('section', {}, element('h2', {}, 'Next'),
    element('ul', { class: 'next' }, ...context.analysis.next.map((line) => element('li', {}, element('code', {}, shown(line, 1000))))));
}

// A number and its unit stay on one line.
function unbroken(text: string): string {
  return text.replace(/(\d) (?=(?:ns|µs|ms|s|min|h|%|[KMGT]?i?B|times)\b|%)/g, '$1\u00a0');
}

export const overview: View = {
  id: 'overview',
  title: 'Overview',
  of_rank: true,
  absent: () => null,
  mount(root, context) {
    const { analysis, rank } = context;
    const distance = distanceSentence(context);
    root.append(element('div', { class: 'verdict' },
      element('p', { class: 'sentence' }, unbroken(shown(analysis.verdict, 2000))),
      distance && element('p', { class: 'distance' }, element('a', { href: '#roofline' }, unbroken(distance))),
      element('p', { class: 'quiet' }, shown(provenance(context), 1000))));
    const note = issueNote(context);
    if (note) root.append(note);
    root.append(...hero(context));
    const step = stepSection(context);
    const turns = turnsSection(analysis.cluster);
    const checks = checklist(context);
    const after = next(context);
    const sums = element('div', { class: 'sums' });
    for (const part of [turns, peakSection(rank), step, servingSection(rank), ...deviceSections(context), checks, after]) if (part) sums.append(part);
    root.append(element('div', { class: 'columns' }, element('div', {}, findingList(context), ...logSections(analysis), ...insteadOfWarnings(context)), sums));
  },
};
