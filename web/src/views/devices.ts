// What samples say of the devices, on the time axis of the trace, under what the kernels did.

import { button, element, shown } from './dom';
import { isEventTrack } from './evidence';
import { count, duration, inUnit, kUnknown, number, percent } from './quantity';
import { seriesPlot, zoomTools, type Line, type SeriesPlot } from './series_plot';
import { DataTable } from './table';
import { kernelNames } from '../kernel_names';
import { kOfHost } from '../timeline/model';
import type { EventTrack, PageData, SampleSeries } from '../page_data';
import type { Context, View } from './view';

interface Lane {
  title: string;
  metrics: string[];
  most?: number;
}

const kLanes: Lane[] = [
  { title: 'Utilization', metrics: ['utilization_pct', 'sm_active_pct', 'tensor_active_pct', 'dram_active_pct', 'memory_utilization_pct'], most: 100 },
  { title: 'Power', metrics: ['power_instant_w', 'power_w', 'power_limit_w'] },
  { title: 'Clocks', metrics: ['sm_clock_mhz', 'graphics_clock_mhz', 'memory_clock_mhz'] },
  { title: 'Temperature', metrics: ['temperature_c', 'memory_temperature_c', 'temperature_hotspot_c'] },
  { title: 'Memory', metrics: ['memory_used_bytes'] },
];

const kBins = 600;
const kPlotHeight = 130;
// Drawn at once; a click draws as many more.
const kMostPlotted = 12;
const kMostColumns = 24;

type Record_ = Record<string, unknown>;

function telemetryOf(context: Context): Record_[] {
  const { telemetry } = context.data.report;
  return Array.isArray(telemetry) ? (telemetry as Record_[]) : [];
}

/** Share of each bin in which any stream of the group ran something; lower bounds where the file does not hold all events. */
function busyShares(data: PageData, group: string, rank: number): number[] {
  const tracks = data.tracks.filter((t): t is EventTrack => isEventTrack(t) && t.kind === 'stream' && t.group === group && t.rank === rank);
  const bin_ns = Math.max(1, data.span_ns / kBins);
  const sums = new Array<number>(kBins).fill(0);
  const add = (start: number, end: number, share: number) => {
    for (let bin = Math.floor(start / bin_ns); bin < kBins && bin * bin_ns < end; bin++) {
      sums[bin]! += share * (Math.min(end, (bin + 1) * bin_ns) - Math.max(start, bin * bin_ns));
    }
  };
  if (data.events_kept === data.events) {
    for (const [start, end] of mergedEvents(data, tracks)) add(start, end, 1);
  } else {
    for (const [start, end, share] of densest(data, tracks)) add(start, end, share);
  }
  return sums.map((sum) => Math.min(100, (100 * sum) / bin_ns));
}

/** The time in which any of the tracks has an event. */
export function mergedEvents(data: PageData, tracks: EventTrack[]): [number, number][] {
  const all = tracks.flatMap((track) => {
    const starts = data.column(track.start, 'delta');
    const durations = data.column(track.duration);
    return Array.from(starts, (start, i): [number, number] => [start, start + (durations[i] ?? 0)]);
  }).sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [start, end] of all) {
    const last = merged[merged.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}

// Streams may overlap within a bin: the busiest alone is surely busy.
function densest(data: PageData, tracks: EventTrack[]): [number, number, number][] {
  const bins: [number, number, number][] = [];
  for (const { density } of tracks) {
    if (!density) continue;
    data.column(density.busy).forEach((busy, i) => {
      const share = busy / 255;
      if (!bins[i]) bins[i] = [i * density.bin_ns, (i + 1) * density.bin_ns, share];
      else bins[i]![2] = Math.max(bins[i]![2], share);
    });
  }
  return bins;
}

function kernelPlot(context: Context, group: string, rank: number): SeriesPlot {
  const { data } = context;
  const bin_ns = data.span_ns / kBins;
  return seriesPlot({
    label: `Share of time that ${group} ran kernels or copies`, span_ns: data.span_ns, height: kPlotHeight, most: 100,
    time: Array.from({ length: kBins }, (_, i) => i * bin_ns), text: (x) => percent(x, 0),
    lines: [{ title: `busy with kernels (trace)${data.events_kept < data.events ? ', at least' : ''}`, values: busyShares(data, group, rank), colour: 'series-1', stepped: true, filled: true }],
  });
}

function lanePlot(context: Context, lane: Lane, series: SampleSeries[]): SeriesPlot {
  const { data } = context;
  const first = series[0]!;
  const time = data.column(first.time, 'delta');
  const lines = series.map((one, i): Line => {
    const values = data.column(one.value, 'zigzag');
    const at = data.column(one.time, 'delta');
    const scaled = Float64Array.from(values, (v) => v * one.scale);
    const same = at.length === time.length && at.every((t, k) => t === time[k]);
    return { title: `${one.title} (samples)`, values: same ? scaled : heldAt(time, at, scaled), colour: `series-${i + 1}`, stepped: true, dashed: one.metric.includes('limit') };
  });
  return seriesPlot({
    label: `${lane.title} over time`, span_ns: data.span_ns, height: kPlotHeight, time, lines, most: lane.most, binary: first.unit === 'B',
    text: (x) => inUnit(x, first.unit),
  });
}

// A sample holds until the next one.
function heldAt(times: ArrayLike<number>, at: ArrayLike<number>, values: ArrayLike<number>): (number | null)[] {
  let k = -1;
  return Array.from(times, (t) => {
    while (k + 1 < at.length && at[k + 1]! <= t) k++;
    return k < 0 ? null : values[k] ?? null;
  });
}

function reasonPlot(context: Context, series: SampleSeries): SeriesPlot | null {
  const { data } = context;
  const bits = data.column(series.value, 'zigzag');
  const seen = data.reasons.filter(({ bit }) => bits.some((b) => (Math.round(b * series.scale) & bit) !== 0));
  if (seen.length === 0) return null;
  return seriesPlot({
    label: 'Why clocks were held back, over time', span_ns: data.span_ns, height: 46 + 22 * seen.length,
    time: data.column(series.time, 'delta'), text: (x) => (x ? 'yes' : 'no'), lanes: seen.map(({ words }) => words).reverse(),
    lines: seen.map(({ bit, words }, i) => ({ title: words, colour: `series-${(i % 5) + 1}`, values: Array.from(bits, (b) => ((Math.round(b * series.scale) & bit) !== 0 ? 1 : 0)) })),
  });
}

interface Slowed {
  name: string;
  calls: number;
  total_ns: number;
  lost_ns: number;
}

/** Kernels that ran at reduced clocks, and the part of their time that this explains. */
function slowedKernels(data: PageData): Slowed[] {
  const found = new Map<number, Slowed>();
  for (const track of data.tracks) {
    if (!isEventTrack(track) || track.slow === undefined) continue;
    const slow = data.column(track.slow);
    const durations = data.column(track.duration);
    const names = data.column(track.name);
    slow.forEach((permille, i) => {
      if (permille === 0) return;
      const name = names[i]!;
      let row = found.get(name);
      if (!row) found.set(name, (row = { name: data.strings[name] ?? '', calls: 0, total_ns: 0, lost_ns: 0 }));
      row.calls++;
      row.total_ns += durations[i]!;
      row.lost_ns += (durations[i]! * permille) / 1000;
    });
  }
  return [...found.values()];
}

function slowedTable(rows: Slowed[], context: Context): HTMLElement[] {
  const names = kernelNames(context.data);
  const table = new DataTable<Slowed>({
    label: 'Kernels at reduced clocks', sorted: 'lost', most_rows: 14,
    columns: [
      { key: 'name', title: 'Kernel', wide: true, cell: (r) => element('span', { title: shown(r.name, 2000) }, shown(names.get(r.name) ?? r.name)), order: (r) => names.get(r.name) ?? r.name },
      { key: 'calls', title: 'Slowed calls', numeric: true, cell: (r) => count(r.calls), order: (r) => r.calls },
      { key: 'total', title: 'Their time', numeric: true, cell: (r) => duration(r.total_ns), order: (r) => r.total_ns },
      { key: 'lost', title: 'By clocks', help: 'The part of their time that the reduced clocks explain at most', numeric: true, cell: (r) => duration(r.lost_ns), order: (r) => r.lost_ns },
      { key: 'share', title: 'Share', numeric: true, cell: (r) => percent((100 * r.lost_ns) / r.total_ns), order: (r) => r.lost_ns / r.total_ns },
    ],
  });
  table.show(rows);
  const lost = rows.reduce((sum, row) => sum + row.lost_ns, 0);
  return [element('h2', {}, 'Kernels at reduced clocks', element('span', { class: 'quiet' }, `the clocks explain at most ${duration(lost)} of their time`)), table.root];
}

const kTelemetryRows: [string, string, string][] = [
  ['util_gpu_mean', 'Utilization, mean', '%'], ['util_gpu_p5', 'Utilization, p5', '%'], ['util_gpu_p50', 'Utilization, p50', '%'],
  ['util_gpu_p95', 'Utilization, p95', '%'], ['idle_pct', 'Time below 5 % busy', '%'], ['mem_used_max_mb', 'Memory, most', 'MiB'],
  ['mem_total_mb', 'Memory, all', 'MiB'], ['power_mean_w', 'Power, mean', 'W'], ['power_max_w', 'Power, most', 'W'], ['energy_j', 'Energy', 'J'],
  ['temp_mean_c', 'Temperature, mean', '°C'], ['temp_max_c', 'Temperature, most', '°C'], ['sm_clock_mean_mhz', 'SM clock, mean', 'MHz'],
  ['sm_clock_max_mhz', 'SM clock, most', 'MHz'], ['n_samples', 'Samples', ''], ['interval_s', 'Interval', 'seconds'], ['driver_version', 'Driver', ''], ['notes', 'Notes', ''],
];

function scalar(value: unknown, unit: string): string {
  if (typeof value !== 'number') return value === null || value === undefined ? kUnknown : shown(String(value), 300);
  if (unit === 'MiB') return inUnit(value * 1048576, 'B');
  if (unit === 'seconds') return duration(value * 1e9);
  return unit ? inUnit(value, unit) : number(value);
}

function telemetryTable(all: Record_[]): HTMLElement {
  const devices = all.slice(0, kMostColumns);
  const rest = all.length - devices.length;
  const rows = kTelemetryRows.filter(([field]) => devices.some((d) => d[field] !== null && d[field] !== undefined));
  const held = devices.map((device) => (Array.isArray(device.throttle) ? (device.throttle as Record_[]) : []));
  const reasons = [...new Set(held.flat().map((row) => String(row.words ?? row.reason)))];
  return element('div', { class: 'scroll plain', tabindex: 0, role: 'region', 'aria-label': 'Samples by GPU' }, rest > 0 && element('p', { class: 'quiet' },
    `The first ${count(devices.length)} of ${count(all.length)} GPUs; profgpu analyze --json has all of them under telemetry.`), element('table', { class: 'data static' },
    element('thead', {}, element('tr', {}, element('td'), ...devices.map((d) =>
      element('th', { class: 'num', scope: 'col' }, shown(`GPU ${String(d.label ?? d.device)}${d.name ? `  ${String(d.name)}` : ''}`, 80))))),
    element('tbody', {},
      ...rows.map(([field, title, unit]) => element('tr', {}, element('th', { scope: 'row' }, title),
        ...devices.map((d) => element('td', { class: 'num' }, scalar(d[field], unit))))),
      ...reasons.map((reason) => element('tr', {}, element('th', { scope: 'row' }, `Held back: ${shown(reason, 80)}`),
        ...held.map((list) => element('td', { class: 'num' }, percent(Number(list.find((row) => String(row.words ?? row.reason) === reason)?.pct ?? 0)))))))));
}

// Of one device: what the trace says it ran, then what samples say.
function devicePlots(context: Context, device: string, series: SampleSeries[]): SeriesPlot[] {
  const plots: SeriesPlot[] = [];
  const group = `GPU ${device.replace(kOfHost, '')}`;
  const rank = series.find((s) => s.rank !== undefined)?.rank;
  if (rank !== undefined && context.data.tracks.some((t) => t.kind === 'stream' && t.group === group && t.rank === rank)) plots.push(kernelPlot(context, group, rank));
  for (const lane of kLanes) {
    const shownHere = lane.metrics.map((metric) => series.find((s) => s.metric === metric)).filter((s): s is SampleSeries => s !== undefined);
    const same_unit = shownHere.filter((s) => s.unit === shownHere[0]!.unit && context.data.column(s.time, 'delta').length > 0);
    if (same_unit.length > 0) plots.push(lanePlot(context, lane, same_unit.slice(0, 4)));
  }
  const reasons = series.find((s) => s.metric === 'clock_event_reasons');
  const lanes = reasons && reasonPlot(context, reasons);
  if (lanes) plots.push(lanes);
  return plots;
}

export const devices: View = {
  id: 'devices',
  title: 'Devices',
  of_rank: false,
  absent: (context) => (context.data.samples.length > 0 || telemetryOf(context).length > 0 ? null
    : 'No samples of the devices are at hand. Take them while the job runs (profgpu run --samples FILE, or profgpu log), then give them with --samples FILE.'),
  mount(root, context) {
    const { data } = context;
    const plots: SeriesPlot[] = [];
    const telemetry = telemetryOf(context);
    const series = new Map<string, SampleSeries[]>();
    for (const one of data.samples) series.set(one.device, [...(series.get(one.device) ?? []), one]);
    const left = [...series.keys()];
    const plotted = element('div');
    const more = button('', { class: 'more-devices' }, () => plotMore());
    const plotMore = () => {
      for (const device of left.splice(0, kMostPlotted)) {
        const made = devicePlots(context, device, series.get(device)!);
        if (made.length === 0) continue;
        plotted.append(element('h2', {}, `GPU ${shown(device, 60)}`, element('span', { class: 'quiet' }, 'over time')), zoomTools(context, made[0]!), ...made.map((p) => p.root));
        plots.push(...made);
      }
      more.hidden = left.length === 0;
      more.textContent = `Plot ${count(Math.min(left.length, kMostPlotted))} more of ${count(series.size)} GPUs`;
    };
    root.append(plotted, more);
    plotMore();
    if (telemetry.length > 0) root.append(element('h2', {}, 'Samples', element('span', { class: 'quiet' }, data.tracks.length > 0 ? 'over the time of the trace' : 'over the time of the log')), telemetryTable(telemetry));
    const slowed = slowedKernels(data);
    if (slowed.length > 0) root.append(...slowedTable(slowed, context));
    return () => plots.forEach((plot) => plot.dispose());
  },
};
