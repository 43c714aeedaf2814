// Beside the plot: everything about what is picked, or what the colours mean.

import { categoryTitle } from '../categories';
import { append, button, copyButton, element, shown, type Child } from '../views/dom';
import { count, duration, percent } from '../views/quantity';
import type { Gap, TrackKind } from '../page_data';
import { TrackEvents, type EventPlace, type Model, type Row } from './model';
import { busyWithin, keptWithin, ranWithin, rowsThatCount, type Ran } from './measure';
import type { Palette } from './palette';
import { originOf } from './relations';
import type { Chosen, ChosenGap, Selection, Span } from './selection';
import { preciseTime } from './time_text';

const kMostListed = 12;
const kMostRan = 15;

/** Another view's reason to show something: repeated above it, with the way back. */
export interface Asked {
  /** In an address. */
  id: string;
  title: string;
  /** What is shown of it, and what to change. */
  lines: string[];
  back(): void;
}

/** What the panel's buttons ask for. */
export interface PanelActions {
  go(place: EventPlace): void;
  allOfName(place: EventPlace): void;
  fit(): void;
  clear(): void;
}

// A category may be one of several: an optimizer has kernels and is a phase.
const kFamilies: { title: string; kinds: TrackKind[]; ids: string[] }[] = [
  {
    title: 'Kernels and copies',
    kinds: ['stream'],
    ids: [
      'gemm',
      'convolution',
      'attention',
      'normalization',
      'elementwise',
      'reduction',
      'embedding',
      'optimizer',
      'copy',
      'communication',
      'other',
      'memcpy',
      'memset',
    ],
  },
  {
    title: 'Host',
    kinds: ['thread', 'sync'],
    ids: ['op', 'annotation', 'python', 'runtime', 'driver', 'library', 'system', 'overhead', 'sync', 'blocked'],
  },
  {
    title: 'Phases',
    kinds: ['phase'],
    ids: ['data_loading', 'forward', 'backward', 'optimizer', 'communication', 'checkpoint', 'own_phase', 'other_phase'],
  },
  { title: 'Steps', kinds: ['step'], ids: ['step', 'warmup'] },
  { title: 'Collectives', kinds: ['collective'], ids: ['collective', 'wait'] },
];

export class Panel {
  asked: Asked | undefined;
  private way_ = '';   // of listing what ran in a span

  constructor(
    private readonly root_: HTMLElement,
    private readonly model_: Model,
    private readonly selection_: Selection,
    private readonly actions_: PanelActions,
    public palette: Palette,
  ) {}

  show(): void {
    const { event, gap, span } = this.selection_;
    const sections: Child[] = [];
    if (event) sections.push(this.event(event));
    if (gap) sections.push(this.gap(gap));
    if (span) sections.push(this.span(span));
    if (this.asked) sections.unshift(this.askedFor(this.asked));
    if (sections.length === 0) sections.push(this.legend());
    else
      sections.unshift(
        button('×', { 'class': 'tl-close', 'aria-label': 'Clear the selection (Esc)' }, () => this.actions_.clear()),
      );
    this.root_.replaceChildren();
    append(this.root_, sections);
    this.root_.scrollTop = 0;
  }

  focus(): void {
    this.root_.querySelector<HTMLElement>('.tl-asked')?.focus({ preventScroll: true });
  }

  private askedFor({ title, lines, back }: Asked): HTMLElement {
    return element('section', { 'class': 'tl-asked', 'tabindex': -1, 'aria-label': 'The finding that is shown' },
      element('h3', {}, shown(title, 300)), element('ul', {}, ...lines.map((line) => element('li', {}, shown(line, 600)))),
      button('← Back to the finding', { class: 'tl-back' }, back));
  }

  private event({ place, launcher, launched }: Chosen): HTMLElement {
    const { model_: model, actions_: actions } = this;
    const { track, at } = place;
    const name = track.name(at);
    const label = model.label(place);
    const slow = track.slow[at] ?? 0;
    const args = Object.entries(model.data.args[track.args[at] ?? 0] ?? {});
    const gap = this.gapOf(place);
    return element(
      'section',
      {},
      element('h3', {}, element('bdi', {}, shown(label, 300))),
      label === name ? null : element('p', { class: 'tl-full' }, element('bdi', {}, shown(name, 2000))),
      facts([
        ['Duration', duration(track.duration[at], 4)],
        ['Kind', this.kind(track.categoryId(at), track.category[at])],
        ['Start', preciseTime(track.start[at])],
        ['Track', shown(trackTitle(model, track), 120)],
        slow > 0 ? ['Clocks', `reduced clocks explain ${percent(slow / 10)} of it`] : undefined,
        ...(gap ? this.around(gap) : []),
      ]),
      element(
        'p',
        { class: 'tl-buttons' },
        button('Fit (f)', {}, actions.fit),
        button('All of this name', {}, () => actions.allOfName(place)),
        copyButton(name, 'the name'),
      ),
      args.length > 0 ? element('h4', {}, 'Arguments') : null,
      facts(args.map(([key, value]) => [shown(key, 80), shown(value, 2000)])),
      launcher ? element('h4', {}, 'Launched by') : null,
      launcher ? this.link(launcher) : null,
      ...(launcher ? this.origin(launcher) : []),
      launched.count > 0
        ? element('h4', {}, `Launched ${count(launched.count)} on the device, ${duration(launched.total_ns)}`)
        : null,
      ...launched.places.slice(0, kMostListed).map((other) => this.link(other)),
      launched.count > kMostListed
        ? element('p', { class: 'tl-quiet' }, `and ${count(launched.count - kMostListed)} more`)
        : null,
    );
  }

  private origin(call: EventPlace): Child[] {
    const { op, module, source } = originOf(call);
    const named: [string, EventPlace | undefined][] = [['Operator', op], ['Module', module], ['Source line', source]];
    return named.flatMap(([title, place]) => (place && place.at !== call.at ? [element('h4', {}, title), this.link(place)] : []));
  }

  private link(place: EventPlace): HTMLElement {
    const { track, at } = place;
    const text = element('span', {}, element('bdi', {}, shown(this.model_.label(place), 120)));
    const line = button(text, { class: 'tl-link' }, () => this.actions_.go(place));
    line.prepend(this.swatch(track.category[at]));
    line.append(element('span', { class: 'tl-quiet' }, duration(track.duration[at])));
    return line;
  }

  private gap({ rank, gap }: ChosenGap): HTMLElement {
    const id = `idle:${gap.cause}`;
    return element(
      'section',
      {},
      element('h3', {}, `Idle for ${duration(gap.duration, 4)}`),
      facts([
        ['Cause', this.kind(id, this.model_.data.categories.indexOf(id))],
        ['Device', `${gap.device}${this.model_.data.ranks.length > 1 ? ` of rank ${rank}` : ''}`],
        ['Start', preciseTime(gap.start)],
        ...this.around(gap),
      ]),
      element('p', { class: 'tl-quiet' }, 'G goes to the next shorter gap, shift + G to the next longer one.'),
    );
  }

  /** What happened at a gap's ends, and on the host meanwhile. */
  private around({ host, after, before }: Gap): [string, string][] {
    const name = (of: string) => shown(this.model_.short_names.get(of) ?? of, 400);
    const known: [string, string][] = [
      ['Host was in', shown(host, 400)],
      ['After', name(after)],
      ['Before', name(before)],
    ];
    return known.filter(([, text]) => text !== '');
  }

  /** The gap that an event of the track of idle causes stands for, where it is among the longest. */
  private gapOf({ track, at }: EventPlace): Gap | undefined {
    if (track.kind !== 'idle') return undefined;
    return this.model_.data.ranks
      .find((rank) => rank.rank === track.rank)
      ?.gaps.find((gap) => isOfDevice(track, gap.device) && gap.start === track.start[at] && gap.duration === track.duration[at]);
  }

  private span(span: Span): HTMLElement {
    const { model_: model } = this;
    const length = span.end - span.start;
    const kept = keptWithin(model.data.kept, span.start, span.end);
    const parts = measuredParts(model, span)
      .map(([title, rows]) => this.busy(title, rows, span))
      .filter(Boolean);
    return element(
      'section',
      {},
      element('h3', {}, `Span of ${duration(length, 4)}`),
      facts([
        ['From', preciseTime(span.start)],
        ['To', preciseTime(span.end)],
        model.data.ranks.length > 1 ? ['Rank', String(span.rank)] : undefined,
      ]),
      model.data.kept.length > 0 && kept < length * 0.999
        ? element(
            'p',
            { class: 'tl-quiet' },
            `Events are kept for ${percent((100 * kept) / length)} of it; the rest counts as not busy.`,
          )
        : null,
      this.ranIn(span),
      ...parts,
      parts.length === 0 ? element('p', { class: 'tl-quiet' }, 'Nothing runs in it.') : null,
    );
  }

  // A table of what ran, by what the choice above it says; of the thread under the pointer bottom-up.
  private ranIn({ start, end, rank, on }: Span): HTMLElement | null {
    const { model_: model } = this;
    const streams = model.event_tracks.filter((track) => track.kind === 'stream');
    const of_rank = streams.filter((track) => track.rank === rank);
    const many = new Set(streams.map((track) => track.rank)).size > 1;
    const label = (place: EventPlace) => model.label(place);
    const ways: [string, () => Ran[]][] = [
      ['name', () => ranWithin(of_rank, start, end, label)],
      ['kind', () => ranWithin(of_rank, start, end, ({ track, at }) => categoryTitle(track.categoryId(at)))],
      ['stream', () => ranWithin(of_rank, start, end, ({ track }) => trackTitle(model, track))],
    ];
    if (many) ways.push(['rank', () => ranWithin(streams, start, end, ({ track }) => `rank ${track.rank}`)]);
    if (on?.kind === 'thread') ways.unshift([`call, bottom-up, of ${on.header.title}`, () => ranWithin([on], start, end, label, true)]);
    const rows = element('tbody', {});
    const select = element('select', { 'aria-label': 'By' }, ...ways.map(([name], i) => element('option', { value: i }, shown(`by ${name}`, 60))));
    const fill = () => {
      const ran = ways[Number(select.value)]![1]();
      rows.replaceChildren(...ran.slice(0, kMostRan).map(({ key, count: times, ns, longest }) => element('tr', {},
        element('th', { scope: 'row' }, button(shown(key, 120), { class: 'tl-name', title: 'Selects the longest' }, () => this.actions_.go(longest))),
        element('td', {}, `${count(times)} ×`), element('td', {}, duration(ns)), element('td', {}, percent((100 * ns) / (end - start))))));
      more.textContent = ran.length > kMostRan ? `and ${count(ran.length - kMostRan)} more` : '';
    };
    const more = element('p', { class: 'tl-quiet' });
    select.addEventListener('change', () => {
      this.way_ = select.selectedOptions[0]?.textContent ?? '';
      fill();
    });
    const chosen = ways.findIndex(([name]) => `by ${name}` === this.way_);
    if (chosen >= 0) select.value = String(chosen);
    fill();
    if (rows.childElementCount === 0) return null;
    return element('div', {}, element('h4', {}, 'What ran, ', select), element('table', { class: 'tl-ran' }, rows), more);
  }

  private busy(title: string, rows: Row[], { start, end }: Span): HTMLElement | null {
    const busy = busyWithin(rows, start, end);
    if (busy.events === 0) return null;
    const share = (ns: number) => (100 * ns) / (end - start);
    const lines = [...busy.by_category]
      .sort((a, b) => b[1] - a[1])
      .map(([category, ns]) => {
        const bar = element('span', {});
        bar.style.width = `${Math.min(100, share(ns))}%`;
        bar.style.background = this.palette.colours[category] ?? '';
        return element(
          'li',
          {},
          element('span', {}, categoryTitle(this.model_.data.categories[category] ?? '')),
          element('span', {}, percent(share(ns))),
          element('span', {}, duration(ns)),
          element('span', { class: 'tl-share' }, bar),
        );
      });
    return element(
      'div',
      {},
      element('h4', {}, shown(title, 120)),
      element('p', {}, `busy ${percent(share(busy.busy_ns))}, ${duration(busy.busy_ns)}; ${count(busy.events)} events`),
      element('ul', { class: 'tl-shares' }, ...lines),
    );
  }

  private legend(): HTMLElement {
    const { categories } = this.model_.data;
    const used = new Set<string>();
    for (const track of this.model_.event_tracks)
      for (const category of track.used) used.add(`${track.kind} ${categories[category] ?? ''}`);
    // A page of density alone has no events to name categories by.
    const is_used = (kinds: TrackKind[], id: string) =>
      used.size > 0 ? kinds.some((kind) => used.has(`${kind} ${id}`)) : categories.includes(id);
    const idle = categories.filter((id) => id.startsWith('idle:'));
    const families = [...kFamilies, { title: 'Idle, by cause', kinds: ['idle'] as TrackKind[], ids: idle }]
      .map(({ title, kinds, ids }) => [title, ids.filter((id) => is_used(kinds, id))] as const)
      .filter(([, ids]) => ids.length > 0);
    return element(
      'section',
      { class: 'tl-legend' },
      element(
        'p',
        { class: 'tl-quiet' },
        'Click an event to see what it is and what launched it. Zoomed out, a pixel has the color of what takes ' +
          'most of its time, and is paler where less of it is busy.',
      ),
      this.model_.event_tracks.some((track) => track.header.slow !== undefined)
        ? element('p', { class: 'tl-quiet' }, 'A cut corner marks kernels that reduced clocks made slower.')
        : null,
      ...families.map(([title, ids]) =>
        element(
          'div',
          {},
          element('h3', { class: 'small' }, title),
          element(
            'ul',
            {},
            ...ids.map((id) => element('li', {}, this.kind(id, categories.indexOf(id), title.startsWith('Idle')))),
          ),
        ),
      ),
    );
  }

  private kind(id: string, category: number, short = false): HTMLElement {
    const title = categoryTitle(id);
    return element('span', { class: 'tl-kind' }, this.swatch(category), short ? title.replace(/^idle: /, '') : title);
  }

  private swatch(category: number): HTMLElement {
    const swatch = element('span', { 'class': 'tl-swatch', 'aria-hidden': 'true' });
    swatch.style.background = this.palette.colours[category] ?? this.palette.muted;
    return swatch;
  }
}

/** Whether the track is one of that device of its rank. */
export function isOfDevice({ group }: TrackEvents, device: number): boolean {
  return group === `GPU ${device}`;
}

export function trackTitle(model: Model, { header }: TrackEvents): string {
  const rank = model.data.ranks.length > 1 ? `rank ${header.rank}` : '';
  return [rank, header.group, header.title].filter(Boolean).join(', ');
}

// Streams of a device together, then phases and causes of idling, then the track that the span was drawn on.
function measuredParts(model: Model, { rank, on }: Span): [string, Row[]][] {
  const parts = new Map<string, Row[]>();
  const add = (title: string, track: TrackEvents) =>
    parts.set(title, [...(parts.get(title) ?? []), ...rowsThatCount(track)]);
  const of_rank = model.event_tracks.filter((track) => track.rank === rank);
  for (const track of of_rank) if (track.kind === 'stream') add(`${track.group}, all streams`, track);
  const devices = new Set(of_rank.filter((track) => track.kind === 'idle').map((track) => track.group)).size;
  for (const track of of_rank) {
    if (track.kind === 'phase') add(track.header.title || track.kind, track);
    if (track.kind === 'idle') add(`${devices > 1 ? `${track.group}, ` : ''}${track.header.title || track.kind}`, track);
  }
  if (on && !['phase', 'idle'].includes(on.kind))
    add(`${on.header.title}${on.header.depth === undefined ? '' : ', outermost calls'}`, on);
  return [...parts];
}

function facts(entries: ([string, Child] | undefined)[]): HTMLElement | null {
  const known = entries.filter((entry) => entry !== undefined);
  if (known.length === 0) return null;
  return element(
    'dl',
    {},
    ...known.flatMap(([key, value]) => [
      element('dt', {}, key),
      element('dd', {}, typeof value === 'string' ? element('bdi', {}, value) : value),
    ]),
  );
}
