// Paper shows the overview, the steps and the tables one after another, in full and in light colours.

import { element, shown } from './dom';
import { bytes, count, duration, fieldText, kUnknown, percent } from './quantity';
import { holdersByLine, placeText, titleOfCategory } from './memory_peak';
import { inLight } from './colours';
import { overview } from './overview';
import { hasDistance } from './roofline';
import { staticTable } from './static_table';
import { waterfall } from './waterfall';
import { categoryOfKernel, deviceOfSteps, words, type Kernel } from './report';
import { categoryTitle } from '../categories';
import { kernelNames } from '../kernel_names';
import type { Context } from './view';

function printed(context: Context): HTMLElement {
  const root = element('div', { id: 'paper' });
  overview.mount(root, context);
  const { rank, analysis } = context;
  const { distance, snapshot } = rank;
  const names = kernelNames(context.data);
  const many = rank.devices.length > 1;
  const tables = [
    distance && hasDistance(rank) && element('section', {}, element('h2', {}, 'Distance from the limit'), waterfall(distance, () => undefined)),
    staticTable({ title: 'Roofline: operators and their limits', rows: rank.roofline?.ops ?? [], columns: [
      ['Operator', (r) => shown(r.shapes === null ? r.name : `${r.name} ${r.shapes}`, 120)], ['Bound', (r) => r.bound], ['Calls', (r) => count(r.count), true],
      ['Total', (r) => duration(r.total_ns), true], ['Of limit', (r) => percent(r.limit_pct), true], ['TFLOP/s', (r) => fieldText(r.tflops, ''), true]] }),
    staticTable({ title: 'Memory at the peak, by line', rows: snapshot ? holdersByLine(snapshot.peak) : [], columns: [
      ['Line', (h) => shown(placeText(h), 120)], ['Category', (h) => titleOfCategory(h.category)],
      ['Blocks', (h) => count(h.blocks), true], ['Held', (h) => bytes(h.held_bytes), true], ['Of the peak', (h) => percent(h.peak_pct), true]] }),
    staticTable({ title: 'Steps', rows: rank.steps, columns: [
      ['Step', (s) => shown(s.name, 80)], ['Duration', (s) => duration(s.duration_ns), true], [`${deviceOfSteps(rank)} busy`, (s) => duration(s.device_busy_ns), true],
      [`${deviceOfSteps(rank)} idle`, (s) => duration(s.device_idle_ns), true], ['Left out', (s) => (s.warmup ? 'warm-up' : s.incomplete ? 'incomplete' : '')]] }),
    staticTable({ title: 'Kernels', rows: rank.kernels, columns: [
      ['Kernel', (k) => shown(names.get(k.name) ?? k.name, 90)], ...(many ? [['GPU', (k: Kernel) => String(k.device), true] as [string, (k: Kernel) => string, boolean]] : []), ['Category', (k) => categoryTitle(categoryOfKernel(k))], ['Calls', (k) => count(k.count), true], ['Total', (k) => duration(k.total_ns), true],
      ['Of kernels', (k) => percent(k.kernel_pct), true], ['Median', (k) => duration(k.median_ns), true], ['p95', (k) => duration(k.p95_ns), true]] }),
    staticTable({ title: 'Ops', rows: [...rank.ops].sort((a, b) => b.cpu_self_ns - a.cpu_self_ns), columns: [
      ['Op', (op) => shown(op.name, 90)], ['Calls', (op) => count(op.calls), true], ['CPU self', (op) => duration(op.cpu_self_ns), true],
      ['CPU total', (op) => duration(op.cpu_total_ns), true], ['GPU total', (op) => duration(op.device_total_ns), true]] }),
    staticTable({ title: 'Collectives', rows: analysis.ranks.flatMap((r) => r.collectives.map((c) => ({ ...c, rank: r.rank }))), columns: [
      ['Collective', (c) => shown(words(c.name), 60)], ['Rank', (c) => String(c.rank), true], ['Calls', (c) => count(c.calls), true], ['Message', (c) => bytes(c.message_bytes), true],
      ['Total', (c) => duration(c.total_ns), true], ['Exposed', (c) => duration(c.exposed_ns), true], ['Waits', (c) => duration(c.wait_ns), true], ['Bus bw', (c) => fieldText(c.busbw_gbps, 'busbw_gbps'), true]] }),
    staticTable({ title: 'Inputs', rows: analysis.inputs, columns: [
      ['File', (i) => shown(i.path, 200)], ['Format', (i) => i.format], ['Rank', (i) => (i.rank === null ? kUnknown : String(i.rank)), true], ['Size', (i) => bytes(i.file_bytes), true],
      ['Events', (i) => count(i.events), true], ['Issues', (i) => i.issues.map((issue) => shown(issue.text, 300)).join('; ')]] }),
  ];
  for (const table of tables) if (table) root.append(table);
  inLight(root);
  return root;
}

/** In the margin of each page: whose report it is, on what device, and the page. */
function marginStyle(name: string, { rank }: Context): string {
  const quoted = (text: string) => `"${shown(text, 120).replace(/["\\]/g, '\\$&')}"`;
  const device = rank.devices.find((d) => d.name)?.name ?? '';
  const font = 'font: 9px system-ui, sans-serif; color: #444;';
  return `@page { margin: 16mm 12mm 14mm; @top-left { content: ${quoted(name)}; ${font} } @top-right { content: ${quoted(device)}; ${font} }
    @bottom-left { content: "profgpu"; ${font} } @bottom-right { content: counter(page) " / " counter(pages); ${font} } }`;
}

/** Builds what is printed when it is asked for, and throws it away after. */
export function preparePrinting(name: string, context: () => Context): void {
  let paper: HTMLElement | undefined;
  addEventListener('beforeprint', () => {
    paper?.remove();
    paper = printed(context());
    paper.prepend(element('style', {}, marginStyle(name, context())));
    document.body.append(paper);
  });
  addEventListener('afterprint', () => {
    paper?.remove();
    paper = undefined;
  });
}
