// A table of any number of rows: sorted by its headings, and only the rows in view are elements.

import { element, type Child } from './dom';
import { duration } from './quantity';

export interface Column<Row> {
  key: string;
  title: string;
  /** What the heading's hint says. */
  help?: string;
  numeric?: boolean;
  /** Grows with the window; the others are as wide as their text. */
  wide?: boolean;
  /** Left out where the window is not wide. */
  spare?: boolean;
  /** Left out on a phone, where others say more. */
  roomy?: boolean;
  cell(row: Row): Child;
  /** What rows are sorted by; unknown values stand last. Without it the column cannot be sorted. */
  order?(row: Row): number | string | null | undefined;
}

/** A column of times in ns. */
export function timeColumn<Row>(key: string, title: string, of: (row: Row) => number | null | undefined, help?: string): Column<Row> {
  return { key, title, help, numeric: true, cell: (row) => duration(of(row)), order: of };
}

export interface TableOptions<Row> {
  label: string;
  columns: Column<Row>[];
  /** Sorted by this column at first, downwards; without it in the order given. */
  sorted?: string;
  picked?(row: Row): void;
  /** Where what is picked is described: a click that leaves it below the window brings it in. */
  detail?: HTMLElement;
  /** At most this many rows in view before the table scrolls; without it as many as fit the window. */
  most_rows?: number;
}

const kRowHeight = 24;   // pixels, as in the style sheet
const kLeastOfDetail = 120;   // pixels in the window from which on it is noticed
const kSpare = 12;       // rows above and below the view, so that fast scrolling shows no gap

export class DataTable<Row> {
  readonly root: HTMLElement;
  private rows_: Row[] = [];
  private sort_key_: string | undefined;
  private descending_ = true;
  private active_ = -1;
  private drawn_ = '';
  private readonly body_ = element('tbody');
  private readonly headings_ = new Map<string, HTMLElement>();
  private given_: Row[] = [];

  constructor(private readonly options_: TableOptions<Row>) {
    this.sort_key_ = options_.sorted;
    this.root = element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `${options_.label}, table` });
    if (options_.most_rows) this.root.style.maxHeight = `${(options_.most_rows + 1) * kRowHeight + 6}px`;
    const head = element('tr', {}, ...options_.columns.map((column) => this.heading(column)));
    const picks = options_.picked ? ' picks' : '';
    this.root.append(element('table', { class: `data${picks}` }, element('thead', {}, head), this.body_));
    this.root.addEventListener('scroll', () => this.draw());
    this.root.addEventListener('keydown', (event) => this.key(event));
    this.body_.addEventListener('click', (event) => this.click(event));
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  show(rows: Row[]): void {
    this.given_ = rows;
    this.active_ = -1;
    this.sort();
  }

  /** Downwards by a column. */
  sortBy(key: string): void {
    this.sort_key_ = key;
    this.descending_ = true;
    this.sort();
  }

  /** Picks a row that is in view. */
  choose(row: Row): void {
    const at = this.rows_.indexOf(row);
    if (at >= 0) this.pick(at);
  }

  private heading(column: Column<Row>): HTMLElement {
    const cell = element('th', { scope: 'col', class: kindOf(column), title: column.help });
    this.headings_.set(column.key, cell);
    if (!column.order) {
      cell.append(column.title || element('span', { class: 'offscreen' }, column.key));
      return cell;
    }
    const sorter = element('button', { type: 'button' }, column.title);
    sorter.addEventListener('click', () => {
      this.descending_ = this.sort_key_ === column.key ? !this.descending_ : Boolean(column.numeric);
      this.sort_key_ = column.key;
      this.sort();
    });
    cell.append(sorter);
    return cell;
  }

  private sort(): void {
    for (const [key, cell] of this.headings_) {
      if (key === this.sort_key_) cell.setAttribute('aria-sort', this.descending_ ? 'descending' : 'ascending');
      else cell.removeAttribute('aria-sort');
    }
    const order = this.options_.columns.find((column) => column.key === this.sort_key_)?.order;
    this.rows_ = order ? sorted(this.given_, order, this.descending_) : this.given_;
    this.drawn_ = '';
    this.draw();
  }

  private draw(): void {
    const first = Math.max(0, Math.floor(this.root.scrollTop / kRowHeight) - kSpare);
    const seen = Math.ceil((this.root.clientHeight || 600) / kRowHeight) + 2 * kSpare;
    const end = Math.min(this.rows_.length, first + seen);
    const drawn = `${first} ${end} ${this.active_}`;
    if (drawn === this.drawn_) return;
    this.drawn_ = drawn;
    const rows: HTMLElement[] = [spacer(first, this.options_.columns.length)];
    for (let i = first; i < end; i++) rows.push(this.row(i));
    rows.push(spacer(this.rows_.length - end, this.options_.columns.length));
    this.body_.replaceChildren(...rows);
  }

  private row(index: number): HTMLElement {
    const row = this.rows_[index]!;
    const cells = this.options_.columns.map((column) => {
      return element('td', { class: kindOf(column) }, column.wide ? element('div', {}, column.cell(row)) : column.cell(row));
    });
    const active = index === this.active_;
    return element('tr', { 'data-row': index, class: active ? 'active' : null, 'aria-current': active ? 'true' : null }, ...cells);
  }

  private pick(index: number): void {
    this.active_ = Math.max(0, Math.min(this.rows_.length - 1, index));
    const top = this.active_ * kRowHeight;
    const room = this.root.clientHeight - 2 * kRowHeight;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    else if (top > this.root.scrollTop + room) this.root.scrollTop = top - room;
    this.draw();
    const row = this.rows_[this.active_];
    if (row !== undefined) this.options_.picked?.(row);
  }

  private click(event: MouseEvent): void {
    const row = (event.target as Element).closest('tr[data-row]');
    if (!row || !this.options_.picked || (event.target as Element).closest('button')) return;
    this.pick(Number(row.getAttribute('data-row')));
    const { detail } = this.options_;
    if (detail && detail.getBoundingClientRect().top > innerHeight - kLeastOfDetail) detail.scrollIntoView({ block: 'nearest' });
  }

  private key(event: KeyboardEvent): void {
    if (!this.options_.picked || event.target !== this.root || this.rows_.length === 0) return;
    const page = Math.max(1, Math.floor(this.root.clientHeight / kRowHeight) - 2);
    const steps: Record<string, number> = {
      ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.rows_.length, End: this.rows_.length,
    };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.pick(this.active_ < 0 && step > 0 ? 0 : this.active_ + step);
  }
}

function kindOf<Row>(column: Column<Row>): string | null {
  return [column.numeric && 'num', column.wide && 'wide', column.spare && 'spare', column.roomy && 'roomy'].filter(Boolean).join(' ') || null;
}

function sorted<Row>(rows: Row[], order: NonNullable<Column<Row>['order']>, descending: boolean): Row[] {
  const sign = descending ? -1 : 1;
  const keyed = rows.map((row, place) => ({ row, place, key: order(row) ?? null }));
  keyed.sort((a, b) => {
    if (a.key === null || b.key === null) return Number(a.key === null) - Number(b.key === null) || a.place - b.place;
    if (typeof a.key === 'string') return sign * a.key.localeCompare(String(b.key), 'en', { numeric: true }) || a.place - b.place;
    return sign * (a.key - Number(b.key)) || a.place - b.place;
  });
  return keyed.map((entry) => entry.row);
}

function spacer(rows: number, columns: number): HTMLElement {
  const cell = element('td', { colspan: columns });
  cell.style.height = `${rows * kRowHeight}px`;
  return element('tr', { class: 'spacer', 'aria-hidden': 'true', hidden: rows === 0 }, cell);
}
