// The view of a memory snapshot: active memory over the events, the allocator's state at one of them, the peak
// explained and a flame graph by bytes; all follow one cursor, one choice and one search.

import { categoryTitle } from '../categories';
import { append, button, copyButton, element, shown, type Child } from './dom';
import { factList } from './facts';
import { FlameGraph, type FlameWords } from './flame';
import { legend } from './bars';
import {
  colourName, flameOfHeld, frameText, HeldHistory, isPython, kMemoryCategories, kSure, lineOf, shortPath, Stacks,
} from './memory_model';
import { peakExplained, snapshotFacts, snapshotNotes } from './memory_peak';
import { MemoryState } from './memory_state';
import { MemoryTimeline } from './memory_timeline';
import { bytes, count, counted, duration, percent } from './quantity';
import { settled } from './settled';
import type { Arrangement, Piece } from './memory_strip';
import type { SnapshotData } from '../page_data';
import type { SnapshotSection } from './report';
import type { Context } from './view';

const kArrangements: [Arrangement, string, string][] = [
  ['category', 'By category', 'Stacked by category, the oldest of each at the bottom'],
  ['made', 'By age', 'Stacked as they were made, the oldest at the bottom'],
  ['lanes', 'Lanes', 'A lane for each category, each with a scale of its own'],
];

const kBytes: FlameWords = {
  size: bytes,
  lines: (flame, node) => [`${counted(flame.calls[node]!, 'block')}${flame.host_self[node]! > 0 ? `, ${bytes(flame.host_self[node]!)} by itself` : ''}`],
  whole: () => 'of all that is held',
};

/** What the address says, and what may be remembered in it. */
type Remember = (place: URLSearchParams) => void;

export class SnapshotView {
  readonly root = element('div', { class: 'snapshot' });
  private readonly stacks_: Stacks;
  private readonly search_ = element('input', { 'type': 'search', 'placeholder': 'Search names and stacks', 'aria-label': 'Search names and stacks', 'spellcheck': 'false' });
  private readonly found_ = element('span', { class: 'quiet', role: 'status' });
  private readonly said_ = element('p', { class: 'offscreen', role: 'status' });
  private readonly detail_ = element('aside', { 'class': 'detail', 'aria-label': 'The allocation that is picked', 'aria-live': 'polite' });
  private readonly place_ = element('div', {});
  private history_!: HeldHistory;
  private timeline_!: MemoryTimeline;
  private state_!: MemoryState;
  private flame_: FlameGraph | undefined;
  private flame_place_ = element('div', {});
  private flame_of_ = 'peak';
  private native_ = false;
  private arranged_: Arrangement = 'category';
  private readonly settled_ = settled(() => this.remember_(this.place));
  private flaming_ = 0;
  private readonly usual_: SnapshotData['histories'][number] | undefined;   // of the device that is shown at first

  constructor(private readonly context_: Context, private readonly data_: SnapshotData, section_: SnapshotSection | null,
              private readonly remember_: Remember) {
    this.stacks_ = new Stacks(context_.data, data_.stacks);
    const highest = Math.max(0, data_.histories.findIndex((history) => history.device === section_?.peak.device));
    this.usual_ = this.data_.histories[highest];
    this.search_.addEventListener('input', () => this.search());
    this.place_.className = 'memory-of-device';
    append(this.root, [
      section_ && snapshotFacts(section_), section_ && snapshotNotes(section_), this.said_, this.place_,
      ...(section_ ? peakExplained(section_, (text) => this.searchFor(text)) : [])]);
    this.show(highest);
  }

  dispose(): void {
    this.settled_.cancel();
    cancelAnimationFrame(this.flaming_);
    this.flaming_ = 0;
    this.timeline_.dispose();
    this.state_.dispose();
    this.flame_?.dispose();
  }

  /** Everything of one device. */
  private show(index: number): void {
    if (this.timeline_) this.dispose();
    this.flame_ = undefined;
    const history = (this.history_ = new HeldHistory(this.context_.data, this.data_.histories[index]!));
    this.timeline_ = new MemoryTimeline(history, {
      describe: (piece, moment) => this.describe(piece, moment), pick: (allocation) => this.pick(allocation),
      moved: (moment) => this.moved(moment), changed: () => this.changed(), say: (text) => (this.said_.textContent = text),
    });
    this.timeline_.arrangement = this.arranged_;
    this.state_ = new MemoryState(history, {
      describe: (allocation) => this.describe({ allocation, from: 0, to: 0 }, this.timeline_.moment), pick: (allocation) => this.pick(allocation),
      move: (moment) => this.timeline_.setMoment(moment),
    });
    this.flame_place_ = element('div', {});
    const used = new Set(history.category);
    const names = kMemoryCategories.flatMap((_, c): [string, string][] => (used.has(c) ? [[categoryTitle(colourName(c)), colourName(c)]] : []));
    const left_out = history.of.all_events - history.events;
    this.place_.replaceChildren();
    append(this.place_, [
      element('h2', {}, 'Active memory', element('span', { class: 'quiet' }, `${history.title}, ${counted(history.of.all_events, 'event')}; drag or scroll to move and zoom, click for the stack`)),
      left_out > 0 && element('p', { class: 'warn' }, `The page has the ${count(history.events)} events around the peak; ${count(left_out)} more are in the file.`),
      this.tools(index), element('div', { class: 'memkey' }, legend(names), history.segments.count > 0 && element('span', { class: 'quiet' }, 'line: reserved; dashed: the peak')),
      element('div', { class: 'beside' }, this.timeline_.root, this.detail_),
      element('h2', {}, 'Allocator state', element('span', { class: 'quiet' }, 'segments with their blocks after one event; hatched: free')), this.state_.root,
      element('h2', {}, 'By stack', element('span', { class: 'quiet' }, 'bytes that are held, callers above')), this.flameTools(), this.flame_place_,
    ]);
    this.pick(-1);
    this.state_.show(this.timeline_.moment);
    this.drawFlame();
    this.search();
  }

  private tools(index: number): HTMLElement {
    const { histories } = this.data_;
    const devices = element('select', { 'aria-label': 'Device' }, ...histories.map(({ device }, i) => element('option', { value: i, selected: i === index }, device < 0 ? 'pinned host memory' : `GPU ${device}`)));
    devices.addEventListener('change', () => this.show(Number(devices.value)));
    const arrange = (chosen: Arrangement) => {
      this.timeline_.arrangement = this.arranged_ = chosen;
      for (const made of arrangements) made.setAttribute('aria-pressed', String(made.dataset.by === chosen));
      this.timeline_.refresh();
      this.changed();
    };
    const arrangements = kArrangements.map(([by, title, hint]) => button(title, { 'data-by': by, 'title': hint, 'aria-pressed': String(by === this.arranged_) }, () => arrange(by)));
    const zoom = (title: string, label: string, act: () => void) => button(title, { 'aria-label': label, 'title': label }, act);
    return element('div', { class: 'tools' }, histories.length > 1 && devices,
      element('div', { 'class': 'group', 'role': 'group', 'aria-label': 'How allocations are stacked' }, ...arrangements), this.search_, this.found_,
      element('div', { 'class': 'group', 'role': 'group', 'aria-label': 'Zoom' },
        zoom('+', 'Zoom in', () => this.timeline_.zoom(1 / 1.6, this.timeline_.moment)), zoom('−', 'Zoom out', () => this.timeline_.zoom(1.6, this.timeline_.moment)),
        zoom('↕+', 'Taller boxes', () => this.timeline_.stretchBytes(1 / 1.6)), zoom('↕−', 'Lower boxes', () => this.timeline_.stretchBytes(1.6)),
        zoom('All', 'All events and bytes', () => this.timeline_.reset())));
  }

  private flameTools(): HTMLElement {
    const ways: [string, string][] = [['peak', 'at the peak'], ['cursor', 'at the cursor'], ['end', 'at the end']];
    const select = element('select', { 'aria-label': 'Bytes held' }, ...ways.map(([id, title]) => element('option', { value: id, selected: id === this.flame_of_ }, title)));
    select.addEventListener('change', () => {
      this.flame_of_ = select.value;
      this.drawFlame();
    });
    const native = element('input', { type: 'checkbox', checked: this.native_ });
    native.addEventListener('change', () => {
      this.native_ = native.checked;
      this.drawFlame();
    });
    return element('div', { class: 'tools' }, select, element('label', { class: 'choice' }, native, ' frames of C++'));
  }

  private drawFlame(): void {
    const { history_: history, timeline_: timeline } = this;
    const moment = { peak: history.peak, cursor: timeline.moment, end: history.events }[this.flame_of_] ?? history.peak;
    const flame = flameOfHeld(this.stacks_, history, history.heldAt(moment), !this.native_);
    if (this.flame_) this.flame_.show(flame, 'host');
    else {
      this.flame_ = new FlameGraph(kMemoryCategories.map((_, c) => colourName(c)), flame, 'host', kBytes);
      this.flame_place_.append(this.flame_.root);
    }
    this.flame_.search(this.search_.value);
  }

  // What follows the cursor.

  private moved(moment: number): void {
    this.state_.show(moment);
    if (this.flame_of_ !== 'cursor' || this.flaming_) return this.changed();
    this.flaming_ = requestAnimationFrame(() => {
      this.flaming_ = 0;
      this.drawFlame();
    });
    this.changed();
  }

  private describe({ allocation, from, to }: Piece, moment: number): string[] {
    const { history_: history } = this;
    if (allocation < 0) return [`${bytes(to - from)} of small ${categoryTitle(colourName(-1 - allocation))}`, `each less than ${bytes(this.timeline_.strip.least_bytes)}: zoom in to tell them apart`];
    const frames = this.stacks_.frames(history.node[allocation] ?? 0);
    const line = lineOf(frames);
    return [
      `${bytes(history.allocations.bytes[allocation])}, ${categoryTitle(colourName(history.category[allocation]!))}`,
      line ? shown(frameText({ ...line, file: shortPath(line.file) }), 200) : this.withoutStack(allocation),
      this.life(allocation, moment),
    ];
  }

  private withoutStack(allocation: number): string {
    return this.history_.allocations.made[allocation] === 0 ? 'made before the recording' : 'no stack recorded';
  }

  private life(allocation: number, moment: number): string {
    const { history_: history } = this;
    const [made, end] = [history.allocations.made[allocation]!, history.allocations.end[allocation]!];
    const from = made === 0 ? 'before the recording' : `event ${count(history.eventNumber(made))}`;
    const to = end > history.events ? 'held at the end' : `freed at event ${count(history.eventNumber(end))}`;
    const ns = history.between(made, Math.min(end, history.events));
    const lasts = `${counted(Math.min(end, history.events + 1) - made, 'event')}${ns === null || made === 0 ? '' : `, ${duration(ns)}`}`;
    return `from ${from}, ${to}: ${lasts}${moment < made || moment >= end ? '; not at the cursor' : ''}`;
  }

  private pick(allocation: number): void {
    this.timeline_.chosen = this.state_.chosen = allocation;
    this.timeline_.refresh();
    this.state_.refresh();
    this.detail_.replaceChildren();
    append(this.detail_, allocation < 0 ? [element('p', { class: 'quiet' }, 'Click an allocation to see its stack. Arrow keys move the cursor and walk what is held there.')] : this.detailOf(allocation));
    this.changed();
  }

  private detailOf(allocation: number): Child[] {
    const { history_: history } = this;
    const { made, end, bytes: sizes, address } = history.allocations;
    const frames = this.stacks_.frames(history.node[allocation] ?? 0);
    const line = lineOf(frames);
    const pairs: [string, string][] = [
      ['Requested', bytes(sizes[allocation])], ['Of the peak', history.isHeld(allocation, history.peak) ? percent((100 * sizes[allocation]!) / Math.max(1, history.allocated[history.peak]!)) : 'not held'],
      ['Category', categoryTitle(colourName(history.category[allocation]!))], ['Known', kSure[history.sure[allocation]!]!], ['Life', this.life(allocation, made[allocation]!)], ['Address', `0x${address[allocation]!.toString(16)}`],
    ];
    const in_timeline = this.onTimeline(allocation);
    const frame = (of: (typeof frames)[number]) => element('li', { class: isPython(of) ? null : 'native' }, shown(frameText({ ...of, file: shortPath(of.file) }), 300));
    return [
      element('h3', {}, bytes(sizes[allocation]), line && element('span', { class: 'quiet' }, ` ${shown(line.name, 80)}`)),
      factList(pairs, 'one'),
      element('p', { class: 'tools' },
        button('Zoom to its life', {}, () => this.timeline_.show(made[allocation]! - 0.1 * (end[allocation]! - made[allocation]!), end[allocation]! + 0.1 * (end[allocation]! - made[allocation]!))),
        line && button('All of this function', { title: 'Searches stacks for it' }, () => this.searchFor(line.name)),
        in_timeline && button('Show in timeline', {}, in_timeline)),
      element('h4', {}, 'Stack, innermost first', frames.length > 0 && copyButton(frames.map(frameText).join('\n'), 'the stack')),
      frames.length > 0 ? element('ol', { class: 'stacktrace' }, ...frames.map(frame)) : element('p', { class: 'quiet' }, `${this.withoutStack(allocation)}.`),
    ];
  }

  // Where a trace of the same process is on the page, on its clock.
  private onTimeline(allocation: number): (() => void) | undefined {
    const { data, rank, show } = this.context_;
    if (rank.devices.length === 0 && rank.ops.length === 0) return undefined;
    const { made, end } = this.history_.allocations;
    const from = this.history_.unixTime(Math.max(1, made[allocation]!));
    const to = this.history_.unixTime(Math.min(this.history_.events, end[allocation]!));
    if (data.tracks.length === 0 || data.unix_origin_ns === undefined || from === undefined || to === undefined) return undefined;
    const [start_ns, end_ns] = [Number(from - data.unix_origin_ns), Number(to - data.unix_origin_ns)];
    if (end_ns < 0 || start_ns > data.span_ns) return undefined;
    return () => show({ start_ns: Math.max(0, start_ns), end_ns: Math.min(data.span_ns, Math.max(end_ns, start_ns + 1000)), target: { span: { start: start_ns, end: end_ns, rank: rank.rank } } });
  }

  private searchFor(text: string): void {
    this.search_.value = text;
    this.search();
    this.search_.scrollIntoView({ block: 'center' });
    this.search_.focus({ preventScroll: true });
  }

  private search(): void {
    const text = this.search_.value;
    const { history_: history } = this;
    let matches: Uint8Array | undefined;
    this.found_.textContent = '';
    if (text !== '') {
      const nodes = this.stacks_.matching(text);
      matches = new Uint8Array(history.allocations.count);
      const wanted = text.toLowerCase();
      const in_category = kMemoryCategories.map((_, c) => categoryTitle(colourName(c)).toLowerCase().includes(wanted));
      let [found, held] = [0, 0];
      for (let i = 0; i < matches.length; i++) {
        if (!nodes[history.node[i] ?? 0] && !in_category[history.category[i]!]) continue;
        matches[i] = 1;
        found++;
        if (history.isHeld(i, history.peak)) held += history.allocations.bytes[i]!;
      }
      this.found_.textContent = `${counted(found, 'allocation')}; ${bytes(held)} of them at the peak, ${percent((100 * held) / Math.max(1, history.allocated[history.peak]!))}`;
    }
    this.timeline_.matches = this.state_.matches = matches;
    this.timeline_.refresh();
    this.state_.refresh();
    this.flame_?.search(text);
    this.changed();
  }

  // The address

  private changed(): void {
    this.settled_.soon();
  }

  private get place(): URLSearchParams {
    const { timeline_: timeline, history_: history } = this;
    const { from, to } = timeline.stretch;
    const place = new URLSearchParams();
    if (history.of !== this.usual_) place.set('device', String(history.of.device));
    if (to - from < history.events + 1) place.set('t', `${Math.round(from)}_${Math.round(to)}`);
    if (timeline.moment !== history.peak) place.set('at', String(timeline.moment));
    if (timeline.chosen >= 0) place.set('allocation', String(timeline.chosen));
    if (this.arranged_ !== 'category') place.set('by', this.arranged_);
    if (this.search_.value) place.set('q', this.search_.value);
    return place;
  }

  goTo(place: URLSearchParams): void {
    const device = this.data_.histories.findIndex((history) => String(history.device) === place.get('device'));
    this.arranged_ = kArrangements.find(([by]) => by === place.get('by'))?.[0] ?? this.arranged_;
    this.search_.value = place.get('q') ?? this.search_.value;
    if (device >= 0 || place.has('by') || place.has('q')) this.show(device >= 0 ? device : this.data_.histories.indexOf(this.history_.of));
    const [from, to] = (place.get('t') ?? '').split('_').map(Number);
    if (from !== undefined && to !== undefined && from < to) this.timeline_.show(from, to);
    const at = Number(place.get('at') ?? NaN);
    if (Number.isFinite(at)) this.timeline_.setMoment(at);
    const allocation = Number(place.get('allocation') ?? -1);
    if (Number.isInteger(allocation) && allocation >= 0 && allocation < this.history_.allocations.count) this.pick(allocation);
  }
}
