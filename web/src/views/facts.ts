// Names with their values, side by side; what is not known is left out.

import { element } from './dom';
import { kUnknown } from './quantity';

/** `kind`: "wide" for a line of them, "one" for a column. */
export function factList(pairs: [string, string][], kind = ''): HTMLElement {
  return element('dl', { class: `facts ${kind}`.trim() }, ...pairs.filter(([, value]) => value !== kUnknown)
    .map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value))));
}
