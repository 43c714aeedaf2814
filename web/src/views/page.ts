// The page around the views: heading, tabs, the choice of rank and theme, routes and keys.

import type { PageData } from '../page_data';
import { append, button, element, shown } from './dom';
import { flame } from './flame';
import { devices } from './devices';
import { inputsView } from './inputs';
import { kernels, ops } from './work_tables';
import { showKeys } from './keys';
import { memory } from './memory';
import { overview } from './overview';
import { preparePrinting } from './printing';
import { ranks } from './ranks';
import { roofline } from './roofline';
import { analysisOf, type Analysis, type RankReport } from './report';
import { steps } from './steps';
import { themeButton } from './theme';
import { timeline } from './timeline_view';
import type { Context, Stretch, View } from './view';

const kOfData: View[] = [timeline, steps, kernels, ops, roofline, flame, memory, ranks, devices];
/** Of each view in turn. */
const kTabKeys = '1234567890i';
const kViews: View[] = [overview, ...kOfData, inputsView(missing)];

// The views that have nothing to show, and why.
function missing(context: Context): { title: string; reason: string }[] {
  return kOfData.flatMap((view) => {
    const reason = view.absent(context);
    return reason === null ? [] : [{ title: view.title, reason }];
  });
}

interface Mounted {
  view: View;
  tab: HTMLAnchorElement;
  panel: HTMLElement;
  /** The rank that it was built for; absent until it is looked at. */
  rank_index?: number;
  dispose?: (() => void) | void;
  /** What was looked at in it last, as in its address; a tab leads back there. */
  place?: string;
}

/** What the report is called, and the rank that it shows first. */
export interface Start {
  name: string;
  rank: number;
}

export function buildPage(root: HTMLElement, data: PageData, start: Start): void {
  new Page(root, data, analysisOf(data.report), start);
}

class Page {
  private readonly mounted_: Mounted[];
  private current_: Mounted;
  private rank_index_: number;
  private readonly first_rank_: number;
  private readonly device_ = element('span', { class: 'quiet device' });

  constructor(root: HTMLElement, private readonly data_: PageData, private readonly analysis_: Analysis,
              private readonly start_: Start) {
    this.first_rank_ = this.rank_index_ = Math.max(0, analysis_.ranks.findIndex((rank) => rank.rank === start_.rank));
    this.mounted_ = kViews.map((view, i) => this.prepare(view, i));
    this.current_ = this.mounted_[0]!;
    const tabs = element('nav', { class: 'tabs', 'aria-label': 'Views' }, ...this.mounted_.map((m) => m.tab));
    append(root, [this.heading(), tabs, element('main', {}, ...this.mounted_.map((m) => m.panel))]);
    this.markAbsent();
    addEventListener('hashchange', () => this.route());
    addEventListener('keydown', (event) => this.key(event));
    preparePrinting(start_.name, () => this.context());
    this.route();
  }

  private context(): Context {
    return {
      data: this.data_, analysis: this.analysis_, rank: this.analysis_.ranks[this.rank_index_]!, rank_index: this.rank_index_,
      show: (stretch) => this.show(stretch),
      back: (id) => this.back(id),
      remember: (view, place) => this.remember(view, place),
      choose_rank: (index) => this.chooseRank(index),
    };
  }

  private heading(): HTMLElement {
    const { analysis_: analysis } = this;
    const files = analysis.inputs.map((input) => input.path.replace(/^.*\//, ''));
    this.nameDevice();
    return element('header', { class: 'heading' },
      element('span', { class: 'product' }, 'profgpu'),
      element('h1', { title: shown(files.join('\n'), 4000) }, element('bdi', {}, shown(this.start_.name, 200))),
      this.device_,
      element('span', { class: 'push' }), this.rankChoice(), themeButton(),
      button('Keys', { class: 'plain', title: 'Keyboard (?)' }, showKeys));
  }

  private nameDevice(): void {
    const device = this.analysis_.ranks[this.rank_index_]!.devices.find((d) => d.name)?.name;
    this.device_.textContent = device ? shown(device, 80) : '';
  }

  private rankChoice(): HTMLElement | null {
    if (this.analysis_.ranks.length < 2) return null;
    const select = element('select', { id: 'rank' },
      ...this.analysis_.ranks.map((rank, i) => element('option', { value: i, selected: i === this.rank_index_ }, `rank ${rank.rank}`)));
    select.addEventListener('change', () => this.chooseRank(Number(select.value)));
    return element('label', { class: 'choice' }, 'Show ', select);
  }

  private chooseRank(index: number): void {
    this.setRank(index);
    this.open(this.current_);
    const { view, place } = this.current_;
    const left = new URLSearchParams(place ?? '');
    if (view.of_rank) view.goTo?.(left);
    this.remember(view, left);
  }

  private setRank(index: number): void {
    const from = this.analysis_.ranks[this.rank_index_]!;
    this.rank_index_ = index;
    const select = document.getElementById('rank') as HTMLSelectElement | null;
    if (select) select.value = String(index);
    for (const m of this.mounted_) {
      if (m.view.of_rank) m.place = this.carried(m, from);
      else if (m.rank_index !== undefined) m.view.follow?.(this.context());
    }
    this.nameDevice();
    this.markAbsent();
  }

  private carried({ view, place }: Mounted, from: RankReport): string | undefined {
    if (!view.carry || !place) return undefined;
    const left = new URLSearchParams(place);
    view.carry(left, from, this.analysis_.ranks[this.rank_index_]!);
    return left.toString();
  }

  private prepare(view: View, index: number): Mounted {
    const key = kTabKeys[index]!;
    const tab = element('a', { 'href': `#${view.id}`, 'id': `tab-${view.id}`, 'title': `${view.title} (key ${key})`, 'aria-keyshortcuts': key },
      view.title);
    tab.addEventListener('click', (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.goBackTo(this.mounted_[index]!);
    });
    const panel = element('section', { id: `view-${view.id}`, class: `view ${view.id}`, 'aria-labelledby': tab.id, hidden: true });
    return { view, tab, panel };
  }

  private goBackTo({ view, place }: Mounted): void {
    location.hash = `${view.id}${place ? `?${place}` : ''}`;
  }

  private markAbsent(): void {
    for (const { view, tab } of this.mounted_) tab.classList.toggle('absent', view.absent(this.context()) !== null);
  }

  private route(): void {
    const { id, place } = addressOf(location.hash);
    const found = this.mounted_.find((m) => m.view.id === id) ?? this.mounted_[0]!;
    const rank = this.analysis_.ranks.findIndex((r) => String(r.rank) === place.get('rank'));
    if (rank >= 0 && rank !== this.rank_index_) this.setRank(rank);
    this.open(found);
    found.view.goTo?.(place);
    if (this.namesRank(found.view) && !place.has('rank')) this.remember(found.view, place);
  }

  /** Keeps in the address what is looked at in the view, so that a link leads back to it. */
  private remember(view: View, place: URLSearchParams): void {
    if (this.current_.view !== view) return;
    place.delete('rank');
    this.current_.place = place.toString();
    if (this.namesRank(view)) place.set('rank', String(this.analysis_.ranks[this.rank_index_]!.rank));
    const text = place.toString();
    history.replaceState(null, '', `#${view.id}${text ? `?${text}` : ''}`);
  }

  // Whether the address says which rank is looked at.
  private namesRank(view: View): boolean {
    return (view.of_rank || view.follow !== undefined) && this.rank_index_ !== this.first_rank_;
  }

  private open(chosen: Mounted): void {
    this.current_ = chosen;
    for (const m of this.mounted_) {
      m.panel.hidden = m !== chosen;
      if (m === chosen) m.tab.setAttribute('aria-current', 'page');
      else m.tab.removeAttribute('aria-current');
    }
    chosen.tab.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    if (chosen.rank_index === undefined || (chosen.view.of_rank && chosen.rank_index !== this.rank_index_)) this.build(chosen);
  }

  private build(chosen: Mounted): void {
    chosen.dispose?.();
    chosen.panel.replaceChildren();
    chosen.rank_index = this.rank_index_;
    const context = this.context();
    const absent = chosen.view.absent(context);
    if (absent !== null) {
      chosen.panel.append(element('h2', {}, chosen.view.title), element('p', { class: 'nothing' }, absent));
      return;
    }
    try {
      chosen.dispose = chosen.view.mount(chosen.panel, context);
    } catch (error) {
      // One view that stumbles over a damaged file leaves the others standing.
      const reason = error instanceof Error ? error.message : String(error);
      chosen.panel.replaceChildren(element('p', { class: 'nothing', role: 'alert' }, `This view cannot be shown: ${reason}.`));
    }
  }

  private show(stretch: Stretch): void {
    location.hash = timeline.id;
    this.open(this.mounted_.find((m) => m.view === timeline)!);
    timeline.show(stretch);
  }

  private back(id: string): void {
    const holder = this.mounted_.find((m) => m.view === overview)!;
    location.hash = overview.id;
    this.open(holder);
    holder.panel.querySelector<HTMLElement>(`[data-shows="${CSS.escape(id)}"]`)?.focus();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
    const chosen = event.key.length === 1 ? this.mounted_[kTabKeys.indexOf(event.key)] : undefined;
    if (chosen) {
      this.goBackTo(chosen);
      chosen.tab.focus();
    } else if (event.key === '?') {
      showKeys();
    } else if ((event.key === 'ArrowRight' || event.key === 'ArrowLeft') && this.mounted_.some((m) => m.tab === document.activeElement)) {
      const step = event.key === 'ArrowRight' ? 1 : -1;
      const at = this.mounted_.findIndex((m) => m.tab === document.activeElement);
      const next = this.mounted_[(at + step + this.mounted_.length) % this.mounted_.length]!;
      this.goBackTo(next);
      next.tab.focus();
    } else {
      return;
    }
    event.preventDefault();
  }
}

/** "#kernels?q=gemm": the view, and what in it. */
function addressOf(hash: string): { id: string; place: URLSearchParams } {
  const [id = '', place = ''] = hash.slice(1).split('?', 2);
  return { id, place: new URLSearchParams(place) };
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName));
}
