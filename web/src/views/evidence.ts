// Where in the timeline a finding can be seen: what its `seen` asks for, and where that is not there, the steps.

import type { EventTrack, PageData, Track, TrackKind } from '../page_data';
import type { Context, Stretch } from './view';
import { isLeftOut, type Finding, type Place, type RankReport, type SeenAt } from './report';

export interface Evidence extends Stretch {
  /** What is seen there: "longest gap of data loading". */
  text: string;
}

export function isEventTrack(track: Track): track is EventTrack {
  return track.kind !== 'counter';
}

/** The longest event on tracks of a kind whose name and category are asked for; undefined if there is none. */
export function longestEvent(
  data: PageData, rank: number, kinds: TrackKind[], wanted: (name: string, category: string) => boolean,
): Stretch | undefined {
  let found: Stretch | undefined;
  let longest = -1;
  for (const track of data.tracks) {
    if (!isEventTrack(track) || track.rank !== rank || !kinds.includes(track.kind)) continue;
    const names = data.column(track.name);
    const categories = data.column(track.category);
    const starts = data.column(track.start, 'delta');
    const durations = data.column(track.duration);
    const answers = new Map<number, boolean>();
    for (let i = 0; i < durations.length; i++) {
      if (durations[i]! <= longest) continue;
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

/**
 * Where each step of the report stands on the timeline; with its event where the file holds that. The report's times are
 * doubles of some 1e18 ns, so exact to 128 ns, and on the rank's own clock: the event is the one that starts nearest.
 */
export function stepStretches(data: PageData, rank: RankReport): Stretch[] {
  const track = data.tracks.find((t) => t.kind === 'step' && t.rank === rank.rank);
  const events = track && isEventTrack(track) ? track : undefined;
  const starts = events ? data.column(events.start, 'delta') : [];
  const durations = events ? data.column(events.duration) : [];
  let next = 0;
  return rank.steps.map((step) => {
    const about = Number(BigInt(Math.round(step.start_ns || 0)) - data.origin_ns);
    while (next < starts.length && starts[next]! < about - step.duration_ns / 2) next++;
    const at = next < starts.length && starts[next]! < about + step.duration_ns / 2 ? next : -1;
    const start_ns = at < 0 ? about : starts[at]!;
    const end_ns = start_ns + (at < 0 ? step.duration_ns : durations[at] ?? 0);
    return at < 0 ? { start_ns, end_ns } : { start_ns, end_ns, target: { event: events!.first + at } };
  });
}

function gapEvidence(data: PageData, rank_index: number, cause: string): Evidence | undefined {
  const gap = data.ranks[rank_index]?.gaps.find((g) => g.cause === cause);
  if (!gap) return undefined;
  const target = { gap: { rank: data.ranks[rank_index]!.rank, device: gap.device, start: gap.start } };
  const stretch = withMargin({ start_ns: gap.start, end_ns: gap.start + gap.duration, target }, data.span_ns);
  return { ...stretch, text: `the longest gap: ${cause.replace(/_/g, ' ')}` };
}

function kernelEvidence(data: PageData, rank: RankReport, of: string): Evidence | undefined {
  const kernel = rank.kernels.find((k) => k.kind === of || k.name.includes(of));
  if (!kernel) return undefined;
  const found = longestEvent(data, rank.rank, ['stream'], (name) => name === kernel.name);
  return found && { ...withMargin(found, data.span_ns, 2), text: `the longest ${kernel.short_name}` };
}

// The late rank does not wait: it is seen where the others do.
function waitEvidence(context: Context, late: number[]): Evidence | undefined {
  const { data, analysis } = context;
  const waits = analysis.ranks.filter((r) => !late.includes(r.rank))
    .map((r) => longestEvent(data, r.rank, ['collective'], (_name, category) => category === 'wait'))
    .filter((found): found is Stretch => found !== undefined);
  if (waits.length === 0) return undefined;
  const longest = waits.reduce((a, b) => (b.end_ns - b.start_ns > a.end_ns - a.start_ns ? b : a));
  return { ...withMargin(longest, data.span_ns), text: 'the longest wait for that rank' };
}

function phaseEvidence(data: PageData, rank: RankReport, of: string): Evidence | undefined {
  const found = longestEvent(data, rank.rank, ['phase'], (_name, category) => category === of);
  return found && { ...withMargin(found, data.span_ns, 0.1), text: `the longest ${of} phase` };
}

function stepEvidence(context: Context, rank: RankReport, at: SeenAt): Evidence | undefined {
  const { data } = context;
  const all = stepStretches(data, rank);
  if (all.length === 0) return undefined;
  const length = (s: Stretch) => s.end_ns - s.start_ns;
  if (at === 'longest_step') {
    const longest = all.reduce((a, b, i) => (length(b) > length(a) && !isLeftOut(rank.steps[i]) ? b : a));
    return { ...withMargin(longest, data.span_ns, 0.05), text: 'the longest step' };
  }
  const peak = data.ranks[context.analysis.ranks.indexOf(rank)]?.memory?.peak_ns;
  const at_peak = at === 'memory_peak' && peak !== undefined ? all.find((s) => s.start_ns <= peak && peak <= s.end_ns) : undefined;
  if (at_peak) return { ...at_peak, text: 'the step with the peak' };
  const first = all[Math.min(rank.steps.findIndex((s) => !isLeftOut(s)), all.length - 1)] ?? all[0]!;
  return { start_ns: first.start_ns, end_ns: all[all.length - 1]!.end_ns, text: 'the measured steps' };
}

// The rank in view, if the finding is of it, too.
function rankOf(finding: Finding, context: Context): number {
  const named = context.analysis.ranks.findIndex((r) => finding.ranks.includes(r.rank));
  return finding.ranks.includes(context.rank.rank) || named < 0 ? context.rank_index : named;
}

/** The longest call of a place of the program; undefined where the file's timeline holds none. */
export function placeEvidence(finding: Finding, place: Place, context: Context): Evidence | undefined {
  const { data, analysis } = context;
  const frame = `${place.file}(${place.line ?? 0}): ${place.name}`;
  const found = longestEvent(data, analysis.ranks[rankOf(finding, context)]!.rank, ['thread'],
    (name) => (place.file === null ? name === place.name : name.endsWith(frame)));
  return found && { ...withMargin(found, data.span_ns), text: `the longest call of ${place.name}` };
}

/** Undefined where the file's timeline holds nothing of it. */
export function evidenceOf(finding: Finding, context: Context): Evidence | undefined {
  const { data, analysis } = context;
  const rank_index = rankOf(finding, context);
  const rank = analysis.ranks[rank_index]!;
  const { at, of } = finding.seen;
  const found = at === 'longest_gap' ? gapEvidence(data, rank_index, of ?? '')
    : at === 'longest_kernel' ? kernelEvidence(data, rank, of ?? '')
    : at === 'longest_phase' ? phaseEvidence(data, rank, of ?? '')
    : at === 'longest_wait' ? waitEvidence(context, finding.ranks) : undefined;
  return found ?? stepEvidence(context, rank, at);
}
