// What was read, what is wrong with it, and what the report therefore lacks.

import { element, shown } from './dom';
import { rangesOf, severityMark } from './finding_list';
import { bytes, count, duration, kUnknown, percent } from './quantity';
import type { Input, Issue } from './report';
import { DataTable } from './table';
import type { Context, View } from './view';

function fileTable(inputs: Input[]): HTMLElement {
  const table = new DataTable<Input>({
    label: 'Files', most_rows: 16,
    columns: [
      { key: 'path', title: 'File', wide: true, cell: (i) => element('span', { title: shown(i.path, 4000) }, shown(i.path)), order: (i) => i.path },
      { key: 'format', title: 'Format', cell: (i) => i.format, order: (i) => i.format },
      { key: 'rank', title: 'Rank', numeric: true, cell: (i) => (i.rank === null ? kUnknown : String(i.rank)), order: (i) => i.rank },
      { key: 'size', title: 'Size', numeric: true, cell: (i) => bytes(i.file_bytes), order: (i) => i.file_bytes },
      { key: 'events', title: 'Events', numeric: true, cell: (i) => count(i.events), order: (i) => i.events },
      { key: 'issues', title: 'Issues', numeric: true, cell: (i) => count(i.issues.length), order: (i) => i.issues.length },
    ],
  });
  table.show(inputs);
  return table.root;
}

function issueItem(issue: Issue, path: string, rank: number | null = null): HTMLElement {
  return element('li', { class: `issue ${issue.severity}` }, severityMark(issue.severity),
    element('div', {}, element('p', {}, shown(issue.text, 2000)),
      element('p', { class: 'quiet' }, `${issue.severity}, ${issue.kind.replace(/_/g, ' ')}${issue.count > 1 ? `, ${count(issue.count)} times` : ''}, in ${shown(path, 200)}${rank === null ? '' : `, rank ${rank}`}`)));
}

// More rows than anybody reads one by one: the JSON document has them all.
const kMostDevices = 500;

function machine(context: Context): HTMLElement {
  const all = context.analysis.ranks.flatMap((rank) => (rank.devices.length > 0 ? rank.devices : [undefined]).map((device) => ({ rank, device })));
  const rows = all.slice(0, kMostDevices).map(({ rank, device }) => element('tr', {},
    element('td', { class: 'num' }, rank.rank), element('td', {}, shown(rank.host ?? kUnknown, 80)),
    element('td', { class: 'num' }, device ? device.id : kUnknown), element('td', {}, shown(device?.name ?? kUnknown, 80)),
    element('td', { class: 'num' }, device ? duration(device.window_ns) : kUnknown), element('td', { class: 'num' }, percent(device?.window_utilization_pct)),
    element('td', { class: 'num' }, rank.world_size === null ? kUnknown : String(rank.world_size))));
  const head = ['Rank', 'Host', 'GPU', 'Device', 'Window', 'Busy', 'Ranks of the job'];
  const numeric = new Set(['Rank', 'GPU', 'Window', 'Busy', 'Ranks of the job']);
  return element('div', { 'class': 'scroll plain', 'tabindex': 0, 'role': 'region', 'aria-label': 'Machine, table' }, element('table', { class: 'data static' },
    element('thead', {}, element('tr', {}, ...head.map((name) => element('th', { scope: 'col', class: numeric.has(name) ? 'num' : '' }, name)))),
    element('tbody', {}, ...rows)), all.length > rows.length && element('p', { class: 'quiet' }, `… and ${count(all.length - rows.length)} more`));
}

function keptNote(context: Context): string {
  const { data } = context;
  const short = data.host_least_ns > 0 ? ` Host ranges shorter than ${duration(data.host_least_ns)} that launched nothing were left out.` : '';
  const lacking = data.without_events;
  const ranks = lacking.length > 0
    ? ` Of rank${lacking.length > 1 ? 's' : ''} ${rangesOf(lacking)} the page has no events, only the report; --html-ranks chooses.` : '';
  const records = context.analysis.inputs.reduce((sum, input) => sum + input.events, 0);
  if (data.events === 0) return 'There is no timeline: nothing in the files is an event over time.';
  if (data.events === data.events_kept)
    return `The timeline holds all ${count(data.events)} ranges and activities that the ${count(records)} events of the files make.${short}${ranks}`;
  const windows = data.kept.map(([start, end]) => `${duration(start)} to ${duration(end)}`).slice(0, 8).join(', ');
  return `The timeline holds ${count(data.events_kept)} of ${count(data.events)} ranges and activities in full (${windows}); of the others, how busy each track was.${short} --html-steps chooses.${ranks}`;
}

export function inputsView(missing: (context: Context) => { title: string; reason: string }[]): View {
  return {
    id: 'inputs',
    title: 'Inputs',
    of_rank: true,
    absent: () => null,
    mount(root, context) {
      const { analysis, data } = context;
      root.append(element('h2', {}, 'Files'), fileTable(analysis.inputs), element('p', { class: 'quiet' }, keptNote(context)));
      const many = new Set(analysis.inputs.map(({ rank }) => rank)).size > 1;
      const issues = analysis.inputs.flatMap((input) => input.issues.map((issue) => issueItem(issue, input.path, many ? input.rank : null)));
      const damage = data.damage.map((text) => issueItem({ kind: 'damaged report', count: 1, severity: 'warning', text }, 'this file'));
      root.append(element('h2', {}, 'Issues'), issues.length + damage.length === 0
        ? element('p', { class: 'nothing' }, 'None: everything in the files was read and is sound.')
        : element('ul', { class: 'issues' }, ...damage, ...issues));
      const lacking = missing(context);
      if (lacking.length > 0) {
        root.append(element('h2', {}, 'Not in this report'), element('dl', { class: 'lacking' },
          ...lacking.flatMap(({ title, reason }) => [element('dt', {}, title), element('dd', {}, reason)])));
      }
      root.append(element('h2', {}, 'Machine'), machine(context));
    },
  };
}
