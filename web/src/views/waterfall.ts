// The distance from the limit: each part of a step's time from where the one before it ends, from the limit to what was
// measured. Made of elements, so that it prints and is read aloud.

import { cssColour } from './colours';
import { button, element } from './dom';
import { duration, number, percent } from './quantity';
import type { Distance } from './report';
import { categoryTitle } from '../categories';

const kAtTheLimit = ['necessary_work', 'unknown_work'];

/** Which colour a part has. */
function categoryOfPart(part: string): string {
  if (part.startsWith('idle: ')) return `idle:${part.slice('idle: '.length)}`;
  return { exposed_communication: 'communication', exposed_copies: 'memcpy', outside: 'idle' }[part] ?? `limit:${part}`;
}

function titleOfPart(part: string): string {
  if (part.startsWith('idle: ')) return categoryTitle(categoryOfPart(part));
  return { exposed_communication: 'exposed communication', exposed_copies: 'exposed copies', outside: 'before or after all device work' }[part]
    ?? categoryTitle(`limit:${part}`);
}

interface Row {
  title: string;
  category: string | null;
  part?: string;
  from: number;
  ns: number;
  hint: string;
}

/** Parts at the limit first; sums are exact, as the parts are. */
function waterfallRows({ parts, limit_ns, wall_ns, left_out_ns, steps }: Distance): Row[] {
  const step = (ns: number) => `${number(ns)} ns in ${steps === 1 ? 'one step' : `${number(steps)} steps`}`;
  const first = parts.filter(({ part }) => kAtTheLimit.includes(part));
  const rest = parts.filter(({ part }) => !kAtTheLimit.includes(part));
  let from = 0;
  const row = ({ part, total_ns }: Distance['parts'][number]): Row => {
    const made = { title: titleOfPart(part), category: categoryOfPart(part), part, from, ns: total_ns, hint: step(total_ns) };
    from += total_ns;
    return made;
  };
  const rows = first.map(row);
  if (limit_ns !== null) rows.push({ title: 'Limit', category: null, from: 0, ns: limit_ns, hint: step(limit_ns) });
  rows.push(...rest.map(row));
  return [...rows, { title: left_out_ns > 0 ? 'Known time' : 'Measured', category: null, from: 0, ns: wall_ns, hint: step(wall_ns) }];
}

/** `actions`: what a part's name does when it is pressed; undefined where it does nothing. */
export function waterfall(distance: Distance, actions: (part: string) => { title: string; act(): void } | undefined): HTMLElement {
  const { wall_ns, steps } = distance;
  const pct = (ns: number) => (100 * ns) / Math.max(1, wall_ns);
  return element('table', { class: 'bars waterfall' },
    element('caption', { class: 'offscreen' }, 'From the limit to the measured time'),
    element('tbody', {}, ...waterfallRows(distance).map(({ title, category, part, from, ns, hint }) => {
      const bar = element('span', { class: category ? 'bar' : 'bar sum' });
      bar.style.marginLeft = `${pct(from)}%`;
      bar.style.width = `${pct(ns)}%`;
      if (category) bar.style.background = cssColour(category);
      const action = part === undefined ? undefined : actions(part);
      const name = action ? button(title, { class: 'place', title: action.title }, action.act) : title;
      return element('tr', { 'class': category ? null : 'total', 'data-part': part ?? (title === 'Limit' ? 'limit' : 'measured'), 'data-ns': ns, 'title': hint },
        element('th', { scope: 'row' }, name), element('td', { class: 'track' }, bar),
        element('td', { class: 'num' }, `${category && from > 0 ? '+ ' : ''}${duration(ns / Math.max(1, steps))}`),
        element('td', { class: 'num share' }, percent(pct(ns))));
    })));
}
