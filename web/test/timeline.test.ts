import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePack } from '../src/pack';
import { hitTest } from '../src/timeline/hit';
import { isHeading, Layout } from '../src/timeline/layout';
import { busyWithin, keptWithin, rowsThatCount } from '../src/timeline/measure';
import { Model, type TrackEvents } from '../src/timeline/model';
import { levelFor, Pyramid } from '../src/timeline/pyramid';
import { beside, launchedBy, launcherOf, stacked } from '../src/timeline/relations';
import { Search } from '../src/timeline/search';
import { gapsOf } from '../src/timeline/selection';
import { Strip, type Box, type Grid } from '../src/timeline/strip';
import { instants, kTimeSteps, preciseTime, ticks } from '../src/timeline/time_text';
import { Viewport } from '../src/timeline/viewport';
import { CounterLevels } from '../src/timeline/counter_levels';
import { PackWriter, type Json } from './pack_writer';
import { syntheticPack } from './synthetic_pack';

type Event = [start: number, duration: number, category: number, depth?: number, name?: number];

function random(seed: number): () => number {
  let state = seed;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

function modelOf(tracks: { kind?: string; events: Event[]; links?: number[] }[], more: Json = {}): Model {
  const writer = new PackWriter();
  let first = 0;
  const headers = tracks.map(({ kind, events, links }) => {
    const header = {
      rank: 0,
      group: 'GPU 0',
      title: 'track',
      kind: kind ?? 'stream',
      first,
      events: events.length,
      start: writer.delta(events.map((e) => e[0])),
      duration: writer.plain(events.map((e) => e[1])),
      category: writer.plain(events.map((e) => e[2])),
      name: writer.plain(events.map((e) => e[4] ?? e[2])),
      ...(events.some((e) => e[3]) ? { depth: writer.plain(events.map((e) => e[3] ?? 0)) } : {}),
      ...(links ? { link: writer.plain(links) } : {}),
    };
    first += events.length;
    return header;
  });
  const span_ns = tracks.flatMap(({ events }) => events).reduce((end, e) => Math.max(end, e[0] + e[1]), 1);
  const data = parsePack(
    writer.finish({
      span_ns,
      strings: ['gemm', 'add', 'copy', 'launch'],
      categories: ['gemm', 'elementwise', 'memcpy', 'runtime'],
      tracks: headers,
      ...more,
    }),
  );
  assert.deepEqual(data.damage, []);
  const model = new Model(data);
  for (const track of model.event_tracks) track.prepare();
  return model;
}

/** Events that follow each other, in bursts; some without length. */
function burstyEvents(count: number, seed: number): Event[] {
  const next = random(seed);
  const events: Event[] = [];
  let now = 0;
  for (let i = 0; i < count; i++) {
    now += next() < 0.02 ? Math.floor(next() * 50_000) : Math.floor(next() * 30);
    const duration = next() < 0.05 ? 0 : next() < 0.02 ? Math.floor(next() * 20_000) : Math.floor(next() * 300);
    events.push([now, duration, Math.floor(next() * 4)]);
    now += duration;
  }
  return events;
}

/** Time per category within [from, to), one event after the other. */
function slowSums(events: Event[], from: number, to: number): number[] {
  const sums = [0, 0, 0, 0];
  for (const [start, duration, category] of events)
    sums[category] += Math.max(0, Math.min(to, start + duration) - Math.max(from, start));
  return sums;
}

const everything: [number, number][] = [[-Infinity, Infinity]];

test('every level of a pyramid says what adding up the events says', () => {
  const events = burstyEvents(6000, 3);
  const row = modelOf([{ events }]).event_tracks[0].rows[0];
  const pyramid = new Pyramid(row, everything);
  while (!pyramid.done) pyramid.advance(700);
  const [segment] = pyramid.segments;
  assert.equal(segment.from, events[0][0]);
  assert.ok(segment.levels.length > 8);
  let compared = 0;
  for (const level of segment.levels) {
    for (let bin = 0; bin < level.busy.length; bin += Math.ceil(level.busy.length / 150)) {
      const sums = slowSums(events, segment.from + bin * level.bin_ns, segment.from + (bin + 1) * level.bin_ns);
      const total = sums.reduce((a, b) => a + b);
      const most = Math.max(...sums);
      assert.ok(
        Math.abs(level.busy[bin] - (255 * total) / level.bin_ns) <= 1.01,
        `level of ${level.bin_ns} ns, bin ${bin}`,
      );
      if (total > 0)
        assert.ok(
          most - sums[level.category[bin]] <= 1e-6 * level.bin_ns,
          `the winner of bin ${bin} has less than another`,
        );
      compared++;
    }
  }
  assert.ok(compared > 500);
  assert.equal(levelFor(segment, segment.levels[0].bin_ns / 2), undefined);
  assert.equal(levelFor(segment, Infinity), segment.levels.at(-1));
});

test('a pyramid has a segment for each window, as fine as its own events', () => {
  const dense = (from: number): Event[] => Array.from({ length: 1000 }, (_, i) => [from + i * 10, 5, 0]);
  const row = modelOf([{ events: [...dense(0), ...dense(1e9)] }]).event_tracks[0].rows[0];
  const pyramid = new Pyramid(row, [
    [0, 20_000],
    [1e9, 1e9 + 20_000],
  ]);
  pyramid.advance(1e9);
  assert.deepEqual(
    pyramid.segments.map((s) => [s.from, s.to]),
    [
      [0, 9995],
      [1e9, 1e9 + 9995],
    ],
  );
  assert.ok(pyramid.segments.every((s) => s.levels[0].bin_ns < 50));
});

function painted(events: Event[], grid: Grid, with_pyramid: boolean): { strip: Strip; boxes: Box[] } {
  const row = modelOf([{ events }]).event_tracks[0].rows[0];
  const pyramid = with_pyramid ? new Pyramid(row, everything) : undefined;
  pyramid?.advance(Infinity);
  const strip = new Strip(grid.width);
  const boxes: Box[] = [];
  strip.events(row, grid, pyramid, 20, boxes);
  return { strip, boxes };
}

test('pixels show the share that is busy, from events and from levels', () => {
  const events = burstyEvents(6000, 5);
  const end = events[events.length - 1][0];
  const together = 8;
  for (const [start, ns_per_px] of [
    [0, end / 400],
    [end / 3, end / 4000],
    [end / 3, 400],
    [-500, 2.5],
  ]) {
    for (const with_pyramid of [false, true]) {
      const grid = { start, ns_per_px, width: 400 };
      const { strip } = painted(events, grid, with_pyramid);
      let wrong = 0;
      // Levels' bins do not end where pixels do, so some pixels are taken together; and short events are shown wider
      // than they are.
      for (let px = 0; px < grid.width; px += together) {
        const from = start + px * ns_per_px;
        const share =
          (255 * slowSums(events, from, from + together * ns_per_px).reduce((a, b) => a + b)) / ns_per_px / together;
        const shown = strip.share.slice(px, px + together);
        const mean = shown.reduce((a, b) => a + (b > 40 ? b : 0), 0) / together;
        const raised = (shown.filter((b) => b > 0 && b <= 40).length * 40) / together;
        if (share > mean + raised + 26 || share < mean - 26) wrong++;
        if (share > 60) assert.ok(shown.some((b) => b > 0));
      }
      assert.ok(
        wrong <= 2,
        `${wrong} of ${grid.width / together} stretches are wrong at ${ns_per_px} ns a pixel, ${with_pyramid ? 'with' : 'without'} levels`,
      );
    }
  }
});

test('boxes are exact when zoomed in, and short events still show', () => {
  const events: Event[] = [
    [100, 50, 1],
    [150, 40, 2],
    [400, 0, 3],
  ];
  const { strip, boxes } = painted(events, { start: 0, ns_per_px: 1, width: 500 }, false);
  assert.deepEqual(boxes, [
    { at: 0, from: 100, to: 150 },
    { at: 1, from: 150, to: 190 },
  ]);
  assert.deepEqual(
    [strip.share[99], strip.share[100], strip.category[149], strip.category[150], strip.share[190]],
    [0, 255, 1, 2, 0],
  );
  assert.deepEqual([strip.edge[100], strip.edge[150], strip.edge[151]], [1, 1, 0]);
  assert.ok(strip.share[400] > 0);
});

test('a million events in one pixel cost a few looks', () => {
  const events: Event[] = Array.from({ length: 200_000 }, (_, i) => [i * 10, 8, i % 2]);
  const row = modelOf([{ events }]).event_tracks[0].rows[0];
  let looks = 0;
  const duration = new Proxy(row.track.duration, {
    get: (of, key) => {
      if (typeof key === 'string' && /^\d/.test(key)) looks++;
      return Reflect.get(of, key, of);
    },
  });
  Object.assign(row.track, { duration });
  new Strip(10).events(row, { start: 0, ns_per_px: 200_000, width: 10 }, undefined, 20, []);
  assert.ok(looks > 0 && looks < 3000, `${looks} events were looked at`);
});

test('overlapping events of a stream get lanes of their own, rounding does not', () => {
  const track = modelOf([
    {
      events: [
        [0, 1000, 0],
        [999, 1000, 1],
        [1300, 2000, 2],
      ],
    },
  ]).event_tracks[0];
  assert.equal(track.row_count, 2);
  assert.deepEqual(
    track.rows.map((row) => [...row.ids]),
    [[0, 1], [2]],
  );
  assert.deepEqual(
    [0, 1, 2].map((at) => track.depthOf(at)),
    [0, 0, 1],
  );
});

test('a point of the plot finds its event, a near one, a crowd or nothing', () => {
  const model = modelOf([
    {
      events: [
        [1000, 500, 0],
        [1500, 1, 1],
        [5000, 2, 2],
        ...Array.from({ length: 50 }, (_, i): Event => [8000 + i, 1, i % 2]),
      ],
    },
  ]);
  const layout = new Layout(model);
  const viewport = new Viewport(10_000);
  viewport.set(0, 10_000);
  viewport.width = 1000;
  const y = layout.lines.find((line) => !isHeading(line))!.y + 5;
  const hit = (time: number) => hitTest(layout, viewport, viewport.x(time), y);
  assert.equal(hit(1200)?.event?.at, 0);
  assert.equal(hit(5015)?.event?.at, 2);
  assert.equal(hit(4985)?.event?.at, 2);
  assert.equal(hit(5500)?.event, undefined);
  const crowd = hit(8020)?.crowd;
  assert.ok(crowd && crowd.count >= 9 && crowd.busy && crowd.busy.busy_ns > 8);
  assert.equal(hitTest(layout, viewport, 10, 1e6), undefined);
  assert.ok(isHeading(hitTest(layout, viewport, 10, 2)!.spot.line));
});

test('what lies between two heights is found among very many tracks', () => {
  const layout = new Layout(modelOf(Array.from({ length: 3000 }, (_, i) => ({ events: [[i, 1, 0]] as Event[] }))));
  for (const [top, bottom] of [[0, 500], [10_007, 10_601], [layout.height - 40, layout.height + 100], [-100, 1], [1e9, 2e9]] as const) {
    const slow = layout.lines.filter((line) => line.y + line.height > top && line.y < bottom);
    assert.deepEqual(layout.within(top, bottom), slow);
  }
  for (const view of layout.tracks) assert.equal(layout.viewOf(view.model), view);
});

test('where events are not kept, a point knows the density', () => {
  const writer = new PackWriter();
  const track = {
    rank: 0,
    group: '',
    title: '',
    kind: 'stream',
    first: 0,
    events: 1,
    start: writer.delta([50]),
    duration: writer.plain([10]),
    name: writer.plain([0]),
    category: writer.plain([0]),
    density: {
      bin_ns: 10,
      category: writer.plain([0, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
      busy: writer.plain([0, 51, 255, 0, 0, 9, 0, 0, 0, 0]),
    },
  };
  const model = new Model(
    parsePack(
      writer.finish({ span_ns: 100, kept: [[40, 100]], strings: ['a'], categories: ['gemm', 'copy'], tracks: [track] }),
    ),
  );
  model.event_tracks[0].prepare();
  const layout = new Layout(model);
  const viewport = new Viewport(100);
  viewport.set(0, 100);
  viewport.width = 1000;
  const at = (time: number) => hitTest(layout, viewport, viewport.x(time), 5);
  assert.deepEqual(at(15)?.density, { category: 1, busy: 0.2 });
  assert.equal(at(45)?.density, undefined);
  assert.equal(at(55)?.event?.at, 0);
});

test('busy time is a union, of all and of each category', () => {
  const model = modelOf([
    {
      events: [
        [0, 100, 0],
        [200, 100, 1],
      ],
    },
    {
      events: [
        [50, 100, 0],
        [90, 5, 1],
        [250, 500, 2],
      ],
    },
  ]);
  const busy = busyWithin(model.event_tracks.flatMap(rowsThatCount), 20, 400);
  assert.equal(busy.busy_ns, 130 + 200);
  assert.deepEqual([...busy.by_category].sort(), [
    [0, 130],
    [1, 105],
    [2, 150],
  ]);
  assert.equal(busy.events, 5);
  assert.equal(
    keptWithin(
      [
        [0, 10],
        [20, 30],
      ],
      5,
      25,
    ),
    10,
  );
});

test('busy time agrees with a slow count of nanoseconds', () => {
  const next = random(8);
  for (let round = 0; round < 20; round++) {
    const tracks = Array.from({ length: 3 }, () => ({
      events: Array.from({ length: 20 }, (_, i): Event => [
        i * 20 + Math.floor(next() * 15),
        Math.floor(next() * 60),
        Math.floor(next() * 3),
      ]),
    }));
    const model = modelOf(tracks);
    const busy = busyWithin(model.event_tracks.flatMap(rowsThatCount), 100, 300);
    const all = tracks.flatMap(({ events }) => events);
    const covered = (category?: number) =>
      Array.from({ length: 200 }, (_, i) => 100 + i).filter((ns) =>
        all.some(([start, duration, of]) => start <= ns && ns < start + duration && (category ?? of) === of),
      ).length;
    assert.equal(busy.busy_ns, covered());
    for (const [category, ns] of busy.by_category) assert.equal(ns, covered(category));
  }
});

async function searched(model: Model, text: string, exact = false): Promise<Search> {
  const search = new Search(model, () => {});
  search.run({ text, exact });
  while (!search.state.finished) await new Promise((next) => setTimeout(next, 1));
  return search;
}

test('search counts, finds in order of time and wraps around', async () => {
  const model = modelOf([
    {
      events: [
        [0, 10, 0],
        [30, 10, 1],
        [60, 10, 0],
      ],
    },
    {
      events: [
        [5, 10, 1],
        [45, 10, 0],
        [60, 7, 0],
      ],
    },
  ]);
  const search = await searched(model, 'GEM');
  assert.deepEqual([search.state.count, search.state.total_ns], [4, 37]);
  const order: number[] = [];
  let place = search.next(0, false);
  for (let i = 0; i < 6 && place; i++) {
    order.push(model.number(place));
    assert.equal(search.position(place), i % 4);
    place = search.next(place.track.start[place.at], false, place);
  }
  assert.deepEqual(order, [0, 4, 2, 5, 0, 4]);
  const last = search.next(50, true);
  assert.equal(last && model.number(last), 4);
  assert.equal(model.number(search.next(0, true)!), 5);
});

test('search by arguments, by exact name, for nothing', async () => {
  const writer = new PackWriter();
  const track = {
    rank: 0,
    group: '',
    title: '',
    kind: 'thread',
    first: 0,
    events: 3,
    start: writer.delta([0, 10, 20]),
    duration: writer.plain([1, 1, 1]),
    name: writer.plain([0, 1, 0]),
    category: writer.plain([0, 0, 0]),
    args: writer.plain([0, 1, 2]),
  };
  const model = new Model(
    parsePack(
      writer.finish({
        span_ns: 100,
        strings: ['add', 'add_'],
        categories: ['op'],
        tracks: [track],
        args: [{}, { shape: '[2048, 8]' }, { shape: '[4]' }],
      }),
    ),
  );
  assert.equal((await searched(model, '2048')).state.count, 1);
  assert.equal((await searched(model, 'add')).state.count, 3);
  assert.equal((await searched(model, 'add', true)).state.count, 2);
  assert.equal((await searched(model, 'nothing such')).state.count, 0);
  assert.equal((await searched(model, '  ')).active, false);
});

test('a call knows what it and all below it launched, and a kernel its call', () => {
  const model = modelOf([
    {
      kind: 'thread',
      events: [
        [0, 100, 3],
        [10, 20, 3, 1],
        [12, 5, 3, 2],
        [40, 20, 3, 1],
        [200, 10, 3],
      ],
    },
    {
      kind: 'stream',
      events: [
        [50, 10, 0],
        [60, 20, 0],
        [300, 5, 0],
      ],
      links: [3, 4, 5],
    },
  ]);
  const [thread, stream] = model.event_tracks;
  assert.equal(launcherOf(model, { track: stream, at: 1 })?.at, 3);
  assert.equal(launcherOf(model, { track: thread, at: 1 }), undefined);
  const launched = (at: number) => {
    const { count, total_ns } = launchedBy(model, { track: thread, at });
    return [count, total_ns];
  };
  assert.deepEqual(
    [launched(0), launched(1), launched(3), launched(4)],
    [
      [2, 30],
      [1, 10],
      [1, 20],
      [1, 5],
    ],
  );
  assert.deepEqual(stacked({ track: thread, at: 1 }, true)?.at, 2);
  assert.deepEqual(stacked({ track: thread, at: 3 }, false)?.at, 0);
  assert.equal(stacked({ track: thread, at: 4 }, true), undefined);
  assert.equal(beside({ track: thread, at: 1 }, true)?.at, 3);
  assert.equal(beside({ track: thread, at: 0 }, false), undefined);
});

test('links and numbers that lead nowhere are taken as none', () => {
  const model = modelOf([{ events: [[0, 1, 0]], links: [999] }]);
  assert.equal(launcherOf(model, { track: model.event_tracks[0], at: 0 }), undefined);
  assert.equal(model.place(-1), undefined);
  assert.equal(model.place(1), undefined);
});

test('gaps come longest first over all ranks', () => {
  const model = modelOf([{ events: [[0, 1, 0]] }], {
    ranks: [
      { rank: 0, gaps: [{ device: 0, start: 5, duration: 10, cause: 'host_bound' }] },
      { rank: 1, gaps: [{ device: 0, start: 1, duration: 30, cause: 'data_loading' }] },
    ],
  });
  assert.deepEqual(
    gapsOf(model).map(({ rank, gap }) => [rank, gap.duration]),
    [
      [1, 30],
      [0, 10],
    ],
  );
});

test('marks of plots are read in the unit of their distance', () => {
  assert.deepEqual(instants([0, 1e8, 2e8]), ['0 ms', '100 ms', '200 ms']);
  assert.deepEqual(instants([0, 5e8, 1e9]), ['0.0 s', '0.5 s', '1.0 s']);
  assert.deepEqual(instants([50_000e9, 50_010e9]), ['50,000 s', '50,010 s']);
  assert.deepEqual(instants([0, 7200e9, 14400e9]), ['0 h', '2 h', '4 h']);
  assert.deepEqual(instants([0, 600e9]), ['0 min', '10 min']);
  assert.ok(kTimeSteps.every((step, i) => i === 0 || step > kTimeSteps[i - 1]!));
});

test('the view keeps the time under the pointer and something of the run', () => {
  const viewport = new Viewport(1e9);
  viewport.width = 1000;
  viewport.set(1e8, 2e8);
  const time = viewport.time(300);
  viewport.zoom(0.01, 300);
  assert.ok(Math.abs(viewport.time(300) - time) < 1);
  for (let i = 0; i < 100; i++) viewport.zoom(0.1, 300);
  assert.ok(viewport.span >= 19.9);
  viewport.pan(1e12);
  assert.ok(viewport.start < 1.03e9 && viewport.end > 1e9 - 1);
  viewport.set(NaN, 5);
  assert.ok(Number.isFinite(viewport.start));
  viewport.zoom(1e9, 10);
  assert.ok(viewport.start <= 0 && viewport.end >= 1e9);
});

test('marks of the axis are apart, in steps a person counts in, with units that fit', () => {
  const labels = (start: number, end: number) => {
    const { marks, base } = ticks(start, end, 1000);
    return [base, ...marks.slice(0, 3).map((m) => m.label)];
  };
  assert.deepEqual(labels(0, 1e9), ['', '0.0 s', '0.1 s', '0.2 s']);
  assert.deepEqual(labels(0, 4e6), ['', '0.0 ms', '0.5 ms', '1.0 ms']);
  assert.deepEqual(labels(5e9, 5e9 + 4000), ['5 s', '+0.0 µs', '+0.5 µs', '+1.0 µs']);
  assert.deepEqual(labels(12_345_678_900, 12_345_679_000), ['12.345 678 900 s', '+0 ns', '+10 ns', '+20 ns']);
  for (const [start, end] of [
    [0, 1],
    [0, 3.6e12],
    [-50, 50],
    [1e15, 1e15 + 20],
  ]) {
    const { marks, step } = ticks(start, end, 1000);
    assert.ok(marks.length <= 12 && marks.length >= 1, `${marks.length} marks`);
    assert.ok((step * 1000) / (end - start) >= 89);
  }
  assert.equal(preciseTime(1_234_567_890), '1.234 567 890 s');
  assert.equal(preciseTime(-5e8), '−0.500 s');
});

test('the least and most of a counter agree with looking at every value', () => {
  const next = random(4);
  const time = Float64Array.from({ length: 1000 }, (_, i) => i * 10);
  const value = Float64Array.from(time, () => Math.floor(next() * 1000) - 300);
  const levels = new CounterLevels(time, value);
  for (const [from, to] of [
    [0, 1000],
    [3, 5],
    [60, 70],
    [1, 999],
    [64, 128],
    [500, 500],
  ]) {
    const some = value.subarray(from, to);
    assert.deepEqual(levels.range(from, to), [Math.min(...some), Math.max(...some)]);
  }
  assert.deepEqual([levels.least, levels.most], [Math.min(0, ...value), Math.max(...value)]);
  assert.equal(levels.before(25, 0), 3);
  assert.deepEqual([levels.constant, new CounterLevels(time, value.slice().fill(7)).constant], [false, true]);
});

test('every link and number of a made-up run is consistent', () => {
  const model = new Model(parsePack(syntheticPack({ events: 5000 })));
  let linked = 0;
  for (const track of model.event_tracks as TrackEvents[]) {
    track.prepare();
    assert.equal(
      track.rows.reduce((sum, row) => sum + row.ids.length, 0),
      track.count,
    );
    for (const row of track.rows) {
      for (let k = 1; k < row.ids.length; k++)
        assert.ok(track.end(row.ids[k]) >= track.end(row.ids[k - 1]), `${track.header.title}: ends go back`);
    }
    for (let at = 0; at < track.links.length; at++) {
      const call = launcherOf(model, { track, at });
      if (!call) continue;
      linked++;
      assert.equal(call.track.name(call.at), 'cudaLaunchKernel');
      assert.ok(call.track.start[call.at] <= track.start[at]);
    }
  }
  assert.ok(linked > 500);
});
