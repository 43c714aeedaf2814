// A table without sorting or scrolling of its own, as paper has it.

import { element } from './dom';
import { count } from './quantity';

// More rows than anybody reads one by one: the JSON document has them all.
const kMostRows = 60;

export interface StaticTable<Row> {
  title: string;
  rows: Row[];
  /** Title, text, and whether it is a number. */
  columns: [string, (row: Row) => string, boolean?][];
}

/** With its title; null where there are no rows. */
export function staticTable<Row>({ title, rows, columns }: StaticTable<Row>): HTMLElement | null {
  if (rows.length === 0) return null;
  const kind = (numeric?: boolean) => (numeric ? 'num' : '');
  return element('section', {}, element('h2', {}, title),
    element('table', { class: 'data static' },
      element('thead', {}, element('tr', {}, ...columns.map(([name, , numeric]) => element('th', { class: kind(numeric) }, name)))),
      element('tbody', {}, ...rows.slice(0, kMostRows).map((row) =>
        element('tr', {}, ...columns.map(([, cell, numeric]) => element('td', { class: kind(numeric) }, cell(row))))))),
    rows.length > kMostRows && element('p', { class: 'quiet' }, `… and ${count(rows.length - kMostRows)} more`));
}
