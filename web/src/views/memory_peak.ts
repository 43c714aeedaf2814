// The peak of a memory snapshot explained: by category and line, what grew or ran out, and what would make it fit.

import { barList } from './bars';
import { element, shown, type Child } from './dom';
import { factList } from './facts';
import { colourName, kMemoryCategories } from './memory_model';
import { bytes, count, counted, kUnknown, percent } from './quantity';
import { DataTable, type Column } from './table';
import { words, type SnapshotSection } from './report';
import { categoryTitle } from '../categories';

type Holder = SnapshotSection['peak']['holders'][number];
type Place = { function: string | null; file: string | null; line: number | null };

/** "forward (model.py:12)" */
export function placeText({ function: name, file, line }: Place): string {
  return file === null ? name ?? kUnknown : `${name} (${file}:${line})`;
}

export function titleOfCategory(name: string): string {
  return categoryTitle(`memory:${name}`);
}

// At the end, of the device of the peak: levels over time are of what was requested, and so is what is compared with them.
function ofDevice({ peak, devices, ...all }: SnapshotSection): Pick<SnapshotSection, 'allocated_bytes' | 'requested_bytes' | 'reserved_bytes' | 'segments'> {
  return devices.find(({ device }) => device === peak.device) ?? all;
}

/** Each line once for a category, with all its operators. */
export function holdersByLine({ holders }: SnapshotSection['peak']): Holder[] {
  const lines = new Map<string, Holder>();
  for (const holder of holders) {
    const key = [holder.category, holder.function, holder.file, holder.line].join('\n');
    const line = lines.get(key);
    if (!line) {
      lines.set(key, { ...holder });
      continue;
    }
    line.held_bytes += holder.held_bytes;
    line.blocks += holder.blocks;
    line.peak_pct += holder.peak_pct;
    line.op = [...new Set([line.op, holder.op])].filter(Boolean).join(', ') || null;
  }
  return [...lines.values()].sort((a, b) => b.held_bytes - a.held_bytes);
}

export function snapshotFacts(snapshot: SnapshotSection): HTMLElement {
  const { peak, batch, outside } = snapshot;
  const end = ofDevice(snapshot);
  const times = (n: number | null) => (n === null ? kUnknown : `${n.toFixed(n < 1 ? 2 : 1)} times`);
  const pairs: [string, string][] = [
    [snapshot.history_recorded ? 'Peak' : 'Held', bytes(peak.allocated_bytes)], ['Reserved then', bytes(peak.reserved_bytes)], ['Unused then', bytes(peak.unused_bytes)],
    ['At event', count(peak.event)], ['Phase', peak.phase === 'unknown' ? kUnknown : peak.phase], ['Step', count(peak.step)],
    ['Events', count(snapshot.events)], ['At the end', bytes(end.requested_bytes || end.allocated_bytes)],
    ['Rounded to blocks', end.requested_bytes ? bytes(end.allocated_bytes) : kUnknown], ['Reserved', bytes(end.reserved_bytes)],
    ['Segments', count(end.segments)], ['Allocator settings', snapshot.allocator_settings ?? kUnknown],
  ];
  if (outside) pairs.push(['Outside PyTorch', bytes(outside.own_bytes)], ['Other processes', bytes(outside.other_bytes)]);
  if (batch?.outcome === 'fits') pairs.push(['Peak with twice the batch', bytes(batch.double_peak_bytes)]);
  if (batch?.outcome === 'failed') pairs.push(['Peak of the whole step', bytes(batch.full_peak_bytes)]);
  if (batch && batch.largest !== null) {
    pairs.push(['Largest batch that fits', `${times(batch.largest)} this one (${times(batch.largest_low)} to ${times(batch.largest_high)})`]);
  }
  return factList(pairs.map(([name, value]) => [name, shown(value, 200)]), 'wide');
}

const kOomCauses: Record<string, string> = {
  fragmentation: 'What it held unused would have been enough in one piece: fragmentation.',
  limit: 'The device had enough: a limit of the process refused it.',
  need: 'The job needs more than there is.',
  outside: 'Other processes hold most of the device.',
  request: 'The request alone is more than the process could have.',
};

/** What a reader must know before anything else. */
export function snapshotNotes(snapshot: SnapshotSection): HTMLElement | null {
  const { oom } = snapshot;
  const notes: string[] = [];
  if (oom) {
    const why = kOomCauses[oom.cause] ?? '';
    const goes = oom.steps_after > 0 ? ` Steps completed after it: ${count(oom.steps_after)}.` : '';
    notes.push(`Out of memory at event ${count(oom.event)}: ${placeText(oom)} asked for ${bytes(oom.requested_bytes)}; ${bytes(oom.device_free_bytes)} of the device were free, ` +
      `${bytes(oom.allocated_bytes)} allocated, ${bytes(oom.unused_bytes)} reserved and unused. ${why}${goes}`);
  }
  if (!snapshot.history_recorded) {
    notes.push('No history was recorded: this is what was held when the snapshot was taken, and the peak is unknown. ' +
      'Call torch.cuda.memory._record_memory_history(max_entries=1_000_000) before the first allocation.');
  } else if (snapshot.truncated) {
    notes.push('The history does not reach back to the first allocation: earlier blocks have a stack only if they are still held, and their category may be inferred.');
  }
  if (notes.length === 0) return null;
  return element('ul', { 'class': 'warn', 'aria-label': 'What to know about the snapshot' }, ...notes.map((text) => element('li', {}, shown(text, 800))));
}

export function peakCategories({ peak }: SnapshotSection): HTMLElement | null {
  if (peak.categories.length === 0) return null;
  const sure = (c: SnapshotSection['peak']['categories'][number]) => [
    c.blocks === null ? '' : counted(c.blocks, 'block'), c.certain_bytes > 0 ? `${bytes(c.certain_bytes)} certain` : '',
    c.inferred_bytes > 0 ? `${bytes(c.inferred_bytes)} inferred from size and lifetime` : '', c.attention_bytes ? `${bytes(c.attention_bytes)} of attention` : '',
  ].filter(Boolean).join('; ');
  return barList(peak.categories.map((c) => ({
    name: titleOfCategory(c.category), ns: c.held_bytes, amount: bytes(c.held_bytes), pct: c.peak_pct,
    category: kMemoryCategories.includes(c.category) ? `memory:${c.category}` : colourName(-1), note: sure(c),
  })));
}

function holders({ peak, history_recorded }: SnapshotSection, search: (text: string) => void): HTMLElement | null {
  if (peak.holders.length === 0) return null;
  const columns: Column<Holder>[] = [
    { key: 'line', title: 'Line', wide: true, cell: (h) => shown(placeText(h), 200), order: placeText },
    { key: 'bytes', title: 'Held', numeric: true, cell: (h) => bytes(h.held_bytes), order: (h) => h.held_bytes },
    { key: 'share', title: history_recorded ? 'Of the peak' : 'Share', numeric: true, cell: (h) => percent(h.peak_pct), order: (h) => h.peak_pct },
    { key: 'blocks', title: 'Blocks', numeric: true, cell: (h) => count(h.blocks), order: (h) => h.blocks },
    { key: 'category', title: 'Category', cell: (h) => titleOfCategory(h.category), order: (h) => h.category },
    { key: 'op', title: 'Op', spare: true, cell: (h) => shown(h.op ?? '', 60), order: (h) => h.op },
  ];
  const table = new DataTable<Holder>({ label: 'Lines that hold the peak', sorted: 'bytes', most_rows: 12, columns, picked: (h) => search(h.function) });
  table.show(holdersByLine(peak));
  return table.root;
}

function plainTable(title: string, headings: string[], rows: Child[][]): HTMLElement | null {
  if (rows.length === 0) return null;
  const numeric = (i: number) => (i > 0 && i >= headings.length - 2 ? 'num' : null);
  return element('section', {}, element('h3', {}, title), element('div', { 'class': 'scroll plain', 'tabindex': 0, 'role': 'region', 'aria-label': `${title}, table` },
    element('table', { class: 'data static' },
      element('thead', {}, element('tr', {}, ...headings.map((heading, i) => element('th', { scope: 'col', class: numeric(i) }, heading)))),
      element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map((cell, i) => element('td', { class: numeric(i) }, cell))))))));
}

/** `search`: what picking a line does. */
export function peakExplained(snapshot: SnapshotSection, search: (text: string) => void): Child[] {
  const { spike, replay, pinned } = snapshot;
  const growing = [...snapshot.growth.map((line) => ({ ...line, where: '' })), ...(pinned?.growth ?? []).map((line) => ({ ...line, where: 'pinned host memory: ' }))];
  return [
    element('h2', {}, snapshot.history_recorded ? 'The peak explained' : 'What was held', element('span', { class: 'quiet' },
      `categories add up to ${snapshot.history_recorded ? 'the peak' : 'it'}; a line is the innermost of the program’s own`)),
    peakCategories(snapshot),
    // Where both read the same, another allocation sets a peak that is as high.
    spike && bytes(spike.peak_without_bytes) !== bytes(snapshot.peak.allocated_bytes) && element('p', { class: 'spike' }, `A short-lived allocation sets the peak: ${shown(placeText(spike), 300)} holds ${bytes(spike.held_bytes)} for at most ` +
      `${counted(spike.lifetime_events, 'event')}. Without it the peak would be ${bytes(spike.peak_without_bytes)}.`),
    holders(snapshot, search),
    plainTable('Grows with each step', ['Line', 'Category', 'Cause', 'Per step', 'Held'], growing.slice(0, 20).map((line) => [
      shown(line.where + placeText(line), 200), titleOfCategory(line.category), words(line.cause), bytes(line.growth_bytes), bytes(line.held_bytes)])),
    plainTable('Freed by the garbage collector', ['Line', 'Category', 'Runs', 'In all', 'At the peak'], snapshot.cycles.map((row) => [
      shown(placeText(row), 200), titleOfCategory(row.category), count(row.collector_runs), bytes(row.collected_bytes), bytes(row.held_bytes)])),
    plainTable('Could be freed earlier', ['Line', 'Category', 'Held', 'Saves'], snapshot.early_frees.map((row) => [
      shown(placeText(row), 200), titleOfCategory(row.category), bytes(row.held_bytes), bytes(row.saved_bytes)])),
    plainTable('What would make it fit', ['Change', 'Assumes', 'Peak', 'Saves'], snapshot.savings.map((row) => [
      shown(row.change, 120), shown(row.assumes, 200), bytes(row.peak_bytes), bytes(row.saved_bytes)])),
    plainTable('Allocator settings, replayed', ['Setting', 'Peak reserved', 'Saves'], (replay?.settings ?? []).map((row) => [
      element('code', {}, shown(row.settings, 120)), bytes(row.peak_reserved_bytes), bytes(row.saved_bytes)])),
    replay && replay.peak_reserved_bytes === null && element('p', { class: 'quiet' }, `The allocator is not replayed: ${shown(replay.departure ?? '', 300)}.`),
    replay && !replay.exact && replay.peak_reserved_bytes !== null && element('p', { class: 'quiet' }, `A replay of the allocator departs from the recording at event ${count(replay.departs_event)}${replay.departure ? `: ${shown(replay.departure, 300)}` : ''}; other settings are not tried.`),
  ];
}
