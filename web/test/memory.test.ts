// A memory history as pixels: every column shows what is held at its highest moment, as a slow walk over all says.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePack } from '../src/pack';
import { flameOfHeld, HeldHistory, lineOf, stateAt, Stacks } from '../src/views/memory_model';
import { kShades, MemoryStrip, type Arrangement, type Inks } from '../src/views/memory_strip';
import { syntheticSnapshot } from './synthetic_snapshot';

function history(events: number, seed = 1, layers = 48) {
  const data = parsePack(syntheticSnapshot({ events, seed, layers }));
  assert.deepEqual(data.damage, []);
  const { snapshot } = data.ranks[0];
  return { data, stacks: new Stacks(data, snapshot!.stacks), held: new HeldHistory(data, snapshot!.histories[0]) };
}

test('levels are the sums of what is held, and the peak is the first of the highest', () => {
  const { held } = history(600);
  for (let m = 0; m <= held.events; m += 7) {
    const sum = held.heldAt(m).reduce((all, i) => all + held.allocations.bytes[i], 0);
    assert.equal(held.allocated[m], sum);
  }
  const most = Math.max(...held.allocated);
  assert.equal(held.peak, held.allocated.indexOf(most));
  assert.equal(held.allocated.length, held.events + 1);
});

test('columns show the highest moment in them, all that is held then, and nothing else', () => {
  const { held } = history(900, 2);
  const strip = new MemoryStrip(held);
  for (const [from, to, columns] of [[0, held.events + 1, 40], [100, 400, 64], [200, 212, 50], [0, 3, 10]]) {
    strip.prepare({ from, to, low: 0, high: 1 }, columns);
    for (let x = 0; x < columns; x++) {
      const first = Math.floor(from + (x * (to - from)) / columns);
      const stop = Math.max(first + 1, Math.floor(from + ((x + 1) * (to - from)) / columns));
      const moment = strip.moments[x];
      assert.ok(moment >= first && moment < stop);
      for (let m = first; m < stop; m++) assert.ok(held.allocated[m] <= held.allocated[moment]);
      for (const by of ['category', 'made'] as const) {
        const pieces = strip.pieces(x, by);
        assert.deepEqual(pieces.map(({ allocation }) => allocation).sort((a, b) => a - b), held.heldAt(moment));
        assert.equal(pieces[pieces.length - 1]?.to ?? 0, held.allocated[moment]);
        pieces.forEach((piece, i) => assert.equal(piece.from, i === 0 ? 0 : pieces[i - 1].to));
      }
    }
  }
});

const inks: Inks = {
  full: Uint32Array.from({ length: 12 * kShades }, (_, i) => 1000 + i), dimmed: Uint32Array.from({ length: 12 * kShades }, (_, i) => 2000 + i),
  edge: Uint32Array.from({ length: 12 * kShades }, (_, i) => 1000 + i), chosen: 9,
};

test('a pixel has the colour of what its middle is in, in every arrangement', () => {
  const { held } = history(700, 3);
  const strip = new MemoryStrip(held);
  const [columns, rows] = [50, 80];
  const stretch = { from: 50, to: 650, low: 0, high: held.allocated[held.peak] };
  strip.prepare(stretch, columns);
  for (const by of ['category', 'made', 'lanes'] as Arrangement[]) {
    const words = new Uint32Array(columns * rows);
    strip.paint(words, rows, stretch, by, inks, undefined, -1);
    for (let x = 0; x < columns; x += 3) {
      for (let y = 0; y < rows; y++) {
        const piece = strip.at(x, y + 0.5, rows, stretch, by);
        if (by === 'lanes' && piece === undefined) continue;
        const category = words[y * columns + x] === 0 ? -1 : Math.floor((words[y * columns + x] - 1000) / kShades);
        assert.equal(category, piece === undefined ? -1 : held.category[piece.allocation], `${by}: ${x}, ${y}`);
      }
    }
  }
});

test('what a search does not match fades, and what is chosen stands out', () => {
  const { held } = history(300, 4);
  const strip = new MemoryStrip(held);
  const stretch = { from: 0, to: held.events + 1, low: 0, high: held.allocated[held.peak] };
  strip.prepare(stretch, 30);
  const words = new Uint32Array(30 * 60);
  const matches = new Uint8Array(held.allocations.count);
  const last = strip.pieces(29, 'category')[0].allocation;
  strip.paint(words, 60, stretch, 'category', inks, matches, last);
  assert.ok(words.every((word) => word === 0 || word === 9 || word >= 2000));
  assert.ok(words.includes(9));
});

test('too many to be drawn one by one: the smallest are drawn as one, and nothing is lost', () => {
  const { held } = history(60_000, 5, 3000);
  const strip = new MemoryStrip(held);
  strip.prepare({ from: 0, to: held.events + 1, low: 0, high: 1 }, 1600);
  assert.ok(strip.least_bytes > 0);
  for (const x of [10, 800, 1599]) {
    const pieces = strip.pieces(x, 'category');
    assert.ok(Math.abs(pieces[pieces.length - 1].to - held.allocated[strip.moments[x]]) < 1);
    assert.ok(pieces.some(({ allocation }) => allocation < 0));
  }
});

test('blocks are in the segments that are reserved at the moment', () => {
  const { held } = history(500, 6);
  for (const moment of [0, 100, held.peak, held.events]) {
    const placed = stateAt(held, moment);
    assert.equal(placed.reduce((sum, { bytes }) => sum + bytes, 0), held.reserved[moment]);
    assert.equal(placed.reduce((sum, { blocks }) => sum + blocks.length, 0), held.heldAt(moment).length);
    for (const { address, bytes, blocks } of placed)
      for (const i of blocks) assert.ok(held.allocations.address[i] >= address && held.allocations.address[i] + held.allocations.bytes[i] <= address + bytes);
  }
});

test('events name what they make and free', () => {
  const { held } = history(400, 7);
  const live = new Set<number>(held.heldAt(0));
  for (let index = 0; index < held.events; index++) {
    const row = held.event(index);
    if (row.action === 'alloc') live.add(row.allocation!);
    if (row.action === 'free') assert.ok(live.delete(row.allocation!), `event ${index}`);
    if (index % 50 === 0) assert.deepEqual([...live].sort((a, b) => a - b), held.heldAt(index + 1));
  }
});

test('a flame graph by bytes adds up, with and without frames of C++', () => {
  const { held, stacks } = history(500, 8);
  const at_peak = held.heldAt(held.peak);
  for (const python of [true, false]) {
    const flame = flameOfHeld(stacks, held, at_peak, python);
    assert.equal(flame.host[0], held.allocated[held.peak]);
    assert.equal(flame.calls[0], at_peak.length);
    const below = new Float64Array(flame.parent.length);
    for (let i = 1; i < flame.parent.length; i++) below[flame.parent[i]] += flame.host[i];
    for (let i = 0; i < below.length; i++) assert.equal(below[i] + flame.host_self[i], flame.host[i]);
    assert.equal(flame.names.some((name) => name.startsWith('at::')), !python);
  }
  const found = stacks.matching('model.py:3)');
  const matching = at_peak.filter((i) => found[held.node[i]]);
  assert.ok(matching.length > 0 && matching.length < at_peak.length);
  for (const i of matching) assert.ok(stacks.frames(held.node[i]).some(({ file, line }) => file.endsWith('model.py') && line === 3));
});

test('a damaged history is read as far as it makes sense', () => {
  const pack = syntheticSnapshot({ events: 300, seed: 9 });
  const header = 8 + new DataView(pack.buffer).getUint32(4, true);
  for (let at = header; at < pack.length; at += 53) pack[at] ^= 0xff;
  const data = parsePack(pack);
  const { snapshot } = data.ranks[0];
  const held = new HeldHistory(data, snapshot!.histories[0]);
  const stacks = new Stacks(data, snapshot!.stacks);
  const strip = new MemoryStrip(held);
  strip.prepare({ from: 0, to: held.events + 1, low: 0, high: 1e9 }, 100);
  strip.paint(new Uint32Array(100 * 50), 50, { from: 0, to: held.events + 1, low: 0, high: 1e9 }, 'category', inks, undefined, -1);
  stateAt(held, held.events);
  flameOfHeld(stacks, held, held.heldAt(held.peak), true);
});

test('the line of an allocation is the program’s, else the node of autograd, else what asked the allocator', () => {
  const frame = (name: string, file = '') => ({ name, file, line: file === '' ? 0 : 12 });
  const allocator = [frame('torch::unwind::unwind()'), frame('c10::cuda::CUDACachingAllocator::Native::allocate(unsigned long)'), frame('at::detail::empty_cuda()')];
  const line = (...frames: ReturnType<typeof frame>[]) => lineOf([...allocator, ...frames])?.name;
  assert.equal(line(frame('linear', '/usr/lib/python3.12/site-packages/torch/nn/functional.py'), frame('forward', '/home/me/model.py')), 'forward');
  assert.equal(line(frame('linear', '/usr/lib/python3.12/site-packages/torch/nn/functional.py')), 'linear');
  assert.equal(line(frame('at::bmm()'), frame('torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)')), 'BmmBackward0');
  assert.equal(line(frame('at::native::cat()'), frame('main')), 'at::native::cat()');
  assert.equal(lineOf(allocator)?.name, 'torch::unwind::unwind()');
  assert.equal(lineOf([]), undefined);
});

test('lanes are those of what was prepared last', () => {
  const { held } = history(2000);
  const strip = new MemoryStrip(held);
  const lanes = (from: number, to: number) => {
    strip.prepare({ from, to, low: 0, high: 1 }, 200);
    return strip.lanes();
  };
  const [early, whole] = [lanes(0, 20), lanes(0, held.events + 1)];
  assert.equal(strip.lanes(), whole);   // not worked out again
  const sum = (all: typeof whole) => all.reduce((bytes, { high }) => bytes + high, 0);
  assert.ok(sum(early) < sum(whole));
});
