// A made-up memory history of any size, as a pack: parameters that stay, steps of activations that grow and are freed
// backwards, small tensors in between; segments as an allocator takes them.

import { PackWriter } from './pack_writer';

const kMiB = 2 ** 20;
const kSegment = 64 * kMiB;

function random(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

interface Held {
  made: number;
  end: number;
  bytes: number;
  address: number;
  stack: number;
  kind: number;
}

/** Places blocks: a list of free ones by size class, else the end of the last segment. */
class Arena {
  readonly segments: { made: number; address: number }[] = [];
  private readonly free_ = new Map<number, number[]>();
  private at_ = 0;

  take(bytes: number, event: number): { address: number; segment: boolean } {
    const known = this.free_.get(bytes)?.pop();
    if (known !== undefined) return { address: known, segment: false };
    const room = this.segments.length > 0 ? this.segments[this.segments.length - 1].address + kSegment - this.at_ : 0;
    const segment = room < bytes;
    if (segment) {
      this.at_ = 0x7f0000000000 + this.segments.length * 2 * kSegment;
      this.segments.push({ made: event, address: this.at_ });
    }
    const address = this.at_;
    this.at_ += Math.ceil(bytes / 512) * 512;
    return { address, segment };
  }

  give(address: number, bytes: number): void {
    this.free_.set(bytes, [...(this.free_.get(bytes) ?? []), address]);
  }
}

export function syntheticSnapshot({ events, seed = 1, layers = 48 }: { events: number; seed?: number; layers?: number }): Uint8Array {
  const next = random(seed);
  const arena = new Arena();
  const actions: number[] = [];
  const all: Held[] = [];
  const live: Held[] = [];
  // Stacks: main › step › layer, each with a frame of C++ at its end.
  const parent = [0];
  const frame = [0];
  for (let layer = 0; layer < layers; layer++) {
    parent.push(1, parent.length + 1);
    frame.push(1 + 2 * layer, 2 + 2 * layer);
  }
  const strings = ['main', 'train.py', 'forward', 'model.py', 'at::empty_strided_cuda()', '??'];
  const names = [0, ...Array.from({ length: layers }, () => [2, 4]).flat()];
  const files = [1, ...Array.from({ length: layers }, () => [3, 5]).flat()];
  const lines = [7, ...Array.from({ length: layers }, (_, layer) => [layer, 0]).flat()];
  const make = (bytes: number, layer: number, category: number) => {
    const { address, segment } = arena.take(bytes, actions.length + 1);
    if (segment) actions.push(3);
    actions.push(0);
    const held = { made: actions.length, end: 0, bytes, address, stack: 3 + 2 * layer, kind: 3 * category };
    all.push(held);
    live.push(held);
  };
  const drop = (held: Held) => {
    actions.push(1, 2);
    held.end = actions.length;
    live.splice(live.lastIndexOf(held), 1);
    arena.give(held.address, held.bytes);
  };
  for (let layer = 0; layer < layers && actions.length < events / 4; layer++) make(Math.ceil((1 + next()) * 4) * kMiB, layer, 0);
  for (let step = 0; actions.length < events; step++) {
    const mine: Held[] = [];
    for (let layer = 0; layer < layers && actions.length < events; layer++) {
      make(Math.ceil((1 + 3 * next()) * 8) * (kMiB / 8), layer, 3);
      mine.push(all[all.length - 1]);
      for (let small = 0; small < 3; small++) {
        make(512 * Math.ceil(64 * next()), layer, 4);
        if (next() < 0.9) drop(all[all.length - 1]);
      }
    }
    for (const held of mine.reverse()) if (actions.length < events) drop(held);
    // Leaks a little, as programs do.
    for (const held of live.filter(({ kind }) => kind === 12)) if (next() < 0.9 && actions.length < events) drop(held);
  }
  const writer = new PackWriter();
  const addresses = [...new Set([...all.map(({ address }) => address), ...arena.segments.map(({ address }) => address)])].sort((a, b) => a - b);
  const place = new Map(addresses.map((address, i) => [address, i]));
  const history = {
    device: 0, all_events: actions.length, first: 0, start_us: '1700000000000000', time: writer.delta(actions.map((_, i) => 3 * i)),
    action: writer.plain(actions), addresses: writer.delta(addresses), stack: writer.plain(all.map(({ stack }) => stack)), kind: writer.plain(all.map(({ kind }) => kind)),
    allocations: {
      made: writer.delta(all.map(({ made }) => made)), events: writer.plain(all.map(({ made, end }) => (end > 0 ? end - made : 0))),
      bytes: writer.plain(all.map(({ bytes }) => bytes)), address: writer.plain(all.map(({ address }) => place.get(address)!)),
    },
    segments: {
      made: writer.plain(arena.segments.map(({ made }) => made)), events: writer.plain(arena.segments.map(() => 0)),
      bytes: writer.plain(arena.segments.map(() => kSegment)), address: writer.plain(arena.segments.map(({ address }) => place.get(address)!)),
    },
    stream: writer.plain(arena.segments.map(() => 0)), streams: ['0'],
  };
  const stacks = { parent: writer.plain(parent), frame: writer.plain(frame), name: writer.plain(names), file: writer.plain(files), line: writer.plain(lines) };
  return writer.finish({ span_ns: 1, strings, categories: [], ranks: [{ rank: 0, flame: [], kernels: [], gaps: [], snapshot: { stacks, histories: [history] } }] });
}
