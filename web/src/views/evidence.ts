// Where in the timeline a finding can be seen: exactly what its `seen` names, else the longest of its kind, else the steps.

import { causeTitle } from '../categories';
import type { EventTrack, Gap, PageData, Track, TrackKind } from '../page_data';
import { button, element, shown } from './dom';
import { duration } from './quantity';
import { kernelNames } from '../kernel_names';
import { withoutEvents, type Context, type Stretch } from './view';
import { isLeftOut, isWholeTrace, words, type Finding, type Place, type RankReport, type SeenAt } from './report';

export interface Evidence extends Stretch {
  /** What is seen there: "longest gap of data loading". */
  text: string;
}

export function isEventTrack(track: Track): track is EventTrack {
  return track.kind !== 'counter';
}

/** Of what a finding is about; anything where it does not say. */
interface Bounds {
  device?: number | null;
  /** By row of the page's args: whether an event may have it. */
  args?: boolean[];
  from_ns?: number;
  to_ns?: number;
}

/** The longest event on tracks of a kind whose name and category are asked for; undefined if there is none. */
export function longestEvent(
  data: PageData, rank: number, kinds: TrackKind[], wanted: (name: string, category: string) => boolean,
  { device = null, args, from_ns = -Infinity, to_ns = Infinity }: Bounds = {},
): Stretch | undefined {
  let found: Stretch | undefined;
  let longest = -1;
  for (const track of data.tracks) {
    if (!isEventTrack(track) || track.rank !== rank || !kinds.includes(track.kind)) continue;
    if (device !== null && track.group !== `GPU ${device}`) continue;
    const names = data.column(track.name);
    const categories = data.column(track.category);
    const starts = data.column(track.start, 'delta');
    const durations = data.column(track.duration);
    const called_with = args && data.column(track.args);
    const answers = new Map<number, boolean>();
    for (let i = 0; i < durations.length; i++) {
      if (durations[i]! <= longest || starts[i]! < from_ns || starts[i]! > to_ns) continue;
      if (called_with && !args![called_with[i] ?? 0]) continue;
      const key = names[i]! * 256 + categories[i]!;
      let answer = answers.get(key);
      if (answer === undefined) answers.set(key, (answer = wanted(data.strings[names[i]!] ?? '', data.categories[categories[i]!] ?? '')));
      if (!answer) continue;
      longest = durations[i]!;
      found = { start_ns: starts[i]!, end_ns: starts[i]! + longest, target: { event: track.first + i } };
    }
  }
  return found;
}

/** `stretch` with room around it, so that what leads to it is in view. */
export function withMargin(stretch: Stretch, span_ns: number, share = 0.35): Stretch {
  const margin = Math.max(1000, share * (stretch.end_ns - stretch.start_ns));
  return { ...stretch, start_ns: Math.max(0, stretch.start_ns - margin), end_ns: Math.min(span_ns, stretch.end_ns + margin) };
}

/** A time of the report, on a rank's own clock, on the timeline. Doubles of some 1e18 ns are exact to 128 ns. */
function onTimeline(data: PageData, rank: number, ns: number): number {
  const shift = data.ranks.find((r) => r.rank === rank)?.shift_ns ?? -data.origin_ns;
  return Number(BigInt(Math.round(ns || 0)) + shift);
}
const kClock_ns = 256;

/** Where each step of the report stands on the timeline, with its event where the file holds that; nothing of a rank without events. */
export function stepStretches(data: PageData, rank: RankReport): Stretch[] {
  if (data.without_events.includes(rank.rank)) return [];
  const track = data.tracks.find((t) => t.kind === 'step' && t.rank === rank.rank);
  const events = track && isEventTrack(track) ? track : undefined;
  const starts = events ? data.column(events.start, 'delta') : [];
  const durations = events ? data.column(events.duration) : [];
  let next = 0;
  return rank.steps.map((step) => {
    const about = onTimeline(data, rank.rank, step.start_ns);
    while (next < starts.length && starts[next]! < about - step.duration_ns / 2) next++;
    const at = next < starts.length && starts[next]! < about + step.duration_ns / 2 ? next : -1;
    const start_ns = at < 0 ? about : starts[at]!;
    const end_ns = start_ns + (at < 0 ? step.duration_ns : durations[at] ?? 0);
    return at < 0 ? { start_ns, end_ns } : { start_ns, end_ns, target: { event: events!.first + at } };
  });
}

const kWhole = 0.999;   // of the time, at least

/** Whether the file has the events of all of the time, and not of some steps. */
function holdsAll({ kept, span_ns }: PageData): boolean {
  return kept.length === 0 || kept.reduce((sum, [from, to]) => sum + to - from, 0) >= kWhole * span_ns;
}

// A longer one may be in a step that was not kept.
function longest(data: PageData, what: string): string {
  return `the longest ${shown(what, 70)}${holdsAll(data) ? '' : ' in the kept steps'}`;
}

// The measured steps, from the first to the last: what warm-up or a cut step shows is not what a finding is about.
function measured(data: PageData, rank: RankReport): Bounds {
  const all = stepStretches(data, rank).filter((_, i) => !isLeftOut(rank.steps[i]));
  return all.length === 0 ? {} : { from_ns: all[0]!.start_ns, to_ns: all[all.length - 1]!.end_ns };
}

/** The longest gap of a cause, of a device if one is named. */
export function evidenceOfGap(data: PageData, rank_index: number, cause: string | null, device: number | null = null): Evidence | undefined {
  const gap = data.ranks[rank_index]?.gaps.find((g) => g.cause === cause && (device === null || g.device === device));
  return gap && gapStretch(data, rank_index, gap, 'the longest gap');
}

function gapStretch(data: PageData, rank_index: number, gap: Gap, what: string): Evidence {
  const target = { gap: { rank: data.ranks[rank_index]!.rank, device: gap.device, start: gap.start } };
  const stretch = withMargin({ start_ns: gap.start, end_ns: gap.start + gap.duration, target }, data.span_ns);
  return { ...stretch, text: `${what} of ${duration(gap.duration)}: ${causeTitle(gap.cause)}` };
}

// The gap, else the event, else the bare stretch that the finding names.
function exactEvidence(context: Context, rank_index: number, seen: SeenAt): Evidence | undefined {
  const { data, analysis } = context;
  if (seen.start_ns === null || seen.duration_ns === null) return undefined;
  const { rank } = analysis.ranks[rank_index]!;
  const start = onTimeline(data, rank, seen.start_ns);
  const waited = `the longest ${seen.at === 'longest_gap' ? 'wait ' : ''}of ${duration(seen.duration_ns)}`;
  const is = (at: number, length: number) => length === seen.duration_ns && Math.abs(at - start) <= kClock_ns;
  const gap = data.ranks[rank_index]?.gaps.find((g) => (seen.device === null || g.device === seen.device) && is(g.start, g.duration));
  if (gap) return gapStretch(data, rank_index, gap, 'the longest gap');
  for (const track of data.tracks) {
    if (!isEventTrack(track) || track.rank !== rank || track.kind === 'phase') continue;
    const starts = data.column(track.start, 'delta');
    const at = data.column(track.duration).findIndex((length, i) => is(starts[i]!, length));
    if (at < 0) continue;
    const stretch = { start_ns: starts[at]!, end_ns: starts[at]! + seen.duration_ns, target: { event: track.first + at } };
    if (seen.at !== 'longest_kernel') return { ...withMargin(stretch, data.span_ns), text: waited };
    const name = data.strings[data.column(track.name)[at]!] ?? '';
    const short = kernelNames(data).get(name) ?? name;
    return { ...withMargin(stretch, data.span_ns, 2), text: `the longest, ${shown(short, 60)}, ${duration(seen.duration_ns)}` };
  }
  const bare = { start_ns: start, end_ns: start + seen.duration_ns, target: { span: { start, end: start + seen.duration_ns, rank } } };
  return { ...withMargin(bare, data.span_ns), text: waited };
}

function kernelEvidence(data: PageData, rank: RankReport, { of, device }: SeenAt): Evidence | undefined {
  if (of === null) return undefined;
  const kernel = rank.kernels.find((k) => (k.kind === of || k.name.includes(of)) && (device === null || k.device === device));
  if (!kernel) return undefined;
  const within = (bounds: Bounds) => longestEvent(data, rank.rank, ['stream'], (name) => name === kernel.name, { ...bounds, device: kernel.device });
  const found = within(measured(data, rank)) ?? within({});
  return found && { ...withMargin(found, data.span_ns, 2), text: longest(data, kernelNames(data).get(kernel.name) ?? kernel.name) };
}

// The late rank does not wait: it is seen where the others do.
function waitEvidence(context: Context, late: number[]): Evidence | undefined {
  const { data, analysis } = context;
  const waits = analysis.ranks.filter((r) => !late.includes(r.rank))
    .map((r) => longestEvent(data, r.rank, ['collective'], (_name, category) => category === 'wait', measured(data, r)))
    .filter((found): found is Stretch => found !== undefined);
  if (waits.length === 0) return undefined;
  const found = waits.reduce((a, b) => (b.end_ns - b.start_ns > a.end_ns - a.start_ns ? b : a));
  return { ...withMargin(found, data.span_ns), text: longest(data, 'wait for that rank') };
}

function phaseEvidence(data: PageData, rank: RankReport, { of }: SeenAt): Evidence | undefined {
  const found = longestEvent(data, rank.rank, ['phase'], (_name, category) => category === of, measured(data, rank));
  return found && { ...withMargin(found, data.span_ns, 0.1), text: longest(data, `${words(of ?? '')} phase`) };
}

// A step by its number, else the longest, that with the peak, or all.
function stepEvidence(context: Context, rank: RankReport, { at, step }: SeenAt): Evidence | undefined {
  const { data, analysis } = context;
  const all = stepStretches(data, rank);
  if (all.length === 0) return undefined;
  const whose = analysis.ranks.length > 1 ? ` of rank ${rank.rank}` : '';
  const named = step === null ? -1 : rank.steps.findIndex((s) => s.index === step);
  if (named >= 0) return { ...withMargin(all[named]!, data.span_ns, 0.05), text: `step ${step}${whose}` };
  const length = (s: Stretch) => s.end_ns - s.start_ns;
  if (at === 'longest_step') {
    const found = all.reduce((a, b, i) => (length(b) > length(a) && !isLeftOut(rank.steps[i]) ? b : a));
    return { ...withMargin(found, data.span_ns, 0.05), text: `the longest step${whose}` };
  }
  const peak = data.ranks[analysis.ranks.indexOf(rank)]?.memory?.peak_ns;
  const at_peak = at === 'memory_peak' && peak !== undefined ? all.find((s) => s.start_ns <= peak && peak <= s.end_ns) : undefined;
  if (at_peak) return { ...at_peak, text: `the step with the peak${whose}` };
  const { from_ns = all[0]!.start_ns, to_ns = all[all.length - 1]!.end_ns } = measured(data, rank);
  return { start_ns: from_ns, end_ns: to_ns, text: isWholeTrace(rank) ? `the whole trace${whose}` : `the measured steps${whose}` };
}

// The rank that the figures are of; else the one in view, if the finding is of it, too.
function rankOf(finding: Finding, { analysis, rank, rank_index }: Context): number {
  const seen = analysis.ranks.findIndex((r) => r.rank === finding.seen.rank);
  if (seen >= 0) return seen;
  const named = analysis.ranks.findIndex((r) => finding.ranks.includes(r.rank));
  return finding.ranks.includes(rank.rank) || named < 0 ? rank_index : named;
}

/** The longest call of a place of the program; undefined where the file's timeline holds none. */
export function placeEvidence(finding: Finding, place: Place, context: Context): Evidence | undefined {
  const { data, analysis } = context;
  const frame = `${place.file}(${place.line ?? 0}): ${place.name}`;
  const found = longestEvent(data, analysis.ranks[rankOf(finding, context)]!.rank, ['thread'],
    (name) => (place.file === null ? name === place.name : name.endsWith(frame)));
  return found && { ...withMargin(found, data.span_ns), text: longest(data, `call of ${place.name}`) };
}

/** Why the file holds no evidence of a finding: null where its rank's events are there. */
export function whyNoEvidence(finding: Finding, context: Context): string | null {
  return withoutEvents({ data: context.data, rank: context.analysis.ranks[rankOf(finding, context)]! });
}

/** Undefined where the file's timeline holds nothing of it. */
export function evidenceOf(finding: Finding, context: Context): Evidence | undefined {
  const { data, analysis } = context;
  const rank_index = rankOf(finding, context);
  const rank = analysis.ranks[rank_index]!;
  const { seen } = finding;
  if (withoutEvents({ data, rank })) return seen.at === 'longest_wait' ? waitEvidence(context, finding.ranks) : undefined;
  const found = exactEvidence(context, rank_index, seen)
    ?? (seen.step !== null ? undefined
      : seen.at === 'longest_gap' ? evidenceOfGap(data, rank_index, seen.of, seen.device)
      : seen.at === 'longest_kernel' ? kernelEvidence(data, rank, seen)
      : seen.at === 'longest_phase' ? phaseEvidence(data, rank, seen)
      : seen.at === 'longest_wait' ? waitEvidence(context, finding.ranks) : undefined);
  return found ?? stepEvidence(context, rank, seen);
}

function withoutCall(data: PageData): string {
  const none = 'The timeline in this file holds no call of it';
  if (!holdsAll(data)) return `${none}: other steps were kept. --html-steps chooses them.`;
  return data.host_least_ns > 0 ? `${none}: host ranges below ${duration(data.host_least_ns)} were left out.` : `${none}.`;
}

/** A button that shows a call in the timeline, and what is said where the file's timeline holds none. */
export function findButton(context: Context, find: () => Stretch | undefined): HTMLElement[] {
  const left_out = withoutEvents(context);
  if (left_out) return [element('p', { class: 'quiet' }, left_out)];
  const missing = element('p', { class: 'quiet', role: 'status', hidden: true }, withoutCall(context.data));
  const see = button(holdsAll(context.data) ? 'Find the longest in the timeline' : 'Find the longest in the kept steps', { class: 'see' }, () => {
    const found = find();
    if (found) context.show(found);
    else missing.hidden = false;
  });
  return [see, missing];
}
