// Bars of shares, made of elements, so that they print and are read aloud.

import { cssColour } from './colours';
import { element } from './dom';
import { duration, percent } from './quantity';

export interface Part {
  name: string;
  ns: number;
  pct: number;
  /** Names the colour. */
  category: string;
  note?: string;
  /** In the place of the time. */
  amount?: string;
}

/** One line for each part: name, bar from 0 to 100 %, time, share. */
export function barList(parts: Part[]): HTMLElement {
  return element('table', { class: 'bars' }, element('tbody', {}, ...parts.map((part) => {
    const bar = element('span', { class: 'bar' });
    bar.style.width = `${Math.min(100, part.pct)}%`;
    bar.style.background = cssColour(part.category);
    return element('tr', { title: part.note },
      element('th', { scope: 'row' }, part.name), element('td', { class: 'track' }, bar),
      element('td', { class: 'num' }, part.amount ?? duration(part.ns)), element('td', { class: 'num share' }, percent(part.pct)));
  })));
}

/** All parts in one bar, with a legend below it. */
export function stackedBar(parts: Part[], label: string): HTMLElement {
  const seen = parts.filter((p) => p.pct > 0);
  const bar = element('div', { class: 'stack', role: 'img', 'aria-label': `${label}: ${seen.map((p) => `${p.name} ${percent(p.pct)}`).join(', ')}` });
  for (const part of seen) {
    const piece = element('span', { title: `${part.name}  ${duration(part.ns)}  ${percent(part.pct)}` });
    piece.style.width = `${part.pct}%`;
    piece.style.background = cssColour(part.category);
    bar.append(piece);
  }
  const names = legend(seen.map((part) => [part.name, part.category, percent(part.pct)]));
  return element('div', { class: 'stacked' }, bar, names);
}

export function swatch(category: string): HTMLElement {
  const made = element('i', { class: 'swatch' });
  made.style.background = cssColour(category);
  return made;
}

/** What the colours mean: name, category and, if any, a number. */
export function legend(entries: [string, string, string?][]): HTMLElement {
  return element('ul', { class: 'legend' }, ...entries.map(([name, category, value]) =>
    element('li', {}, swatch(category), name, value && element('b', {}, ` ${value}`))));
}
