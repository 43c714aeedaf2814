// A call tree as a flame graph draws it: children by size, widths in time of the host or of the device.

import type { FlameTree, Numbers, PageData } from '../page_data';

export type Measure = 'host' | 'device';

/** Node 0 stands for everything; node i + 1 is row i of its tree. Trees of several threads hang below one root. */
export interface Flame {
  parent: Int32Array;
  name: Int32Array;      // index in `names`
  category: Int32Array;  // index in the page's categories, -1 for none
  host: Float64Array;
  host_self: Float64Array;
  device: Float64Array;
  calls: Float64Array;
  depth: Uint16Array;
  names: string[];
  /** Children of node i: child[first[i]] to child[first[i + 1] - 1]. */
  first: Int32Array;
  child: Int32Array;
}

const kDeepest = 65535;

/** One graph of all `trees`: a root of that name, a node for each thread, and their calls. */
export function flameOf(data: PageData, trees: FlameTree[], root = trees.length === 1 ? 'this thread' : 'all threads'): Flame {
  const sizes = trees.map((tree) => data.column(tree.total_ns).length);
  const nodes = 1 + trees.length + sizes.reduce((a, b) => a + b, 0);
  const flame: Flame = {
    parent: new Int32Array(nodes), name: new Int32Array(nodes), category: new Int32Array(nodes).fill(-1),
    host: new Float64Array(nodes), host_self: new Float64Array(nodes), device: new Float64Array(nodes),
    calls: new Float64Array(nodes), depth: new Uint16Array(nodes),
    names: [...data.strings, root, ...trees.map((tree) => tree.title)],
    first: new Int32Array(nodes + 1), child: new Int32Array(Math.max(0, nodes - 1)),
  };
  flame.parent[0] = -1;
  flame.name[0] = data.strings.length;
  let at = 1;
  trees.forEach((tree, t) => {
    const thread = at++;
    flame.name[thread] = data.strings.length + 1 + t;
    flame.depth[thread] = 1;
    fill(flame, data, tree, thread, at);
    at += sizes[t]!;
    flame.host[0]! += flame.host[thread]!;
    flame.device[0]! += flame.device[thread]!;
  });
  linkChildren(flame);
  return flame;
}

function fill(flame: Flame, data: PageData, tree: FlameTree, thread: number, start: number): void {
  const columns: Record<'parent' | 'name' | 'total' | 'self' | 'device' | 'calls' | 'category', Numbers> = {
    parent: data.column(tree.parent), name: data.column(tree.name), total: data.column(tree.total_ns), self: data.column(tree.self_ns),
    device: data.column(tree.device_ns), calls: data.column(tree.calls), category: data.column(tree.category),
  };
  for (let i = 0; i < columns.total.length; i++) {
    const node = start + i;
    const above = columns.parent[i] ?? 0;
    // Parents stand before their children; what says otherwise is damaged and hangs below its thread.
    const parent = above === 0 || above > i ? thread : start + above - 1;
    flame.parent[node] = parent;
    flame.name[node] = columns.name[i] ?? 0;
    flame.category[node] = columns.category[i] ?? -1;
    flame.host[node] = columns.total[i]!;
    flame.host_self[node] = columns.self[i] ?? 0;
    flame.device[node] = columns.device[i] ?? 0;
    flame.calls[node] = columns.calls[i] ?? 0;
    flame.depth[node] = Math.min(kDeepest, flame.depth[parent]! + 1);
    if (parent === thread) {
      flame.host[thread]! += flame.host[node]!;
      flame.device[thread]! += flame.device[node]!;
    }
  }
}

export function linkChildren(flame: Flame): void {
  const nodes = flame.parent.length;
  for (let i = 1; i < nodes; i++) flame.first[flame.parent[i]! + 1]!++;
  for (let i = 0; i < nodes; i++) flame.first[i + 1]! += flame.first[i]!;
  const next = flame.first.slice(0, nodes);
  for (let i = 1; i < nodes; i++) flame.child[next[flame.parent[i]!]!++] = i;
}

export function sizesOf(flame: Flame, measure: Measure): Float64Array {
  return measure === 'host' ? flame.host : flame.device;
}

/** Largest first. */
export function childrenOf(flame: Flame, node: number, measure: Measure): number[] {
  const sizes = sizesOf(flame, measure);
  return Array.from(flame.child.subarray(flame.first[node], flame.first[node + 1])).sort((a, b) => sizes[b]! - sizes[a]! || a - b);
}

/** The callers of a node, outermost first, and itself. */
export function pathTo(flame: Flame, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = flame.parent[at]!) path.unshift(at);
  return path;
}

export interface Box {
  node: number;
  row: number;
  /** Share of the width. */
  left: number;
  width: number;
}

/** Nodes of `found`, and all above them. */
export function withCallers(flame: Flame, found: Uint8Array): Uint8Array {
  const holds = new Uint8Array(found);
  for (let node = holds.length - 1; node > 0; node--) if (holds[node]) holds[flame.parent[node]!] = 1;
  return holds;
}

/**
 * What is drawn with `root` across the whole width: its callers above it, and below it all that is wide enough to be
 * seen, and what `kept` marks.
 */
export function layOut(flame: Flame, root: number, measure: Measure, least_width: number, kept?: Uint8Array): Box[] {
  const sizes = sizesOf(flame, measure);
  const path = pathTo(flame, root);
  const boxes: Box[] = path.slice(0, -1).map((node, row) => ({ node, row, left: 0, width: 1 }));
  const stack: Box[] = [{ node: root, row: path.length - 1, left: 0, width: 1 }];
  while (stack.length > 0) {
    const box = stack.pop()!;
    boxes.push(box);
    const whole = sizes[box.node]!;
    if (whole <= 0) continue;
    const children = childrenOf(flame, box.node, measure);
    // A damaged tree may have children longer than their parent; they are made to fit.
    const sum = Math.max(whole, children.reduce((all, child) => all + sizes[child]!, 0));
    let left = box.left;
    for (const child of children) {
      const width = (box.width * sizes[child]!) / sum;
      if (width < least_width && !kept) break;
      if (width >= least_width || (kept![child] && width > 0)) stack.push({ node: child, row: box.row + 1, left, width });
      left += width;
    }
  }
  return boxes;
}

/** Which nodes have the text in their name, and the outermost of them, largest first, with their time. */
export function searchFlame(flame: Flame, text: string, measure: Measure): { found: Uint8Array; ns: number; count: number; outermost: number[] } {
  const wanted = text.toLowerCase();
  const matching = flame.names.map((name) => wanted !== '' && name.toLowerCase().includes(wanted));
  const found = new Uint8Array(flame.parent.length);
  const below = new Uint8Array(flame.parent.length);
  const sizes = sizesOf(flame, measure);
  const outermost: number[] = [];
  let count = 0;
  for (let i = 1; i < found.length; i++) {
    const inside = below[flame.parent[i]!]!;
    const hit = matching[flame.name[i]!] ? 1 : 0;
    found[i] = hit;
    below[i] = inside | hit;
    count += hit;
    if (hit && !inside && sizes[i]! > 0) outermost.push(i);
  }
  outermost.sort((a, b) => sizes[b]! - sizes[a]! || a - b);
  return { found, ns: outermost.reduce((sum, node) => sum + sizes[node]!, 0), count, outermost };
}

const kWaits = /(?:\b|_)(?:wait|sleep|acquire|select|poll|epoll_wait|futex|_wait_for_tstate_lock)\b/;
const kAsleep = 0.9;

/** Whether a thread launches nothing and waits nearly all the time, as one that draws a progress bar does. */
export function isAsleep(data: PageData, tree: FlameTree): boolean {
  const parents = data.column(tree.parent);
  const names = data.column(tree.name);
  const totals = data.column(tree.total_ns);
  const device = data.column(tree.device_ns);
  const inside = new Uint8Array(totals.length);
  let whole = 0;
  let waits = 0;
  for (let i = 0; i < totals.length; i++) {
    const above = parents[i] ?? 0;
    if (above === 0) {
      if ((device[i] ?? 0) > 0) return false;
      whole += totals[i]!;
    }
    inside[i] = above > 0 && above <= i ? inside[above - 1]! : 0;
    if (inside[i] || !kWaits.test(data.strings[names[i]!] ?? '')) continue;
    inside[i] = 1;
    waits += totals[i]!;
  }
  return whole > 0 && waits >= kAsleep * whole;
}

/** Of all nodes of one name: time on the host, itself and with all below it, and of what it launched. */
export interface NameSums {
  name: number;
  category: number;
  calls: number;
  host: number;
  host_self: number;
  device: number;
}

/** Whether a node of the same name is above it. */
function isNested(flame: Flame, node: number): boolean {
  for (let at = flame.parent[node]!; at > 0; at = flame.parent[at]!) if (flame.name[at] === flame.name[node]) return true;
  return false;
}

export function sumsByName(flame: Flame): NameSums[] {
  const sums = new Map<number, NameSums>();
  for (let node = 1; node < flame.parent.length; node++) {
    const name = flame.name[node]!;
    let sum = sums.get(name);
    if (!sum) sums.set(name, (sum = { name, category: flame.category[node]!, calls: 0, host: 0, host_self: 0, device: 0 }));
    sum.calls += flame.calls[node]!;
    sum.host_self += flame.host_self[node]!;
    if (isNested(flame, node)) continue;
    sum.host += flame.host[node]!;
    sum.device += flame.device[node]!;
  }
  return [...sums.values()].filter((sum) => sum.calls > 0);
}

/** Nodes that are added one by one below others, as a flame. */
class Growing {
  private readonly rows_: { parent: number; of: Flame; node: number; host: number; host_self: number; device: number; calls: number }[] = [];
  private readonly known_ = new Map<string, number>();

  constructor(private readonly source_: Flame) {}

  add(parent: number, node: number, like: number): number {
    const { source_: of } = this;
    const key = `${parent} ${of.name[node]}`;
    let at = this.known_.get(key);
    if (at === undefined) {
      this.known_.set(key, (at = this.rows_.length));
      this.rows_.push({ parent, of, node, host: 0, host_self: 0, device: 0, calls: 0 });
    }
    const row = this.rows_[at]!;
    row.host += of.host[like]!;
    row.host_self += of.host_self[like]!;
    row.device += of.device[like]!;
    row.calls += of.calls[like]!;
    return at;
  }

  flame(): Flame {
    const { rows_: rows, source_: source } = this;
    const column = (of: (row: (typeof rows)[number]) => number) => Float64Array.from(rows, of);
    const made: Flame = {
      parent: Int32Array.from(rows, (row) => row.parent), name: Int32Array.from(rows, (row) => source.name[row.node]!),
      category: Int32Array.from(rows, (row) => source.category[row.node]!), host: column((row) => row.host),
      host_self: column((row) => row.host_self), device: column((row) => row.device), calls: column((row) => row.calls),
      depth: new Uint16Array(rows.length), names: source.names, first: new Int32Array(rows.length + 1),
      child: new Int32Array(Math.max(0, rows.length - 1)),
    };
    for (let i = 1; i < rows.length; i++) made.depth[i] = Math.min(kDeepest, made.depth[made.parent[i]!]! + 1);
    linkChildren(made);
    return made;
  }
}

function nodesOf(flame: Flame, name: number): number[] {
  const nodes: number[] = [];
  for (let node = 1; node < flame.parent.length; node++)
    if (flame.name[node] === name && !isNested(flame, node)) nodes.push(node);
  return nodes;
}

/** All that is called from functions of a name. */
export function calleesOf(flame: Flame, name: number): Flame {
  const grown = new Growing(flame);
  for (const node of nodesOf(flame, name)) {
    const stack: [number, number][] = [[node, -1]];
    while (stack.length > 0) {
      const [at, parent] = stack.pop()!;
      const made = grown.add(parent, at, at);
      for (let c = flame.first[at]!; c < flame.first[at + 1]!; c++) stack.push([flame.child[c]!, made]);
    }
  }
  return grown.flame();
}

/** Who calls functions of a name, and who calls those: widths are the time of the calls in question. */
export function callersOf(flame: Flame, name: number): Flame {
  const grown = new Growing(flame);
  for (const node of nodesOf(flame, name)) {
    let made = grown.add(-1, node, node);
    for (let at = flame.parent[node]!; at > 0; at = flame.parent[at]!) made = grown.add(made, at, node);
  }
  return grown.flame();
}
