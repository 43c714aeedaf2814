// What a job's own log says beyond its steps: its speed and end, the program's timers, links that benchmarks measured.

import { categoryTitle } from '../categories';
import { element, shown } from './dom';
import { factList } from './facts';
import { bytes, count, duration, gbps, inUnit, kUnknown, number, percent } from './quantity';
import { isPhase, words, type Analysis, type Log } from './report';
import { staticTable } from './static_table';

const kMostTimers = 15;

function speed({ throughput }: Log): [string, string][] {
  if (!throughput) return [];
  const { mean_ns, median_ns, p95_ns, max_ns } = throughput;
  return [
    ['Step', duration(mean_ns)], ['Median', duration(median_ns)], ['p95', duration(p95_ns)], ['Longest', duration(max_ns)],
    ['Samples/s', number(throughput.samples_per_s)], ['Tokens/s', number(throughput.tokens_per_s)], ['Tokens/s per GPU', number(throughput.device_tokens_per_s)],
    ['TFLOP/s per GPU', number(throughput.tflops)], ['MFU', percent(throughput.mfu_pct)],
  ];
}

function training({ loss, memory, host_memory_bytes, end }: Log): [string, string][] {
  const most = memory[0];
  const ended = end.kind === 'unknown' ? kUnknown
    : `${words(end.kind)}${end.after_step === null ? '' : ` after step ${end.after_step}`}${end.line === null ? '' : `, line ${end.line}`}`;
  return [
    ['Loss', loss ? `${number(loss.first)} at first, ${number(loss.last)} at last` : kUnknown],
    ['Steps without an update', loss && loss.skipped > 0 ? count(loss.skipped) : kUnknown],
    ['Peak allocated', bytes(most?.peak_allocated_bytes)], ['Peak reserved', bytes(most?.peak_reserved_bytes)], ['Host memory', bytes(host_memory_bytes)],
    ['End', ended],
  ];
}

function serving({ serving: of }: Log): [string, string][] {
  if (!of) return [];
  const most = (mean: number | null, highest: number | null, unit = '') => (mean === null ? kUnknown : `${inUnit(mean, unit)}, at most ${inUnit(highest, unit)}`);
  return [
    ['Prompt tokens/s', number(of.prompt_tokens_per_s)], ['Generated tokens/s', most(of.generated_tokens_per_s, of.most_generated_tokens_per_s)],
    ['Requests that run', most(of.running, of.most_running)], ['Requests that wait', most(of.waiting, of.most_waiting)],
    ['Key-value cache', most(of.cache_pct, of.most_cache_pct, '%')], ['Prefix cache hits', percent(of.prefix_hit_pct)],
  ];
}

function nccl({ nccl: of }: Log): HTMLElement | null {
  if (!of) return null;
  const transports = of.transports.map((way) => `${way.transport} (${count(way.connections)})`).join(', ');
  const pairs: [string, string][] = [
    ['Version', of.version ?? kUnknown], ['Ranks', count(of.ranks)], ['Hosts', count(of.hosts)], ['Channels', count(of.channels)],
    ['Network', of.network ?? kUnknown], ['Connections', transports || kUnknown],
  ];
  const remarks = of.remarks.slice(0, 8).map(({ line, text, count: times }) => `line ${line}: ${text}${times > 1 ? ` (${count(times)} times)` : ''}`);
  return element('section', {}, element('h2', {}, 'NCCL'), factList(pairs.map(([name, value]) => [name, shown(value, 300)]), 'wide'),
    remarks.length > 0 && element('ul', {}, ...remarks.map((text) => element('li', {}, shown(text, 400)))));
}

function links(log: Log): HTMLElement | null {
  return staticTable({ title: 'Measured links', rows: log.link_rates, columns: [
    ['Collective', (l) => shown(words(l.op || 'any'), 40)], ['Ranks', (l) => count(l.ranks), true], ['Size', (l) => bytes(l.bytes), true],
    ['In place', (l) => (l.in_place ? 'yes' : 'no')], ['Time', (l) => duration(l.time_ns), true],
    ['Algorithm bw', (l) => gbps(l.algbw_gbps), true], ['Bus bw', (l) => gbps(l.busbw_gbps), true]] });
}

function timers({ timers: all }: Log): HTMLElement | null {
  const phase = (name: string | null) => (name === null ? '' : isPhase(name) ? words(name) : categoryTitle(name));
  return staticTable({ title: 'Timers of the program', rows: all.slice(0, kMostTimers), columns: [
    ['Timer', (t) => shown(t.name, 80)], ['Phase', (t) => phase(t.phase)], ['Mean', (t) => duration(t.mean_ns), true],
    ['Of a step', (t) => percent(t.step_pct), true]] });
}

/** Of each log; empty where there is none. */
export function logSections({ logs }: Analysis): HTMLElement[] {
  return logs.flatMap((log) => {
    const whose = logs.length > 1 ? shown(log.path.replace(/^.*\//, ''), 80) : null;
    const known = [...speed(log), ...training(log), ...serving(log)].filter(([, value]) => value !== kUnknown);
    const facts = known.length > 0 && element('section', {}, element('h2', {}, 'From the log', element('span', { class: 'quiet' }, whose)), factList(known, 'wide'));
    const parts = [facts, links(log), nccl(log), timers(log)].filter((part): part is HTMLElement => part instanceof HTMLElement);
    for (const part of parts) {
      part.classList.add('log');
      part.tabIndex = 0;   // it may scroll sideways
    }
    return parts;
  });
}
