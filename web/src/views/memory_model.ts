// A device's memory history as the page has it: allocations and segments with their lives, levels, and the stacks.
//
// A moment m is the state after m of the events on the page, 0 to `events`; what is held lives from its moment `made` up
// to, not including, `end`.

import type { Flame } from './flame_tree';
import { linkChildren } from './flame_tree';
import type { MemoryHistory, MemoryStacks, Numbers, PageData } from '../page_data';

/** In the order of the program's MemoryCategory. */
export const kMemoryCategories = [
  'parameter', 'gradient', 'optimizer_state', 'activation', 'temporary', 'communication', 'kv_cache', 'graph_pool', 'memory_pool', 'workspace', 'input',
  'autograd', 'unknown',
];
const kUnknown = kMemoryCategories.length - 1;
export const kSure = ['the stack or the pool says it', 'from its stack and how long it lives', 'inferred from its size and how long it lives'];
/** In the order of the program's AllocationAction. */
const kActions = [
  'alloc', 'free requested', 'free', 'segment alloc', 'segment free', 'segment map', 'segment unmap', 'snapshot', 'out of memory', 'other',
];

/** The colour of a category of memory. */
export function colourName(category: number): string {
  return `memory:${kMemoryCategories[category] ?? 'unknown'}`;
}

export interface Frame {
  name: string;
  file: string;
  line: number;
}

/** All stacks of a snapshot: node i is row i; a node of 0 below stands for none, so nodes count from 1. */
export class Stacks {
  readonly parent: Numbers;
  private readonly frame_: Numbers;
  private readonly name_: Numbers;
  private readonly file_: Numbers;
  private readonly line_: Numbers;

  constructor(private readonly data_: PageData, of: MemoryStacks) {
    this.parent = data_.column(of.parent);
    this.frame_ = data_.column(of.frame);
    [this.name_, this.file_, this.line_] = [data_.column(of.name), data_.column(of.file), data_.column(of.line)];
  }

  get count(): number {
    return Math.min(this.parent.length, this.frame_.length);
  }

  frame(node: number): Frame {
    return this.frameOf(this.frame_[node - 1] ?? -1);
  }

  private frameOf(frame: number): Frame {
    const { strings } = this.data_;
    return { name: strings[this.name_[frame]] ?? '', file: strings[this.file_[frame]] ?? '', line: this.line_[frame] ?? 0 };
  }

  /** The caller's node; 0: none. A damaged file may name what is not before it. */
  above(node: number): number {
    const parent = this.parent[node - 1] ?? 0;
    return parent < node ? parent : 0;
  }

  /** Innermost first. */
  frames(node: number): Frame[] {
    const all: Frame[] = [];
    for (let at = node; at > 0; at = this.above(at)) all.push(this.frame(at));
    return all;
  }

  /** Nodes with the text in a frame of theirs, by node. */
  matching(text: string): Uint8Array {
    const wanted = text.toLowerCase();
    const frames = new Uint8Array(this.name_.length);
    for (let f = 0; f < frames.length; f++) frames[f] = Number(frameText(this.frameOf(f)).toLowerCase().includes(wanted));
    const found = new Uint8Array(this.count + 1);
    for (let node = 1; node <= this.count; node++) found[node] = found[this.above(node)] | (frames[this.frame_[node - 1]] ?? 0);
    return found;
  }
}

/** Whether a frame is Python's: those of C++ have no source file of it. */
export function isPython({ file }: Frame): boolean {
  return /\.pyx?$/.test(file) || file.startsWith('<');
}

/** The last two parts of a path. */
export function shortPath(file: string): string {
  return file.split('/').slice(-2).join('/');
}

export function frameText({ name, file, line }: Frame): string {
  return file === '' || file === '??' ? name : `${name} (${file}${line > 0 ? `:${line}` : ''})`;
}

const kLibrary = /site-packages|dist-packages|\/lib\/python\d|^<|\btorch\//;

/** "MulBackward0" of torch::autograd::generated::MulBackward0::apply(...): threads of autograd have no frames of Python. */
function autogradNode(frames: Frame[]): string | undefined {
  for (const { name } of frames) {
    const found = /\b(\w+Backward\w*|AccumulateGrad)::/.exec(name);
    if (found) return found[1]!;
  }
  return undefined;
}

/** What every stack begins with: the allocator, and what records the stack. */
const kAllocator = /^(?:torch::(?:unwind|CapturedTraceback|cuda)|c10::|(?:at::TensorBase )?at::detail)/;

/**
 * The line of the program: its innermost Python frame outside of libraries, else of all; else the node of autograd, else
 * the innermost frame outside of the allocator.
 */
export function lineOf(frames: Frame[]): Frame | undefined {
  const python = frames.filter(isPython);
  const found = python.find(({ file }) => !kLibrary.test(file)) ?? python[0];
  if (found) return found;
  const node = autogradNode(frames);
  return node ? { name: node, file: '', line: 0 } : frames.find(({ name }) => !kAllocator.test(name)) ?? frames[0];
}

/** Lives of allocations or segments, by number. */
export interface Lives {
  count: number;
  made: Float64Array;
  end: Float64Array;
  bytes: Numbers;
  address: Float64Array;
}

function livesOf(data: PageData, history: MemoryHistory, of: MemoryHistory['allocations'], made: Numbers, moments: number): Lives {
  const [events, bytes, address] = [data.column(of.events), data.column(of.bytes), data.column(of.address)];
  const addresses = data.column(history.addresses, 'delta');
  const count = Math.min(made.length, events.length, bytes.length, address.length);
  const lives = { count, made: new Float64Array(count), end: new Float64Array(count), bytes, address: new Float64Array(count) };
  for (let i = 0; i < count; i++) {
    lives.made[i] = Math.min(moments, made[i]);
    lives.end[i] = events[i] === 0 ? moments + 1 : Math.min(moments + 1, made[i] + events[i]);
    lives.address[i] = addresses[address[i]] ?? 0;
  }
  return lives;
}

/** What is held after each moment. */
function levelsOf({ count, made, end, bytes }: Lives, moments: number): Float64Array {
  const levels = new Float64Array(moments + 2);
  for (let i = 0; i < count; i++) {
    levels[made[i]] += bytes[i];
    levels[end[i]] -= bytes[i];
  }
  for (let m = 1; m <= moments; m++) levels[m] += levels[m - 1];
  return levels.subarray(0, moments + 1);
}

export interface EventRow {
  event: number;
  action: string;
  bytes: number | null;
  /** The allocation that it makes or frees. */
  allocation: number | null;
  address: number | null;
}

export class HeldHistory {
  readonly events: number;
  readonly allocations: Lives;
  readonly segments: Lives;
  /** 1 + node of the stacks, 0 for none; by allocation. */
  readonly node: Numbers;
  readonly category: Uint8Array;
  readonly sure: Uint8Array;
  /** By moment. */
  readonly allocated: Float64Array;
  readonly reserved: Float64Array;
  /** The first moment with the highest level. */
  readonly peak: number;
  private readonly action_: Numbers;
  private readonly stream_: Numbers;
  private readonly time_: Numbers;
  private of_event_: Int32Array | undefined;
  private maps_: boolean | undefined;
  private segment_of_event_: Int32Array | undefined;

  constructor(data: PageData, readonly of: MemoryHistory) {
    this.action_ = data.column(of.action);
    this.events = this.action_.length;
    this.time_ = data.column(of.time, 'delta');
    this.stream_ = data.column(of.stream);
    this.allocations = livesOf(data, of, of.allocations, data.column(of.allocations.made, 'delta'), this.events);
    this.segments = livesOf(data, of, of.segments, data.column(of.segments.made), this.events);
    this.node = data.column(of.stack);
    const kind = data.column(of.kind);
    this.category = Uint8Array.from({ length: this.allocations.count }, (_, i) => Math.min(kUnknown, Math.floor((kind[i] ?? 3 * kUnknown) / 3)));
    this.sure = Uint8Array.from({ length: this.allocations.count }, (_, i) => (kind[i] ?? 2) % 3);
    this.allocated = levelsOf(this.allocations, this.events);
    this.reserved = levelsOf(this.segments, this.events);
    let peak = 0;
    for (let m = 1; m <= this.events; m++) if (this.allocated[m] > this.allocated[peak]) peak = m;
    this.peak = peak;
  }

  get title(): string {
    return this.of.device < 0 ? 'pinned memory of the host' : `GPU ${this.of.device}`;
  }

  /** The number of a moment's last event in the device's whole history, which begins at 0; -1: before all. */
  eventNumber(moment: number): number {
    return this.of.first + moment - 1;
  }

  /** Nanoseconds of Unix time; undefined where the file has no times. */
  unixTime(moment: number): bigint | undefined {
    if (this.of.start_us === undefined || this.time_.length === 0) return undefined;
    const us = this.time_[Math.max(0, Math.min(this.time_.length, moment) - 1)];
    return (this.of.start_us + BigInt(Math.round(us))) * 1000n;
  }

  /** Nanoseconds between two moments. */
  between(from: number, to: number): number | null {
    if (this.time_.length === 0) return null;
    const at = (m: number) => this.time_[Math.max(0, Math.min(this.time_.length, m) - 1)];
    return 1000 * (at(to) - at(from));
  }

  isHeld(allocation: number, moment: number): boolean {
    return this.allocations.made[allocation] <= moment && moment < this.allocations.end[allocation];
  }

  /** What is held at a moment, in the order in which it was made. */
  heldAt(moment: number): number[] {
    const { made, end, count } = this.allocations;
    const held: number[] = [];
    for (let i = 0; i < count && made[i] <= moment; i++) if (moment < end[i]) held.push(i);
    return held;
  }

  /** Whether segments grow and shrink in place (expandable segments). */
  get maps(): boolean {
    return (this.maps_ ??= this.action_.some((action) => action === 5 || action === 6));
  }

  stream(segment: number): string {
    return this.of.streams[this.stream_[segment]] ?? '';
  }

  /** Event `index` of those on the page. */
  event(index: number): EventRow {
    const [allocations, segments] = [(this.of_event_ ??= eventsOf(this.allocations, this.events)), (this.segment_of_event_ ??= eventsOf(this.segments, this.events))];
    const action = this.action_[index] ?? kActions.length - 1;
    const row: EventRow = { event: this.of.first + index, action: kActions[action] ?? 'other', bytes: null, allocation: null, address: null };
    // The request comes right before, where both were recorded.
    const at = action === 1 && this.action_[index + 1] === 2 ? index + 1 : index;
    const of_segment = action >= 3 && action <= 6;
    const found = (of_segment ? segments : allocations)[at] ?? 0;
    if (found === 0 || action > 6) return row;
    const lives = of_segment ? this.segments : this.allocations;
    row.bytes = lives.bytes[found - 1];
    row.address = lives.address[found - 1];
    if (!of_segment) row.allocation = found - 1;
    return row;
  }
}

// 1 + what an event begins or ends; 0: neither.
function eventsOf({ count, made, end }: Lives, events: number): Int32Array {
  const of = new Int32Array(events);
  for (let i = 0; i < count; i++) {
    if (made[i] > 0) of[made[i] - 1] = i + 1;
    if (end[i] <= events) of[end[i] - 1] = i + 1;
  }
  return of;
}

/** What allocations hold, as a call tree; `host` are bytes, `calls` blocks. Without frames of C++ where `python`. */
export function flameOfHeld(stacks: Stacks, history: HeldHistory, held: number[], python: boolean): Flame {
  const names: string[] = [];
  const index = new Map<string, number>();
  const nameOf = (name: string) => {
    let at = index.get(name);
    if (at === undefined) index.set(name, (at = names.push(name) - 1));
    return at;
  };
  const rows: { parent: number; name: number; bytes: number; self: number; blocks: number; by: Float64Array | undefined }[] = [
    { parent: -1, name: nameOf('all that is held'), bytes: 0, self: 0, blocks: 0, by: undefined }];
  const children = new Map<string, number>();
  const child = (parent: number, name: number) => {
    const key = `${parent} ${name}`;
    let at = children.get(key);
    if (at === undefined) children.set(key, (at = rows.push({ parent, name, bytes: 0, self: 0, blocks: 0, by: undefined }) - 1));
    return at;
  };
  const of_node = new Map<number, number>();   // row of a node of the stacks
  const rowOf = (node: number): number => {
    const known = of_node.get(node);
    if (known !== undefined) return known;
    const path: number[] = [];
    let at = node;
    for (; at > 0 && !of_node.has(at); at = stacks.above(at)) path.push(at);
    let row = at > 0 ? of_node.get(at)! : 0;
    for (const next of path.reverse()) {
      const frame = stacks.frame(next);
      if (!python || isPython(frame)) row = child(row, nameOf(frameText({ ...frame, file: shortPath(frame.file) })));
      of_node.set(next, row);
    }
    return row;
  };
  for (const i of held) {
    const node = history.node[i] ?? 0;
    let row = node > 0 ? rowOf(node) : child(0, nameOf(history.allocations.made[i] === 0 ? '(before the recording)' : '(no stack recorded)'));
    // Threads of autograd have no frames of Python.
    if (row === 0) {
      const line = lineOf(stacks.frames(node));
      row = child(child(0, nameOf('(C++ alone)')), nameOf(line ? frameText(line) : '(no stack recorded)'));
    }
    rows[row].self += history.allocations.bytes[i];
    for (let up = row; up >= 0; up = rows[up].parent) {
      rows[up].bytes += history.allocations.bytes[i];
      rows[up].blocks++;
      (rows[up].by ??= new Float64Array(kMemoryCategories.length))[history.category[i]] += history.allocations.bytes[i];
    }
  }
  const column = (of: (row: (typeof rows)[number]) => number) => Float64Array.from(rows, of);
  const flame: Flame = {
    parent: Int32Array.from(rows, (row) => row.parent), name: Int32Array.from(rows, (row) => row.name),
    category: Int32Array.from(rows, (row, i) => (i > 0 && row.by ? row.by.indexOf(Math.max(...row.by)) : -1)),
    host: column((row) => row.bytes), host_self: column((row) => row.self), device: new Float64Array(rows.length), calls: column((row) => row.blocks),
    depth: new Uint16Array(rows.length), names, first: new Int32Array(rows.length + 1), child: new Int32Array(Math.max(0, rows.length - 1)),
  };
  for (let i = 1; i < rows.length; i++) flame.depth[i] = Math.min(65535, flame.depth[flame.parent[i]] + 1);
  linkChildren(flame);
  return flame;
}

export interface Placed {
  /** Of the segments; adjacent ones of a stream are one. */
  address: number;
  bytes: number;
  stream: string;
  blocks: number[];
}

/** Segments at a moment with the blocks in them, by stream and address. */
export function stateAt(history: HeldHistory, moment: number): Placed[] {
  const { segments, allocations } = history;
  const placed: Placed[] = [];
  for (let s = 0; s < segments.count; s++) {
    if (segments.made[s] > moment || moment >= segments.end[s]) continue;
    const last = placed[placed.length - 1];
    const stream = history.stream(s);
    // What is mapped piece by piece is one; segments that were taken one by one may be neighbours by chance.
    if (history.maps && last && last.stream === stream && last.address + last.bytes === segments.address[s]) last.bytes += segments.bytes[s];
    else placed.push({ address: segments.address[s], bytes: segments.bytes[s], stream, blocks: [] });
  }
  for (const i of history.heldAt(moment)) {
    let [low, high] = [0, placed.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (placed[middle].address <= allocations.address[i]) low = middle + 1;
      else high = middle;
    }
    const segment = placed[low - 1];
    if (segment && allocations.address[i] < segment.address + segment.bytes) segment.blocks.push(i);
  }
  return placed.sort((a, b) => a.stream.localeCompare(b.stream) || a.address - b.address);
}
