// Under the verdict: what a step takes and would take, and one typical step with what the host and the GPU do in it.

import { cssColour, cssInk } from './colours';
import { mergedEvents } from './devices';
import { button, element, shown } from './dom';
import { isEventTrack, stepStretches } from './evidence';
import { duration, percent } from './quantity';
import { devicesOfFindings, isLeftOut, isWholeTrace, ofRange, words, type RankReport } from './report';
import { categoryTitle } from '../categories';
import type { EventTrack } from '../page_data';
import { withoutEvents, type Context, type Stretch } from './view';

const kBins = 300;
const kBusy = 'compute';   // whatever runs
const kLabelled_pct = 8;   // narrower pieces have no room for their name

function gainBars({ analysis }: Context): HTMLElement | null {
  const { saving } = analysis;
  if (saving === null || saving.step_ns <= 0) return null;
  const [now, then] = [duration(saving.step_ns), duration(saving.without_ns)];
  const rest = (100 * saving.without_ns) / saving.step_ns;
  // What does not fit the short bar stands beside it.
  const fits = rest > 25;
  const fixed = element('span', { class: 'kept' }, fits ? `about ${then}` : '');
  const saved = element('span', { class: 'saved' }, `${fits ? '' : `about ${then}  `}−${percent(100 - rest, 0)}`);
  fixed.style.width = `${rest}%`;
  saved.style.width = `${100 - rest}%`;
  return element('div', { class: 'gain', role: 'img', 'aria-label': `From ${now} to about ${then}` },
    element('span', { class: 'quiet' }, 'now'), element('div', { class: 'whole' }, element('span', { class: 'kept' }, now)),
    element('span', { class: 'quiet' }, 'fixed'), element('div', { class: 'whole' }, fixed, saved));
}

interface Piece {
  category: string;
  bins: number;
  ns: number;
}

/** What takes most of each bin of the stretch, neighbours of a kind as one piece; where nothing does, `else_`. Streams side by side count once. */
function pieces(context: Context, tracks: EventTrack[], { start_ns, end_ns }: Stretch, else_: string, busy_ns = 0): Piece[] {
  const { data } = context;
  const bin_ns = (end_ns - start_ns) / kBins;
  const sums = Array.from({ length: kBins }, () => new Map<string, number>());
  const totals = new Map<string, number>();
  for (const track of tracks) {
    const starts = data.column(track.start, 'delta');
    const durations = data.column(track.duration);
    const categories = data.column(track.category);
    for (let i = 0; i < durations.length; i++) {
      const [from, to] = [Math.max(starts[i]!, start_ns), Math.min(starts[i]! + durations[i]!, end_ns)];
      if (from >= to) continue;
      const category = track.kind === 'stream' ? kBusy : data.categories[categories[i]!] ?? else_;
      totals.set(category, (totals.get(category) ?? 0) + to - from);
      for (let bin = Math.floor((from - start_ns) / bin_ns); bin < kBins && start_ns + bin * bin_ns < to; bin++) {
        const part = Math.min(to, start_ns + (bin + 1) * bin_ns) - Math.max(from, start_ns + bin * bin_ns);
        sums[bin]!.set(category, (sums[bin]!.get(category) ?? 0) + part);
      }
    }
  }
  const others = [...totals].reduce((sum, [category, ns]) => (category === kBusy || category === else_ ? sum : sum + ns), 0);
  if (totals.has(kBusy)) totals.set(kBusy, Math.min(busy_ns, end_ns - start_ns - others));
  totals.set(else_, Math.max(0, end_ns - start_ns - others - (totals.get(kBusy) ?? 0)));
  const made: Piece[] = [];
  for (const sum of sums) {
    const most = [...sum].sort((a, b) => b[1] - a[1])[0];
    const category = most && most[1] > bin_ns / 2 ? most[0] : else_;
    const last = made[made.length - 1];
    if (last?.category === category) last.bins++;
    else made.push({ category, bins: 1, ns: totals.get(category) ?? 0 });
  }
  return made;
}

function lane(title: string, of: Piece[]): HTMLElement[] {
  // The largest of a kind carries the name, with the time of all of that kind.
  const largest = new Map<string, Piece>();
  for (const piece of of) if (piece.bins > (largest.get(piece.category)?.bins ?? 0)) largest.set(piece.category, piece);
  const bar = element('div', { class: 'lane' });
  for (const piece of of) {
    const pct = (100 * piece.bins) / kBins;
    const name = piece.category === kBusy ? 'busy' : categoryTitle(piece.category);
    const text = largest.get(piece.category) === piece && pct >= kLabelled_pct ? `${name.replace(/^idle: /, '')} ${duration(piece.ns)}` : '';
    const made = element('span', { title: `${name}  ${duration(piece.ns)} of the step` }, text);
    made.style.width = `${pct}%`;
    made.style.background = cssColour(piece.category);
    made.style.color = cssInk(piece.category);
    bar.append(made);
  }
  return [element('span', { class: 'quiet' }, title), bar];
}

/** Of the measured steps whose events the file holds, the one of middle length. */
function typical({ data, rank }: Context): { index: number; stretch: Stretch } | undefined {
  const held = (s: Stretch) => data.kept.length === 0 || data.kept.some(([from, to]) => from <= s.start_ns && s.end_ns <= to);
  const all = stepStretches(data, rank).map((stretch, index) => ({ index, stretch }))
    .filter(({ index, stretch }) => !isLeftOut(rank.steps[index]) && stretch.end_ns > stretch.start_ns && held(stretch));
  // At both ends of a recording a step may lack what was launched before or ran after.
  const inner = all.length > 2 ? all.slice(1, -1) : all;
  const length = (s: { stretch: Stretch }) => s.stretch.end_ns - s.stretch.start_ns;
  return inner.sort((a, b) => length(a) - length(b))[Math.floor((inner.length - 1) / 2)];
}

// The busiest device, and the one that the most expensive finding names.
function lanesOf({ analysis, rank }: Context): number[] {
  const busiest = rank.devices.reduce<RankReport['devices'][0] | undefined>((a, b) => (!a || b.busy_ns > a.busy_ns ? b : a), undefined);
  const named = devicesOfFindings(analysis, rank).slice(0, 1);
  return [...new Set([...(busiest ? [busiest.id] : []), ...named])].sort((a, b) => a - b);
}

// Streams side by side count once.
function busyWithin({ data }: Context, tracks: EventTrack[], { start_ns, end_ns }: Stretch): number {
  const merged = mergedEvents(data, tracks.filter((track) => track.kind === 'stream'));
  return merged.reduce((sum, [start, end]) => sum + Math.max(0, Math.min(end, end_ns) - Math.max(start, start_ns)), 0);
}

function typicalStep(context: Context): HTMLElement | null {
  const { data, rank, analysis } = context;
  const step = typical(context);
  const of_rank = data.tracks.filter(isEventTrack).filter((track) => track.rank === rank.rank);
  const phases = of_rank.filter((track) => track.kind === 'phase');
  const on_devices = lanesOf(context).map((id) => [`GPU ${id}`, of_rank.filter((track) => ['idle', 'stream'].includes(track.kind) && track.group === `GPU ${id}`)] as const)
    .filter(([, tracks]) => tracks.length > 0);
  if (!step || phases.length + on_devices.length === 0) return null;
  const named = rank.steps[step.index]!;
  const length_ns = step.stretch.end_ns - step.stretch.start_ns;
  const whose = analysis.ranks.length > 1 ? `, rank ${rank.rank}` : '';
  const one = isWholeTrace(rank) ? 'The whole trace' : analysis.measured_steps > 1 ? `A typical step: ${words(shown(named.name, 60))}` : shown(named.name, 60);
  return element('section', { class: 'typical' },
    element('h2', {}, one, element('span', { class: 'quiet' }, `${duration(length_ns)}${duration(named.elapsed_ns) === duration(length_ns) ? '' : ` ${ofRange(rank)}`}${whose}`),
      button('Open in timeline', { class: 'see', 'aria-label': `Open in timeline: ${shown(named.name, 60)}` }, () => context.show(step.stretch))),
    element('div', { class: 'lanes' }, ...(phases.length > 0 ? lane('host', pieces(context, phases, step.stretch, 'other_phase')) : []),
      ...on_devices.flatMap(([title, tracks]) => lane(title, pieces(context, tracks, step.stretch, 'idle', busyWithin(context, tracks, step.stretch))))));
}

export function hero(context: Context): HTMLElement[] {
  const left_out = withoutEvents(context);
  return [gainBars(context), left_out ? element('p', { class: 'quiet' }, left_out) : typicalStep(context)].filter((part) => part !== null);
}
