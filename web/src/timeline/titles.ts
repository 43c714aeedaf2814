// The titles left of the plot: buttons that fold headings and call stacks, and stay in view while any of their track
// does.

import { button, element, shown } from '../views/dom';
import { isHeading, type Heading, type Layout, type Line, type TrackView } from './layout';
import { TrackEvents, type Counter } from './model';
import { inUnit } from '../views/quantity';

/** As many titles stay in the page while they are out of view; of more, only those in view are in it. */
const kMostKept = 1000;

export class Titles {
  private readonly elements_ = new Map<Line, HTMLElement>();
  private placed_ = new Set<Line>();
  private readonly pinning_: HTMLElement;
  private pinned_: readonly TrackView[] = [];

  constructor(
    private readonly root_: HTMLElement,
    private readonly layout_: Layout,
    private readonly folded_: () => void,
  ) {
    this.pinning_ = element('div', { class: 'tl-pinnings' });
    this.root_.append(this.pinning_);
  }

  draw(height: number, scroll: number): void {
    this.drawPinned();
    const { lines } = this.layout_;
    this.place(lines.length <= kMostKept ? lines : this.layout_.within(scroll, scroll + height));
    for (const line of this.placed_) {
      const made = this.elements_.get(line)!;
      const y = line.y - scroll;
      const visible = y + line.height > 0 && y < height;
      if (made.hidden === visible) made.hidden = !visible;
      if (!visible) continue;
      made.style.transform = `translateY(${y}px)`;
      made.style.height = `${line.height}px`;
      // A tall track's title sticks to the top while the track goes by.
      const inner = made.firstElementChild as HTMLElement;
      const stuck = Math.min(Math.max(0, -y), line.height - titleHeight(line));
      inner.style.transform = stuck > 0 ? `translateY(${stuck}px)` : '';
      const folded = isHeading(line) ? line.collapsed : !line.expanded;
      if (inner.hasAttribute('aria-expanded')) inner.setAttribute('aria-expanded', String(!folded));
    }
  }

  // In the order of the lines, for the keyboard; what stays keeps its place, and so the focus.
  private place(lines: Line[]): void {
    const wanted = new Set(lines);
    for (const line of this.placed_) if (!wanted.has(line)) this.elements_.get(line)!.remove();
    let next = this.pinning_.nextElementSibling;
    for (const line of lines) {
      const made = this.made(line);
      if (made === next) next = next.nextElementSibling;
      else this.root_.insertBefore(made, next);
    }
    this.placed_ = wanted;
  }

  private drawPinned(): void {
    const { pinned, pinned_height } = this.layout_;
    this.pinning_.style.height = `${pinned_height}px`;
    if (pinned.length === this.pinned_.length && pinned.every((view, i) => view === this.pinned_[i])) return;
    this.pinned_ = [...pinned];
    this.pinning_.replaceChildren(
      ...pinned.map((view) => {
        const text = shown(view.title, 120);
        const line = element('div', { class: 'tl-title' }, element('span', { title: text }, element('bdi', {}, text)), this.pinButton(view));
        line.style.height = `${view.height}px`;
        return line;
      }),
    );
  }

  private pinButton(view: TrackView): HTMLElement {
    const is_pinned = this.layout_.pinned.some((other) => other.model === view.model);
    const what = `${is_pinned ? 'Unpin' : 'Pin'} ${shown(view.title, 120)}`;
    return button(is_pinned ? '×' : '⊤', { 'class': 'tl-pin', 'title': `${what}: keep it in view above the others`, 'aria-label': `${is_pinned ? '×' : '⊤'} ${what}` }, () => {
      this.layout_.pin(view.model);
      this.folded_();
    });
  }

  private made(line: Line): HTMLElement {
    let made = this.elements_.get(line);
    if (!made) {
      made = isHeading(line) ? element('div', { class: `tl-title tl-heading tl-level${line.level}` }, this.headingButton(line))
        : element('div', { class: 'tl-title' }, this.trackTitle(line), this.pinButton(line));
      this.elements_.set(line, made);
    }
    return made;
  }

  private headingButton(heading: Heading): HTMLElement {
    const text = shown(heading.title, 120);
    return button(text, { 'aria-expanded': 'true', 'title': text }, () => {
      heading.collapsed = !heading.collapsed;
      this.folded_();
    });
  }

  private trackTitle(view: TrackView): HTMLElement {
    const text = shown(view.title, 120);
    if (view.model instanceof TrackEvents && view.model.row_count > 1) {
      return button(text, { 'aria-expanded': String(view.expanded), 'title': text }, () => {
        view.expanded = !view.expanded;
        this.folded_();
      });
    }
    if (view.model instanceof TrackEvents) return element('span', { title: text }, element('bdi', {}, text));
    return element(
      'span',
      { title: text, class: view.model.levels.constant ? 'tl-constant' : '' },
      element('bdi', {}, text),
      element('small', {}, scaleText(view.model)),
    );
  }
}

/** What the height of a counter's area stands for; of one that never changes, its value. */
function scaleText({ levels, bit, series: { scale, unit } }: Counter): string {
  if (levels.count === 0) return 'no values';
  if (bit !== undefined) return levels.constant ? 'all the time' : '';
  if (levels.constant) return inUnit(levels.value[0] * scale, unit);
  return `${inUnit(levels.least * scale, unit)} to ${inUnit(levels.most * scale, unit)}`;
}

function titleHeight(line: Line): number {
  return isHeading(line) ? line.height : Math.min(line.height, line.row_height);
}
