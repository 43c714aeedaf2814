// Times as the axis and the panel write them.

const kUnits: [number, string][] = [
  [3600e9, 'h'],
  [60e9, 'min'],
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
  [1, 'ns'],
];

export interface Ticks {
  step: number;
  /** What is added to the labels: a point of time in full; empty where the labels stand for themselves. */
  base: string;
  marks: { time: number; label: string }[];
}

// Of minutes and hours, what clocks count in.
const kLongSteps = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800].map((s) => s * 1e9);

const kRound = (powers: number, unit: number) => Array.from({ length: powers }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power * unit)).flat();

/** Distances of marks: round numbers up to 20 s, of minutes and hours beyond. */
export const kTimeSteps = [...kRound(11, 1).filter((step) => step <= 20e9), ...kLongSteps, ...kRound(6, 100 * 3600e9)];

/** Times at marks, as precise as the distance between them asks for. */
export function instants(marks: number[]): string[] {
  const step = marks.length > 1 ? Math.abs(marks[1]! - marks[0]!) : 1;
  const last = marks.reduce((most, mark) => Math.max(most, Math.abs(mark)), 1);
  const [size, name] = kUnits.find(([unit]) => (unit > 1e9 ? step : last) >= unit)!;
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return marks.map((mark) => `${decimals > 0 ? (mark / size).toFixed(decimals) : grouped(mark / size, 1)} ${name}`);
}

function stepOf(least: number): number {
  const long = least > 30e9 ? kLongSteps.find((step) => step >= least) : undefined;
  if (long) return long;
  const unit = least > 30e9 ? 3600e9 : 1;   // beyond days: round numbers of hours
  const power = 10 ** Math.floor(Math.log10(Math.max(least / unit, 1)));
  return unit * Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least / unit) ?? 10 * power);
}

/** Marks at least `least_px` apart, at 1, 2 or 5 times a power of ten, or at whole minutes and hours. */
export function ticks(start: number, end: number, width: number, least_px = 90): Ticks {
  const least = ((end - start) / Math.max(1, width)) * least_px;
  const step = stepOf(least);
  const [unit, name] = kUnits.find(([size]) => step >= (size > 1e9 ? size : size / 10)) ?? kUnits[kUnits.length - 1]!;
  // Labels of many digits tell nothing at a glance: they count from a rounder time then.
  const round = 10 ** Math.ceil(Math.log10(Math.max(1, end - start)));
  const base = Math.max(Math.abs(start), Math.abs(end)) >= 1e4 * step ? Math.floor(start / round) * round : 0;
  const marks: Ticks['marks'] = [];
  for (let i = Math.ceil(start / step); i * step <= end; i++) {
    const time = i * step;
    marks.push({ time, label: `${base !== 0 ? '+' : ''}${grouped((time - base) / unit, step / unit)} ${name}` });
  }
  return { step, base: base !== 0 ? preciseTime(base) : '', marks };
}

function grouped(value: number, step: number): string {
  const text = value.toFixed(step < 1 ? 1 : 0);
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, ',').replace('-', '−');
}

/** A time of the run with every digit: "1.234 567 890 s". */
export function preciseTime(ns: number): string {
  const whole = Math.round(Math.abs(ns));
  const seconds = Math.floor(whole / 1e9);
  const rest = String(whole % 1e9).padStart(9, '0');
  const digits = rest.replace(/(000)+$/, '').replace(/(\d{3})(?=\d)/g, '$1 ');
  return `${ns < 0 ? '−' : ''}${seconds}${digits ? `.${digits}` : ''} s`;
}
