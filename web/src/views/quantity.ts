// Numbers as a person reads them, as on the terminal: three significant digits, a unit, an ordinary space between.

export const kUnknown = '–';

function separated(digits: string): string {
  const [whole, rest] = digits.split('.');
  const grouped = whole!.replace(/\B(?=(\d{3})+$)/g, ',');
  return rest === undefined ? grouped : `${grouped}.${rest}`;
}

/** As the program rounds: of two that are equally near, the even one. */
export function fixed(x: number, decimals: number): string {
  const halves = Math.abs(x) * 2 ** (decimals + 1);   // odd where x lies exactly between two
  if (halves % 2 !== 1 || halves > 2 ** 50) return x.toFixed(decimals);
  const below = (halves * 5 ** decimals - 1) / 2;
  return (below % 2 === 0 ? (Math.sign(x) * below) / 10 ** decimals : x).toFixed(decimals);
}

function decimalsFor(magnitude: number, digits: number): number {
  return magnitude <= 0 ? 0 : Math.max(0, digits - Math.floor(Math.log10(magnitude)) - 1);
}

// Rounding may add a digit: 9.996 with three digits is "10.0", not "10.00".
function significant(x: number, digits: number): string {
  const decimals = Math.min(20, decimalsFor(Math.abs(x), digits));
  const rounded = Math.abs(Number(fixed(x, decimals)));
  return separated(fixed(x, Math.min(decimals, decimalsFor(rounded, digits))));
}

function scaled(x: number, names: string[], ratio: number, digits: number): string {
  let i = 0;
  let size = 1;
  while (i + 1 < names.length && Math.abs(x) / size >= ratio - 0.5) {
    size *= ratio;
    i++;
  }
  const inUnit = x / size;
  const whole = i === 0 && Number.isInteger(inUnit);
  return `${whole ? separated(inUnit.toFixed(0)) : significant(inUnit, digits)} ${names[i]}`;
}

function twoUnits(ns: number, large: number, largeName: string, small: number, smallName: string): string {
  const total = Math.round(ns / small);
  const per = large / small;
  return `${separated(String(Math.floor(total / per)))} ${largeName} ${String(total % per).padStart(2, '0')} ${smallName}`;
}

type Maybe = number | null | undefined;

function known(x: Maybe): x is number {
  return typeof x === 'number' && Number.isFinite(x);
}

export function duration(ns: Maybe, digits = 3): string {
  if (!known(ns)) return kUnknown;
  const length = Math.abs(ns);
  const sign = ns < 0 ? '-' : '';
  if (length >= 7200e9) return sign + twoUnits(length, 3600e9, 'h', 60e9, 'min');
  if (length >= 600e9) return sign + twoUnits(length, 60e9, 'min', 1e9, 's');
  return scaled(ns, ['ns', 'µs', 'ms', 's'], 1000, digits);
}

/** For the marks of an axis: 50 ms rather than 50.0 ms. */
export function brief(text: string): string {
  return text.replace(/\.0+(?= )/, '').replace(/^0 .*/, '0');
}

export function bytes(n: Maybe): string {
  return known(n) ? scaled(n, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'], 1024, 3) : kUnknown;
}

export function flops(n: Maybe): string {
  return known(n) ? scaled(n, ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP', 'EFLOP'], 1000, 3) : kUnknown;
}

/** What is not zero never reads 0. */
export function percent(pct: Maybe, decimals = 1): string {
  if (!known(pct)) return kUnknown;
  const least = 10 ** -decimals;
  if (pct !== 0 && Math.abs(pct) < least / 2) return `${pct < 0 ? '>-' : '<'}${least.toFixed(decimals)} %`;
  return `${pct === 100 ? '100' : fixed(pct, decimals)} %`;
}

export function gbps(x: Maybe): string {
  return known(x) ? `${significant(x, 3)} GB/s` : kUnknown;
}

export function count(n: Maybe): string {
  return known(n) ? separated(String(Math.round(n))) : kUnknown;
}

/** "1 step", "1,204 steps" */
export function counted(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

export function number(x: Maybe): string {
  if (!known(x)) return kUnknown;
  const magnitude = Math.abs(x);
  if (magnitude < 1e15 && Number.isInteger(x)) return separated(x.toFixed(0));
  if (magnitude >= 1e15 || magnitude < 1e-4) return x.toExponential(2);
  return significant(x, 3);
}

/** A value in the unit of its series: "412 W", "61 °C", "1,755 MHz"; bytes and percentages as everywhere. */
export function inUnit(x: Maybe, unit: string): string {
  if (!known(x)) return kUnknown;
  if (unit === 'B' || unit === 'bytes') return bytes(x);
  if (unit === '%') return percent(x);
  if (unit === 'ns') return duration(x);
  const text = number(x);
  return unit ? `${text} ${unit}` : text;
}

export type Unit = 'none' | 'ns' | 'bytes' | 'pct' | 'gbps' | 'text';

/** The unit that a field's name states, as in the JSON document. */
export function unitOf(field: string): Unit {
  if (field.endsWith('_ns')) return 'ns';
  if (field.endsWith('_bytes') || field.includes('_bytes_')) return 'bytes';
  if (field.endsWith('_pct')) return 'pct';
  if (field.endsWith('_gbps')) return 'gbps';
  return 'none';
}

/** Any scalar of the document in the unit of its field. */
export function fieldText(value: unknown, field: string): string {
  if (value === null || value === undefined) return kUnknown;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value !== 'number') return String(value);
  switch (unitOf(field)) {
    case 'ns': return duration(value);
    case 'bytes': return bytes(value);
    case 'pct': return percent(value);
    case 'gbps': return gbps(value);
    default: return number(value);
  }
}
