// Where no rule warns of anything: where the time goes all the same, and what this recording cannot tell. No all-clear.

import { element, shown } from './dom';
import { holdersByLine, placeText } from './memory_peak';
import { bytes, count, counted, duration, percent } from './quantity';
import { type Analysis, type Check, type RankReport } from './report';
import { kernelNames } from '../kernel_names';
import type { Context } from './view';

const kMostRows = 6;

interface Row {
  name: string;
  /** "GPU 1", where there are several. */
  on?: string;
  times: string;
  amount: string;
  share: string;
}

function largest(title: string, note: string, link: string, rows: Row[]): HTMLElement | null {
  if (rows.length === 0) return null;
  return element('section', {}, element('h2', {}, title, element('span', { class: 'quiet' }, note)),
    element('table', { class: 'largest' }, element('tbody', {}, ...rows.slice(0, kMostRows).map((row) => element('tr', {},
      element('th', { scope: 'row', title: shown(row.name, 600) }, shown(row.name, 90)), row.on !== undefined && element('td', {}, row.on), element('td', { class: 'num' }, row.times),
      element('td', { class: 'num' }, row.amount), element('td', { class: 'num share' }, row.share))))),
    rows.length > kMostRows && element('p', {}, element('a', { href: link }, `All ${count(rows.length)}`)));
}

function largestKernels({ data, rank }: Context): HTMLElement | null {
  const names = kernelNames(data);
  const many = rank.devices.length > 1;
  const rows = [...rank.kernels].sort((a, b) => b.total_ns - a.total_ns).map((k) => ({
    name: names.get(k.name) ?? k.name, on: many ? `GPU ${k.device}` : undefined, times: `${count(k.count)} ×`, amount: duration(k.total_ns), share: percent(k.kernel_pct),
  }));
  return largest('Largest kernels', many ? 'of the summed time of each GPU’s kernels' : 'of the kernels’ summed time', '#kernels', rows);
}

function largestHostRanges(rank: RankReport): HTMLElement | null {
  const whole = rank.ops.reduce((sum, op) => sum + op.cpu_self_ns, 0);
  const rows = [...rank.ops].filter((op) => op.cpu_self_ns > 0).sort((a, b) => b.cpu_self_ns - a.cpu_self_ns)
    .map((op) => ({ name: op.name, times: `${count(op.calls)} ×`, amount: duration(op.cpu_self_ns), share: percent((100 * op.cpu_self_ns) / (whole || 1)) }));
  return largest('Largest host ranges', 'their own time, of all host ranges’', '#ops', rows);
}

function largestHolders({ snapshot }: RankReport): HTMLElement | null {
  const rows = (snapshot ? holdersByLine(snapshot.peak) : []).map((h) => ({ name: placeText(h), times: counted(h.blocks, 'block'), amount: bytes(h.held_bytes), share: percent(h.peak_pct) }));
  return largest('Largest holders', 'lines that hold memory at the peak', '#memory', rows);
}

// Checks without an answer, by what would answer them.
function notChecked({ checklist }: Analysis): HTMLElement | null {
  const by_record = new Map<string, Check[]>();
  for (const check of checklist) {
    if (check.record === null) continue;
    by_record.set(check.record, [...(by_record.get(check.record) ?? []), check]);
  }
  if (by_record.size === 0) return null;
  return element('section', { class: 'unchecked' }, element('h2', {}, 'What could not be checked'),
    element('ul', {}, ...[...by_record].map(([record, of]) => element('li', {}, element('b', {}, `Record ${shown(record, 300)}`),
      element('ul', {}, ...of.map((check) => element('li', {}, shown(check.question, 200))))))));
}

/** What stands in the place of warnings; empty where there are some. */
export function insteadOfWarnings(context: Context): HTMLElement[] {
  const { analysis, rank } = context;
  if (analysis.findings.some((finding) => finding.severity !== 'info')) return [];
  return [largestKernels(context), largestHostRanges(rank), largestHolders(rank), notChecked(analysis)].filter((part) => part !== null);
}
