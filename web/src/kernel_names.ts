// Names of kernels as the page shows them: short, and different where the kernels are.

import type { PageData } from './page_data';

interface Named {
  name: string;
  short_name: string;
}

const kMostTelling = 4;    // words that tell names apart
const kLongWord = 16;

function commonLength(texts: string[]): number {
  let i = 0;
  while (texts.every((text) => i < text.length && text[i] === texts[0]![i])) i++;
  return i;
}

/** Of each of several different names, the words from where they first differ that make it unlike the others; numbers where a few do not. */
function tellingWords(names: string[]): string[] {
  const words = names.map((name) => name.match(/[A-Za-z0-9]+/g) ?? []);
  const longest = words.reduce((most, of) => Math.max(most, of.length), 0);
  const at = (i: number) => words.map((of) => of[i] ?? '');
  let first = 0;
  while (first < longest && new Set(at(first)).size === 1) first++;
  const telling = names.map(() => '');
  for (let i = first; i < Math.min(longest, first + kMostTelling); i++) {
    const next = at(i);
    const skipped = next.some((word) => word.length > kLongWord) ? commonLength(next) : 0;
    next.forEach((word, n) => { telling[n] = `${telling[n]!} ${word.slice(skipped, skipped + kLongWord)}`.trim(); });
    if (new Set(telling).size === names.length) return telling;
  }
  return names.map((_, n) => `#${n + 1}`);
}

/** By full name. */
export function distinctNames(kernels: Named[]): Map<string, string> {
  const by_short = new Map<string, Set<string>>();
  for (const { name, short_name } of kernels) {
    const short = short_name || name;
    if (!by_short.has(short)) by_short.set(short, new Set());
    by_short.get(short)!.add(name);
  }
  const shown = new Map<string, string>();
  for (const [short, alike] of by_short) {
    const names = [...alike];
    const telling = names.length > 1 ? tellingWords(names) : [];
    names.forEach((name, n) => shown.set(name, names.length > 1 ? `${short} (${telling[n]!})` : short));
  }
  return shown;
}

const known = new WeakMap<PageData, Map<string, string>>();

/** Of all ranks' kernels, by full name: a kernel is called the same in every view. */
export function kernelNames(data: PageData): Map<string, string> {
  let names = known.get(data);
  if (!names) known.set(data, (names = distinctNames(kernelsOf(data))));
  return names;
}

function kernelsOf({ report }: PageData): Named[] {
  const ranks: { kernels?: unknown }[] = Array.isArray(report.ranks) ? report.ranks : [];
  return ranks.flatMap((rank) => (Array.isArray(rank?.kernels) ? (rank.kernels as Partial<Named>[]) : []))
    .filter((kernel): kernel is Named => typeof kernel?.name === 'string' && typeof kernel.short_name === 'string');
}
