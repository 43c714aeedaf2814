// Flame graph, callers above: host operators and Python frames, by their time on the host or by what they launched.

import { colourOf } from './colours';
import { button, element, shown } from './dom';
import { drawing } from './drawing';
import { childrenOf, flameOf, layOut, pathTo, searchFlame, sizesOf, type Box, type Flame, type Measure } from './flame_tree';
import { count, duration, percent } from './quantity';
import { colour, isDark } from './theme';
import { hideTip, showTip } from './tooltip';
import type { FlameTree, PageData } from '../page_data';
import { withoutEvents, type Context, type View } from './view';

const kRow = 20;
const kLeastPixels = 0.7;
const kTextPixels = 26;   // narrower boxes stay without text

class FlameGraph {
  readonly root = element('div', { class: 'flamegraph' });
  private readonly drawing_;
  private readonly trail_ = element('nav', { class: 'trail', 'aria-label': 'Zoomed to' });
  private readonly said_ = element('p', { class: 'quiet', role: 'status' });
  private boxes_: Box[] = [];
  private rows_ = 1;
  private found_: Uint8Array | undefined;
  private search_ = '';
  private top_ = 0;       // the node across the whole width
  private chosen_ = -1;   // under the pointer, or chosen by keys

  constructor(private readonly data_: PageData, private flame_: Flame, private measure_: Measure) {
    this.drawing_ = drawing('Flame graph', () => Math.max(3, this.rows_) * kRow + 2, (painter, width) => this.draw(painter, width));
    const { canvas } = this.drawing_;
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'application');
    canvas.addEventListener('pointermove', (event) => this.hover(event));
    canvas.addEventListener('pointerleave', () => this.choose(-1));
    canvas.addEventListener('click', (event) => this.zoomTo(this.at(event)));
    canvas.addEventListener('keydown', (event) => this.key(event));
    canvas.addEventListener('blur', hideTip);
    this.root.append(this.said_, this.trail_, element('div', { class: 'canvas' }, canvas));
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
    const whole = sizesOf(this.flame_, this.measure_)[0]!;
    this.said_.textContent = result ? `${count(result.count)} frames match: ${duration(result.ns)}, ${percent((100 * result.ns) / (whole || 1))} of all` : '';
    this.drawing_.refresh();
  }

  reset(): void {
    this.zoomTo(0);
  }

  private layOut(): void {
    this.chosen_ = -1;
    hideTip();
    this.boxes_ = layOut(this.flame_, this.top_, this.measure_, kLeastPixels / Math.max(400, innerWidth));
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
    return this.boxes_.find((box) => box.row === row && x >= box.left && x < box.left + box.width)?.node ?? -1;
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
      `${duration(size)}  ${percent((100 * size) / (whole || 1))} of all${this.measure_ === 'device' ? ' on the GPU' : ''}`,
      `host ${duration(flame.host[node]!)}, itself ${duration(flame.host_self[node]!)}`,
      `launched ${duration(flame.device[node]!)} on the GPU`,
      flame.calls[node]! > 0 && `${count(flame.calls[node]!)} calls, ${duration(flame.host[node]! / flame.calls[node]!)} each`,
    ]);
  }

  private zoomTo(node: number): void {
    if (node < 0) return;
    this.top_ = node;
    this.layOut();
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
        this.said_.textContent = `${shown(this.nameOf(box.node), 200)}, ${duration(sizesOf(this.flame_, this.measure_)[box.node])}`;
        this.choose(box.node, frame.left + Math.min(0.7, box.left) * frame.width, frame.top + (box.row + 1) * kRow);
      }
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private draw(painter: CanvasRenderingContext2D, width: number): void {
    painter.font = '12px system-ui, sans-serif';
    painter.textBaseline = 'middle';
    for (const box of this.boxes_) this.drawBox(painter, box, width);
  }

  private drawBox(painter: CanvasRenderingContext2D, box: Box, width: number): void {
    const [x, y, wide] = [box.left * width, box.row * kRow, box.width * width];
    const category = this.data_.categories[this.flame_.category[box.node]!];
    const is_above = box.node !== this.top_ && box.width === 1 && pathIncludes(this.flame_, box.node, this.top_);
    const faded = this.found_ ? !this.found_[box.node] : is_above;
    painter.globalAlpha = faded ? 0.3 : 1;
    painter.fillStyle = category === undefined ? colour('raised') : shade(colourOf(category), this.flame_.name[box.node]!);
    painter.fillRect(x, y + 1, Math.max(0.5, wide - 1), kRow - 1);
    if (box.node === this.chosen_) {
      painter.globalAlpha = 1;
      painter.strokeStyle = colour('text');
      painter.lineWidth = 1.5;
      painter.strokeRect(x + 0.75, y + 1.75, Math.max(1, wide - 2.5), kRow - 2.5);
    }
    if (wide >= kTextPixels) {
      painter.globalAlpha = faded ? 0.6 : 1;
      painter.fillStyle = category === undefined ? colour('text') : readableOn(String(painter.fillStyle));
      painter.fillText(fitted(painter, shown(this.nameOf(box.node), 300), wide - 9), x + 4, y + kRow / 2 + 1);
    }
    painter.globalAlpha = 1;
  }
}

function pathIncludes(flame: Flame, node: number, below: number): boolean {
  for (let at = below; at >= 0; at = flame.parent[at]!) if (at === node) return true;
  return false;
}

// Neighbours of one category differ a little, by their name, so that their edges are seen.
function shade(base: string, seed: number): string {
  const lighter = ((seed * 2654435761) >>> 28) / 15;
  const value = parseInt(base.slice(1), 16);
  const toward = isDark() ? 0 : 255;
  const mix = (channel: number) => Math.round(channel + (toward - channel) * (0.1 + 0.28 * lighter));
  const [r, g, b] = [(value >> 16) & 255, (value >> 8) & 255, value & 255].map(mix);
  return `#${((r! << 16) | (g! << 8) | b!).toString(16).padStart(6, '0')}`;
}

function readableOn(background: string): string {
  const value = parseInt(background.slice(1), 16);
  const light = 0.299 * ((value >> 16) & 255) + 0.587 * ((value >> 8) & 255) + 0.114 * (value & 255);
  return light > 128 ? '#14181c' : '#f4f6f8';
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

export const flame: View = {
  id: 'flame',
  title: 'Flame graph',
  of_rank: true,
  absent: (context) => withoutEvents(context) ?? (treesOf(context).length > 0 ? null
    : 'The trace holds no operators of the host. Record them with ProfilerActivity.CPU; with_stack=True adds Python frames.'),
  mount(root, context) {
    const { data, analysis, rank } = context;
    const trees = treesOf(context);
    const made = new Map<string, Flame>();
    const of = (which: string) => {
      if (!made.has(which)) made.set(which, flameOf(data, which === '' ? trees : [trees[Number(which)]!]));
      return made.get(which)!;
    };
    let measure: Measure = 'host';
    const threads = element('select', { 'aria-label': 'Thread' }, trees.length > 1 && element('option', { value: '' }, 'All threads'),
      ...trees.map((tree, i) => element('option', { value: i }, shown(tree.title, 80))));
    const graph = new FlameGraph(data, of(threads.value), measure);
    const choose = (chosen: Measure) => {
      measure = chosen;
      for (const b of buttons) b.setAttribute('aria-pressed', String(b.dataset.measure === measure));
      graph.show(of(threads.value), measure);
    };
    const launches = of(threads.value).device[0]! > 0;
    const buttons = [
      button('Host time', { 'data-measure': 'host' }, () => choose('host')),
      button('GPU time', { 'data-measure': 'device', disabled: !launches, title: launches ? 'Time of the kernels and copies that were launched' : 'Nothing here launched work of a GPU' }, () => choose('device')),
    ];
    const search = element('input', { type: 'search', placeholder: 'Search frames', 'aria-label': 'Search frames', spellcheck: 'false' });
    search.addEventListener('input', () => graph.search(search.value));
    threads.addEventListener('change', () => choose(measure));
    root.append(
      element('h2', {}, 'Flame graph', element('span', { class: 'quiet' },
        `${analysis.ranks.length > 1 ? `rank ${rank.rank}; ` : ''}callers above, widest first; click to zoom`)),
      element('div', { class: 'tools' }, element('div', { class: 'group', role: 'group', 'aria-label': 'What widths show' }, ...buttons), threads, search,
        button('Show all', {}, () => graph.reset())), graph.root);
    choose('host');
    return () => graph.dispose();
  },
};
