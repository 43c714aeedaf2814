// What can be told without a browser of colours, code and call trees.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { categoryColour } from '../src/categories';
import { contrast, hexOf, inkOn, kReadable, mix, quietInkOn, rgbOf, type Rgb } from '../src/contrast';
import { distinctNames } from '../src/kernel_names';
import { parsePack } from '../src/pack';
import { ranWithin } from '../src/timeline/measure';
import { Model } from '../src/timeline/model';
import { shadesOf } from '../src/timeline/palette';
import { originOf } from '../src/timeline/relations';
import { calleesOf, callersOf, flameOf, isAsleep, layOut, searchFlame, sumsByName, withCallers } from '../src/views/flame_tree';
import { bytes, duration, percent } from '../src/views/quantity';
import { PackWriter } from './pack_writer';

// Every category that the page's own table names; those that mean the same share a colour.
const kSame = [
  ['data_loading', 'idle:data_loading'],
  ['communication', 'collective', 'memory:communication'],
  ['checkpoint', 'idle:checkpoint'],
  ['sync', 'idle:synchronization'],
  ['idle:untraced_work', 'blocked'],
];
const kCategories = [
  ...['gemm', 'convolution', 'attention', 'normalization', 'elementwise', 'reduction', 'embedding', 'optimizer', 'copy', 'communication'],
  ...['other', 'memcpy', 'memset', 'op', 'annotation', 'python', 'runtime', 'driver', 'overhead', 'library', 'system'],
  ...['data_loading', 'forward', 'backward', 'checkpoint', 'own_phase', 'other_phase', 'compute', 'idle'],
  ...['data_loading', 'host_bound', 'launch_latency', 'synchronization', 'dependency', 'memory_allocation', 'checkpoint', 'first_use']
    .map((cause) => `idle:${cause}`),
  ...['necessary_work', 'products', 'memory_bound', 'small_kernels', 'recomputation', 'unknown_work'].map((part) => `limit:${part}`),
  ...['parameter', 'gradient', 'optimizer_state', 'activation', 'temporary', 'communication', 'kv_cache', 'graph_pool', 'memory_pool', 'workspace', 'input',
    'autograd', 'unknown'].map((category) => `memory:${category}`),
  ...['idle:untraced_work', 'idle:no_requests', 'idle:unknown', 'step', 'warmup', 'sync', 'collective', 'wait', 'blocked'],
];
const kGrounds: Record<string, { back: Rgb; quiet: Rgb; dark: boolean }> = {
  light: { back: rgbOf('#ffffff'), quiet: rgbOf('#59636e'), dark: false },
  dark: { back: rgbOf('#15181c'), quiet: rgbOf('#95a0ab'), dark: true },
};

test('one colour has one meaning', () => {
  for (const { dark } of Object.values(kGrounds)) {
    const meaning = new Map<string, string>();
    for (const category of kCategories) {
      const name = kSame.find((same) => same.includes(category))?.[0] ?? category;
      const colour = categoryColour(category, dark);
      assert.equal(meaning.get(colour) ?? name, name, `${colour} is ${name} and ${meaning.get(colour)}`);
      meaning.set(colour, name);
    }
  }
});

test('text on every colour has a contrast of 4.5 in both themes', () => {
  for (const { back, quiet, dark } of Object.values(kGrounds)) {
    const colours = kCategories.map((category) => rgbOf(categoryColour(category, dark)));
    const { ink, dimmed, dimmed_ink } = shadesOf(back, quiet, colours);
    colours.forEach((colour, i) => {
      assert.ok(contrast(colour, rgbOf(ink[i])) >= kReadable, `${kCategories[i]}: ${ink[i]} on ${hexOf(colour)}`);
      const pixel = dimmed[i * 256 + 255];
      const faint: Rgb = [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
      assert.ok(contrast(faint, rgbOf(dimmed_ink[i])) >= kReadable, `${kCategories[i]}, dimmed`);
      // Flame graphs: lighter or darker by name, and faded.
      for (const share of [0.1, 0.24, 0.38]) {
        const shade = mix(colour, dark ? [0, 0, 0] : [255, 255, 255], share);
        assert.ok(contrast(shade, rgbOf(inkOn(shade))) >= kReadable);
        const faded = mix(back, shade, 0.3);
        assert.ok(contrast(faded, rgbOf(quietInkOn(faded, quiet))) >= kReadable);
      }
    });
  }
});

type Node = [parent: number, name: number, total: number, self: number, device: number, calls: number];

function flameData(strings: string[], nodes: Node[]) {
  const writer = new PackWriter();
  const column = (of: number) => writer.plain(nodes.map((node) => node[of]));
  const tree = {
    title: 'thread 1', parent: column(0), name: column(1), total_ns: column(2), self_ns: column(3), device_ns: column(4), calls: column(5),
    category: writer.plain(nodes.map(() => 0)),
  };
  const data = parsePack(writer.finish({ strings, categories: ['op'], ranks: [{ rank: 0, flame: [tree] }] }));
  assert.deepEqual(data.damage, []);
  return { data, tree: data.ranks[0].flame[0] };
}

test('what a search finds is drawn, however short it is, and the longest comes first', () => {
  const { data, tree } = flameData(['main', 'long', 'caller', 'hit', 'other'], [
    [0, 0, 1e6, 0, 0, 1], [1, 1, 999_900, 999_900, 0, 1], [1, 2, 90, 0, 0, 1], [3, 3, 60, 60, 0, 1], [3, 4, 30, 30, 0, 1], [1, 3, 10, 10, 0, 1],
  ]);
  const flame = flameOf(data, [tree]);
  const named = (nodes: number[]) => nodes.map((node) => flame.names[flame.name[node]!]);
  const drawn = (kept?: Uint8Array) => named(layOut(flame, 0, 'host', 0.001, kept).map((box) => box.node)).filter((name) => name === 'hit' || name === 'other');
  assert.deepEqual(drawn(), []);
  const { found, outermost, ns } = searchFlame(flame, 'hit', 'host');
  assert.deepEqual(drawn(withCallers(flame, found)), ['hit', 'hit']);
  assert.deepEqual(outermost.map((node) => flame.host[node]), [60, 10]);
  assert.equal(ns, 70);
});

test('the root of a flame graph is named by what is shown', () => {
  const { data, tree } = flameData(['main'], [[0, 0, 100, 100, 0, 1]]);
  const root = (flame: ReturnType<typeof flameOf>) => flame.names[flame.name[0]!];
  assert.equal(root(flameOf(data, [tree])), 'this thread');
  assert.equal(root(flameOf(data, [tree], 'all threads that work')), 'all threads that work');
});

test('different kernels of one short name are told apart', () => {
  const of = (short_name: string, ...names: string[]) => names.map((name) => ({ name, short_name }));
  const shown = distinctNames([
    ...of('sgemm', 'void sgemm<float, 128, 6, 7>(int)', 'void sgemm<float, 128, 5, 5>(int)'), ...of('other', 'void other(int)', 'void other(int)'),
    ...of('Tensile', 'Cijk_MT32_NTA0_K1', 'Cijk_MT32_NTA4_K1'), ...of('same', 'same<1>', 'same<1 >'),
  ]);
  assert.deepEqual([...shown.values()], ['sgemm (6)', 'sgemm (5)', 'other', 'Tensile (NTA0)', 'Tensile (NTA4)', 'same (#1)', 'same (#2)']);
});

test('a function has one line, its callers and what it calls', () => {
  //          main → a → b → kernel; main → b
  const { data, tree } = flameData(['main', 'a', 'b', 'kernel'], [
    [0, 0, 100, 20, 9, 1], [1, 1, 50, 20, 7, 2], [2, 2, 30, 30, 7, 3], [3, 3, 0, 0, 7, 3], [1, 2, 30, 30, 2, 1],
  ]);
  const flame = flameOf(data, [tree]);
  const b = sumsByName(flame).find((sum) => flame.names[sum.name] === 'b')!;
  assert.deepEqual([b.calls, b.host, b.host_self, b.device], [4, 60, 60, 9]);
  const named = (of: typeof flame) => Array.from(of.name, (name, i) => `${of.names[name]} ${of.host[i]} ${of.device[i]}`);
  assert.deepEqual(named(calleesOf(flame, 2)), ['b 60 9', 'kernel 0 7']);
  assert.deepEqual(named(callersOf(flame, 2)), ['b 60 9', 'a 30 7', 'main 30 7', 'thread 1 30 7', 'main 30 2', 'thread 1 30 2']);
});

test('a thread that waits nearly always and launches nothing is asleep', () => {
  const strings = ['run', 'tqdm/_monitor.py(60): wait', 'work'];
  const asleep = (nodes: Node[]) => {
    const { data, tree } = flameData(strings, nodes);
    return isAsleep(data, tree);
  };
  assert.ok(asleep([[0, 0, 100, 2, 0, 1], [1, 1, 98, 98, 0, 5]]));
  assert.ok(!asleep([[0, 0, 100, 2, 1, 1], [1, 1, 98, 98, 0, 5]]), 'it launches work');
  assert.ok(!asleep([[0, 0, 100, 40, 0, 1], [1, 1, 60, 60, 0, 5]]), 'it works half of the time');
  assert.ok(!asleep([[0, 0, 100, 10, 0, 1], [1, 2, 90, 90, 0, 5]]));
});

function threadModel(): Model {
  const writer = new PackWriter();
  const events = [[0, 100, 0, 0], [10, 60, 1, 1], [12, 50, 2, 2], [20, 30, 3, 3], [25, 5, 4, 4], [80, 10, 3, 1]];
  const column = (of: number) => writer.plain(events.map((event) => event[of]));
  const data = parsePack(writer.finish({
    span_ns: 100, categories: ['python', 'op', 'runtime'],
    strings: ['train.py(7): step', 'nn.Module: Linear_0', 'torch/nn/linear.py(1): forward', 'aten::addmm', 'cudaLaunchKernel'],
    tracks: [{ rank: 0, group: '', title: 'thread', kind: 'thread', first: 0, events: 6, start: writer.delta(events.map((e) => e[0])), duration: column(1),
      name: column(2), category: writer.plain([0, 0, 0, 1, 2, 1]), depth: column(3) }],
  }));
  assert.deepEqual(data.damage, []);
  const model = new Model(data);
  for (const track of model.event_tracks) track.prepare();
  return model;
}

test('a launch knows its operator, module and line of the program, not those of the framework', () => {
  const model = threadModel();
  const [track] = model.event_tracks;
  const origin = originOf({ track, at: 4 });
  const name = (place: { at: number } | undefined) => (place ? track.name(place.at) : '');
  assert.deepEqual([name(origin.op), name(origin.module), name(origin.source)], ['aten::addmm', 'nn.Module: Linear_0', 'train.py(7): step']);
});

test('what ran in a span adds up, cut at its ends and bottom-up', () => {
  const model = threadModel();
  const by_name = (self: boolean, from: number, to: number) =>
    Object.fromEntries(ranWithin(model.event_tracks, from, to, (place) => model.label(place), self).map(({ key, count, ns }) => [key, [count, ns]]));
  assert.deepEqual(by_name(false, 0, 100)['aten::addmm'], [2, 40]);
  assert.deepEqual(by_name(true, 0, 100), {
    'train.py(7): step': [1, 30], 'nn.Module: Linear_0': [1, 10], 'torch/nn/linear.py(1): forward': [1, 20], 'aten::addmm': [2, 35], 'cudaLaunchKernel': [1, 5],
  });
  const part = by_name(true, 22, 28);
  assert.equal(Object.values(part).reduce((sum, [, ns]) => sum + ns, 0), 6);
  assert.deepEqual(part['cudaLaunchKernel'], [1, 3]);
});

test('numbers exactly between two round to the even one, as in the program', () => {
  for (const [ns, said] of [[848_500, '848 µs'], [849_500, '850 µs'], [-848_500, '-848 µs'], [848_501, '849 µs'], [2_500_000_000, '2.50 s'], [12_250, '12.2 µs'], [12_350, '12.3 µs']] as const)
    assert.equal(duration(ns), said);
  for (const [pct, said] of [[0.25, '0.2 %'], [0.75, '0.8 %'], [12.5, '12.5 %'], [99.95, '100.0 %'], [6.35, '6.3 %']] as const) assert.equal(percent(pct), said);
  assert.equal(percent(12.5, 0), '12 %');
  assert.equal(percent(13.5, 0), '14 %');
  assert.equal(bytes(1.125 * 2 ** 20), '1.12 MiB');
});
