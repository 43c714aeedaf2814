// Flame graph, callers above: host operators and Python frames, by their time on the host or by what they launched.

import { hexOf, inkOn, mix, quietInkOn, rgbOf, type Rgb } from '../contrast';
import { colourOf } from './colours';
import { button, element, shown } from './dom';
import { drawing } from './drawing';
import {
  calleesOf, callersOf, childrenOf, flameOf, isAsleep, layOut, pathTo, searchFlame, sizesOf, sumsByName, withCallers, type Box, type Flame, type Measure, type NameSums,
} from './flame_tree';
import { count, counted, duration, percent } from './quantity';
import { DataTable, timeColumn } from './table';
import { colour, isDark } from './theme';
import { hideTip, showTip } from './tooltip';
import type { FlameTree, PageData } from '../page_data';
import { placeOf, rankName, withoutEvents, type Context, type View } from './view';

const kRow = 20;
const kLeastPixels = 0.7;
const kTextPixels = 26;   // narrower boxes stay without text
const kHitPixels = 2;     // of what a search finds, however short it is

/** How a graph's sizes read, and what is said of a node under the pointer. */
export interface FlameWords {
  size(amount: number | undefined): string;
  /** Below its name, size and share. */
  lines(flame: Flame, node: number): (string | false)[];
  /** "of all", of which a share is said. */
  whole(measure: Measure): string;
}

const kTimes: FlameWords = {
  size: duration,
  lines: (flame, node) => [
    flame.host[node]! > 0 && `host ${duration(flame.host[node]!)}, itself ${duration(flame.host_self[node]!)}`,
    flame.host[node]! > 0 ? `launched ${duration(flame.device[node]!)} on the GPU` : 'on the GPU',
    flame.calls[node]! > 0 && `${counted(flame.calls[node]!, 'call')}, ${duration((flame.host[node]! || flame.device[node]!) / flame.calls[node]!)} each`,
  ],
  whole: (measure) => (measure === 'device' ? 'of what these calls launched' : 'of all'),
};

export class FlameGraph {
  readonly root = element('div', { class: 'flamegraph' });
  private readonly drawing_;
  private readonly trail_ = element('nav', { class: 'trail', 'aria-label': 'Zoomed to' });
  private readonly said_ = element('p', { class: 'quiet', role: 'status' });
  private boxes_: Box[] = [];
  private rows_ = 1;
  private found_: Uint8Array | undefined;
  private held_: Uint8Array | undefined;   // what was found, and all above it
  private hits_: number[] = [];
  private hit_ = -1;      // of these, the one that "Next hit" went to
  private readonly next_ = button('Next hit', { hidden: true, title: 'Zooms to the next frame that matches, largest first (Enter in the field)' }, () => this.next());
  private search_ = '';
  private top_ = 0;       // the node across the whole width
  /** Another node is across the whole width. */
  zoomed: () => void = () => {};
  private chosen_ = -1;   // under the pointer, or chosen by keys

  constructor(private readonly categories_: string[], private flame_: Flame, private measure_: Measure, private readonly words_: FlameWords = kTimes) {
    this.drawing_ = drawing('Flame graph', () => Math.max(3, this.rows_) * kRow + 2, (painter, width) => this.draw(painter, width));
    const { canvas } = this.drawing_;
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'application');
    canvas.addEventListener('pointermove', (event) => this.hover(event));
    canvas.addEventListener('pointerleave', () => this.choose(-1));
    canvas.addEventListener('click', (event) => this.zoomTo(this.at(event)));
    canvas.addEventListener('keydown', (event) => this.key(event));
    canvas.addEventListener('blur', hideTip);
    this.root.append(element('div', { class: 'hits' }, this.said_, this.next_), this.trail_, element('div', { class: 'canvas' }, canvas));
    this.layOut();
  }

  dispose(): void {
    this.drawing_.dispose();
    hideTip();
  }

  show(flame: Flame, measure: Measure): void {
    const same = flame === this.flame_;
    this.flame_ = flame;
    this.measure_ = measure;
    if (!same) this.top_ = 0;
    this.search(this.search_);
    this.layOut();
  }

  search(text: string): void {
    this.search_ = text;
    const result = text === '' ? undefined : searchFlame(this.flame_, text, this.measure_);
    this.found_ = result?.found;
    this.held_ = result && withCallers(this.flame_, result.found);
    this.hits_ = result?.outermost ?? [];
    this.hit_ = -1;
    const whole = sizesOf(this.flame_, this.measure_)[0]!;
    if (this.held_ && this.top_ !== 0) this.zoomToHits(this.held_);
    this.said_.textContent = result ? `${count(result.count)} ${result.count === 1 ? 'frame matches' : 'frames match'}: ${this.words_.size(result.ns)}, ${percent((100 * result.ns) / (whole || 1))} of all` : '';
    this.next_.hidden = this.hits_.length === 0;
    this.layOut();
  }

  /** Zooms to the next of what was found. */
  next(): void {
    if (this.hits_.length === 0) return;
    this.hit_ = (this.hit_ + 1) % this.hits_.length;
    const node = this.hits_[this.hit_]!;
    this.zoomTo(node);
    this.said_.textContent = `Hit ${count(this.hit_ + 1)} of ${count(this.hits_.length)}: ${shown(this.nameOf(node), 200)}, ${this.words_.size(sizesOf(this.flame_, this.measure_)[node])}`;
    const from_top = this.drawing_.canvas.getBoundingClientRect().top + (pathTo(this.flame_, node).length - 1) * kRow;
    if (from_top < 0 || from_top > innerHeight - 2 * kRow) scrollBy({ top: from_top - innerHeight / 2 });
  }

  reset(): void {
    this.zoomTo(0);
  }

  get top(): number {
    return this.top_;
  }

  /** To a node that an address names. */
  zoom(node: number): void {
    if (Number.isInteger(node) && node > 0 && node < this.flame_.parent.length) this.zoomTo(node);
  }

  // Out as far as there are hits in view.
  private zoomToHits(held: Uint8Array): void {
    let top = this.top_;
    while (top > 0 && !held[top]) top = this.flame_.parent[top]!;
    if (top !== this.top_) this.zoomTo(top);
  }

  private layOut(): void {
    this.chosen_ = -1;
    hideTip();
    this.boxes_ = layOut(this.flame_, this.top_, this.measure_, kLeastPixels / Math.max(400, innerWidth), this.held_);
    this.rows_ = this.boxes_.reduce((rows, box) => Math.max(rows, box.row + 1), 1);
    const path = pathTo(this.flame_, this.top_);
    this.trail_.replaceChildren(...path.map((node, i) =>
      button(shown(this.nameOf(node), 60), { class: 'crumb', 'aria-current': i === path.length - 1 ? 'location' : null }, () => this.zoomTo(node))));
    this.drawing_.refresh();
  }

  private nameOf(node: number): string {
    return this.flame_.names[this.flame_.name[node]!] ?? '';
  }

  private at(event: MouseEvent): number {
    const frame = this.drawing_.canvas.getBoundingClientRect();
    const x = (event.clientX - frame.left) / frame.width;
    const row = Math.floor((event.clientY - frame.top) / kRow);
    const of_row = this.boxes_.filter((box) => box.row === row);
    const narrow = kHitPixels / frame.width;
    const hit = of_row.find((box) => this.found_?.[box.node] && box.width < narrow && x >= box.left && x < box.left + narrow);
    return (hit ?? of_row.find((box) => x >= box.left && x < box.left + box.width))?.node ?? -1;
  }

  private hover(event: PointerEvent): void {
    this.choose(this.at(event), event.clientX, event.clientY);
  }

  private choose(node: number, x = 0, y = 0): void {
    if (node !== this.chosen_) this.drawing_.refresh();
    this.chosen_ = node;
    if (node < 0) return hideTip();
    const flame = this.flame_;
    const whole = sizesOf(flame, this.measure_)[0]!;
    const size = sizesOf(flame, this.measure_)[node]!;
    showTip(x, y, [
      element('b', {}, shown(this.nameOf(node), 600)),
      `${this.words_.size(size)}  ${percent((100 * size) / (whole || 1))} ${this.words_.whole(this.measure_)}`, ...this.words_.lines(flame, node),
    ]);
  }

  private zoomTo(node: number): void {
    if (node < 0) return;
    this.top_ = node;
    this.layOut();
    this.zoomed();
  }

  // Moves among what is drawn: callers above, callees below, siblings beside.
  private key(event: KeyboardEvent): void {
    const drawn = new Set(this.boxes_.map((box) => box.node));
    const from = this.chosen_ < 0 ? this.top_ : this.chosen_;
    const parent = this.flame_.parent[from]!;
    const beside = parent < 0 ? [from] : childrenOf(this.flame_, parent, this.measure_).filter((node) => drawn.has(node));
    const place = beside.indexOf(from);
    const targets: Record<string, () => number | undefined> = {
      ArrowUp: () => parent, ArrowDown: () => childrenOf(this.flame_, from, this.measure_).find((node) => drawn.has(node)),
      ArrowLeft: () => beside[place - 1], ArrowRight: () => beside[place + 1],
    };
    if (event.key === 'Enter') this.zoomTo(from);
    else if (event.key === 'Backspace') this.zoomTo(this.flame_.parent[this.top_]!);
    else if (event.key === 'Escape') this.zoomTo(0);
    else if (targets[event.key]) {
      const target = targets[event.key]!();
      const box = this.boxes_.find((b) => b.node === target);
      if (box) {
        const frame = this.drawing_.canvas.getBoundingClientRect();
        this.said_.textContent = `${shown(this.nameOf(box.node), 200)}, ${this.words_.size(sizesOf(this.flame_, this.measure_)[box.node])}`;
        this.choose(box.node, frame.left + Math.min(0.7, box.left) * frame.width, frame.top + (box.row + 1) * kRow);
      }
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private draw(painter: CanvasRenderingContext2D, width: number): void {
    painter.font = '12px system-ui, sans-serif';
    painter.textBaseline = 'middle';
    // Narrow hits last: a neighbour must not cover them.
    const is_hit = (box: Box) => this.found_?.[box.node] === 1 && box.width * width < kHitPixels;
    for (const box of this.boxes_) if (!is_hit(box)) this.drawBox(painter, box, width);
    painter.fillStyle = colour('text');
    for (const box of this.boxes_) if (is_hit(box)) painter.fillRect(box.left * width, box.row * kRow + 1, kHitPixels, kRow - 1);
  }

  private drawBox(painter: CanvasRenderingContext2D, box: Box, width: number): void {
    const [x, y, wide] = [box.left * width, box.row * kRow, box.width * width];
    if (wide < kLeastPixels) return;   // there for the hits below it
    const category = this.categories_[this.flame_.category[box.node]!];
    const is_above = box.node !== this.top_ && box.width === 1 && pathIncludes(this.flame_, box.node, this.top_);
    const faded = this.found_ ? !this.found_[box.node] : is_above;
    const full = category === undefined ? rgbOf(colour('raised')) : shade(rgbOf(colourOf(category)), this.flame_.name[box.node]!);
    const behind = faded ? mix(rgbOf(colour('back')), full, 0.3) : full;
    painter.fillStyle = hexOf(behind);
    painter.fillRect(x, y + 1, Math.max(0.5, wide - 1), kRow - 1);
    if (box.node === this.chosen_) {
      painter.strokeStyle = colour('text');
      painter.lineWidth = 1.5;
      painter.strokeRect(x + 0.75, y + 1.75, Math.max(1, wide - 2.5), kRow - 2.5);
    }
    if (wide >= kTextPixels) {
      painter.fillStyle = faded ? quietInkOn(behind, rgbOf(colour('quiet'))) : inkOn(behind);
      painter.fillText(fitted(painter, shown(this.nameOf(box.node), 300), wide - 9), x + 4, y + kRow / 2 + 1);
    }
  }
}

function pathIncludes(flame: Flame, node: number, below: number): boolean {
  for (let at = below; at >= 0; at = flame.parent[at]!) if (at === node) return true;
  return false;
}

// Neighbours of one category differ a little, by their name, so that their edges are seen.
function shade(base: Rgb, seed: number): Rgb {
  const lighter = ((seed * 2654435761) >>> 28) / 15;
  return mix(base, isDark() ? [0, 0, 0] : [255, 255, 255], 0.1 + 0.28 * lighter);
}

function fitted(painter: CanvasRenderingContext2D, text: string, room: number): string {
  if (painter.measureText(text).width <= room) return text;
  let [least, most] = [0, text.length];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (painter.measureText(`${text.slice(0, middle)}…`).width <= room) least = middle;
    else most = middle - 1;
  }
  return least > 0 ? `${text.slice(0, least)}…` : '';
}

function treesOf(context: Context): FlameTree[] {
  return context.data.ranks[context.rank_index]?.flame ?? [];
}

const kSortedBy: Record<Measure, string> = { host: 'self', device: 'device' };

/** Every function once; below it who calls the one that is picked, and what that calls. */
class Sandwich {
  readonly root = element('div', { class: 'sandwich' });
  private readonly graphs_ = element('div', {});
  private readonly table_: DataTable<NameSums>;
  private shown_: FlameGraph[] = [];
  private rows_: NameSums[] = [];
  private text_ = '';
  /** Index of the name that is picked; -1: none. */
  name = -1;
  picked: () => void = () => {};

  constructor(private readonly data_: PageData, private flame_: Flame, private measure_: Measure) {
    const name = (row: NameSums) => this.flame_.names[row.name] ?? '';
    this.table_ = new DataTable<NameSums>({
      label: 'Functions', sorted: kSortedBy[measure_], most_rows: 12,
      columns: [
        { key: 'name', title: 'Function', wide: true, cell: (row) => shown(name(row)), order: name },
        { key: 'calls', title: 'Calls', numeric: true, cell: (row) => count(row.calls), order: (row) => row.calls },
        timeColumn('self', 'CPU self', (row) => row.host_self), timeColumn('total', 'CPU total', (row) => row.host),
        timeColumn('device', 'GPU', (row) => row.device, 'Of what it and all below it launched'),
      ],
      picked: (row) => {
        this.pick(row.name);
        this.picked();
      },
    });
    this.root.append(this.table_.root, this.graphs_);
    this.graphs_.append(element('p', { class: 'quiet' }, 'Pick a function to see who calls it and what it calls.'));
  }

  show(flame: Flame, measure: Measure): void {
    const same = flame === this.flame_;
    this.flame_ = flame;
    if (measure !== this.measure_) this.table_.sortBy(kSortedBy[measure]);
    this.measure_ = measure;
    if (!same || this.rows_.length === 0) this.rows_ = sumsByName(flame);
    this.search(this.text_);
    if (this.name >= 0) this.pick(this.name);
  }

  search(text: string): void {
    this.text_ = text.toLowerCase();
    this.table_.show(this.rows_.filter((row) => (this.flame_.names[row.name] ?? '').toLowerCase().includes(this.text_)));
  }

  dispose(): void {
    this.shown_.forEach((graph) => graph.dispose());
    this.shown_ = [];
  }

  choose(name: number): void {
    const row = this.rows_.find((of) => of.name === name);
    if (row) this.table_.choose(row);
  }

  private pick(name: number): void {
    this.name = name;
    this.dispose();
    this.graphs_.replaceChildren();
    const flames = [callersOf, calleesOf].map((of) => of(this.flame_, name));
    if (!flames.some((flame) => sizesOf(flame, this.measure_)[0]! > 0)) {
      const what = this.measure_ === 'device' ? 'launches nothing on the GPU' : 'takes no time on the host';
      this.graphs_.append(element('p', { class: 'quiet' }, `${shown(this.flame_.names[name] ?? '', 200)} ${what}.`));
      return;
    }
    for (const [i, title] of ['Called by, innermost first', 'Calls'].entries()) {
      const graph = new FlameGraph(this.data_.categories, flames[i]!, this.measure_);
      this.shown_.push(graph);
      this.graphs_.append(element('h3', {}, title), graph.root);
    }
  }
}

/** Shows what an address names, in the view that is there. */
let go_to: ((place: URLSearchParams) => void) | undefined;

export const flame: View = {
  id: 'flame',
  title: 'Flame graph',
  of_rank: true,
  absent: (context) => withoutEvents(context) ?? (treesOf(context).length > 0 ? null
    : 'The trace holds no operators of the host. Record them with ProfilerActivity.CPU; with_stack=True adds Python frames.'),
  mount(root, context) {
    const { data, rank } = context;
    const trees = treesOf(context);
    const awake = trees.filter((tree) => !isAsleep(data, tree));
    const together = awake.length > 0 ? awake : trees;
    const made = new Map<string, Flame>();
    const left_out = trees.length - together.length;
    const all = left_out > 0 ? 'all threads that work' : 'all threads';
    const of = (which: string) => {
      if (!made.has(which)) made.set(which, which === '' ? flameOf(data, together, all) : flameOf(data, [trees[Number(which)]!]));
      return made.get(which)!;
    };
    let measure: Measure = 'host';
    const threads = element('select', { 'aria-label': 'Thread' },
      trees.length > 1 && element('option', { value: '' }, `A${all.slice(1)}`),
      ...trees.map((tree, i) => element('option', { value: i }, shown(tree.title, 80) + (together.includes(tree) ? '' : ', waits'))));
    const graph = new FlameGraph(data.categories, of(threads.value), measure);
    const sandwich = new Sandwich(data, of(threads.value), measure);
    const choose = (chosen: Measure) => {
      measure = chosen;
      for (const b of buttons) b.setAttribute('aria-pressed', String(b.dataset.measure === measure));
      graph.show(of(threads.value), measure);
      sandwich.show(of(threads.value), measure);
    };
    const arrange = (chosen: string) => {
      for (const b of layouts) b.setAttribute('aria-pressed', String(b.dataset.layout === chosen));
      graph.root.hidden = chosen !== 'tree';
      sandwich.root.hidden = chosen !== 'sandwich';
    };
    const launches = of(threads.value).device[0]! > 0;
    const buttons = [
      button('Host time', { 'data-measure': 'host' }, () => choose('host')),
      button('GPU time', { 'data-measure': 'device', disabled: !launches, title: launches ? 'Time of the kernels and copies that were launched' : 'Nothing here launched work of a GPU' }, () => choose('device')),
    ];
    const layouts = [
      button('Tree', { 'data-layout': 'tree', title: 'Calls of one name below one caller are one box, widest first' }, () => arrange('tree')),
      button('Sandwich', { 'data-layout': 'sandwich', title: 'Every function once, with its callers and what it calls' }, () => arrange('sandwich')),
      button('In time order', { title: 'The same calls as they came, in the timeline' }, () => {
        const thread = trees[Number(threads.value)]?.title ?? trees[0]!.title;
        const track = data.tracks.find((t) => t.kind === 'thread' && t.rank === rank.rank && t.title === thread);
        context.show({ start_ns: 0, end_ns: data.span_ns, target: track?.kind === 'thread' ? { track: track.first } : undefined });
      }),
    ];
    const search = element('input', { type: 'search', placeholder: 'Search frames', 'aria-label': 'Search frames', spellcheck: 'false' });
    const find = () => {
      graph.search(search.value);
      sandwich.search(search.value);
    };
    const usual = threads.value;
    const remember = () => {
      const [is_tree, whole] = [sandwich.root.hidden, threads.value === usual];
      context.remember(flame, placeOf({
        q: search.value, by: measure === 'host' ? '' : measure, as: is_tree ? '' : 'sandwich', thread: whole ? '' : threads.value,
        at: is_tree && graph.top > 0 ? String(graph.top) : '', function: !is_tree && sandwich.name >= 0 ? String(sandwich.name) : '',
      }));
    };
    search.addEventListener('input', find);
    search.addEventListener('keydown', (event) => event.key === 'Enter' && sandwich.root.hidden && graph.next());
    threads.addEventListener('change', () => choose(measure));
    for (const [target, what] of [[search, 'input'], [threads, 'change'], ...[...buttons, ...layouts.slice(0, 2)].map((b) => [b, 'click'] as const)] as const)
      target.addEventListener(what, remember);
    root.append(
      element('h2', {}, 'Flame graph', element('span', { class: 'quiet' },
        [rankName(context), 'callers above, widest first; click to zoom'].filter(Boolean).join('; ')
          + (left_out > 0 ? `; without ${counted(left_out, 'thread')} that only ${left_out === 1 ? 'waits' : 'wait'}` : ''))),
      element('div', { class: 'tools' }, element('div', { class: 'group', role: 'group', 'aria-label': 'What widths show' }, ...buttons),
        element('div', { class: 'group', role: 'group', 'aria-label': 'Arrangement' }, ...layouts), threads, search,
        button('Show all', {}, () => graph.reset())), graph.root, sandwich.root);
    choose('host');
    arrange('tree');
    graph.zoomed = sandwich.picked = remember;
    go_to = (place) => {
      const thread = place.get('thread');
      if (thread !== null && trees[Number(thread)]) threads.value = thread;
      search.value = place.get('q') ?? '';
      choose(place.get('by') === 'device' && launches ? 'device' : 'host');
      arrange(place.get('as') === 'sandwich' ? 'sandwich' : 'tree');
      find();
      graph.zoom(Number(place.get('at') ?? NaN));
      sandwich.choose(Number(place.get('function') ?? NaN));
    };
    return () => {
      go_to = undefined;
      graph.dispose();
      sandwich.dispose();
    };
  },
  goTo: (place) => go_to?.(place),
  carry: (place) => {
    for (const of_tree of ['thread', 'at']) place.delete(of_tree);
  },
};
