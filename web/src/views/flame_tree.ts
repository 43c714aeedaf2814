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

/** One graph of all `trees`: a root, a node for each thread, and their calls. */
export function flameOf(data: PageData, trees: FlameTree[]): Flame {
  const sizes = trees.map((tree) => data.column(tree.total_ns).length);
  const nodes = 1 + trees.length + sizes.reduce((a, b) => a + b, 0);
  const flame: Flame = {
    parent: new Int32Array(nodes), name: new Int32Array(nodes), category: new Int32Array(nodes).fill(-1),
    host: new Float64Array(nodes), host_self: new Float64Array(nodes), device: new Float64Array(nodes),
    calls: new Float64Array(nodes), depth: new Uint16Array(nodes),
    names: [...data.strings, trees.length === 1 ? 'this thread' : 'all threads', ...trees.map((tree) => tree.title)],
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

function linkChildren(flame: Flame): void {
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

/** What is drawn with `root` across the whole width: its callers above it, and below it all that is wide enough to be seen. */
export function layOut(flame: Flame, root: number, measure: Measure, least_width: number): Box[] {
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
      if (width < least_width) break;
      stack.push({ node: child, row: box.row + 1, left, width });
      left += width;
    }
  }
  return boxes;
}

/** Which nodes have the text in their name, and the time of the outermost of them. */
export function searchFlame(flame: Flame, text: string, measure: Measure): { found: Uint8Array; ns: number; count: number } {
  const wanted = text.toLowerCase();
  const matching = flame.names.map((name) => wanted !== '' && name.toLowerCase().includes(wanted));
  const found = new Uint8Array(flame.parent.length);
  const below = new Uint8Array(flame.parent.length);
  const sizes = sizesOf(flame, measure);
  let ns = 0;
  let count = 0;
  for (let i = 1; i < found.length; i++) {
    const inside = below[flame.parent[i]!]!;
    const hit = matching[flame.name[i]!] ? 1 : 0;
    found[i] = hit;
    below[i] = inside | hit;
    count += hit;
    if (hit && !inside) ns += sizes[i]!;
  }
  return { found, ns, count };
}
