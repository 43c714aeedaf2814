import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { decodeBase64, parsePack, readPack } from '../src/pack';
import { decodeVarints } from '../src/varint';
import { PackWriter } from './pack_writer';
import { syntheticPack } from './synthetic_pack';

const values = [
  0,
  1,
  127,
  128,
  300,
  16_383,
  16_384,
  2 ** 21,
  2 ** 28 - 1,
  2 ** 28,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 35 + 17,
  Number.MAX_SAFE_INTEGER,
];

function packOf(header: Record<string, unknown>, columns: (writer: PackWriter) => void = () => {}): Uint8Array {
  const writer = new PackWriter();
  columns(writer);
  return writer.finish(header);
}

test('numbers of every length come back', () => {
  const data = parsePack(
    packOf({}, (w) => {
      w.plain(values);
      w.delta(values);
      w.zigzag(values.slice(0, -1).flatMap((v) => [v, -v]));
      w.plain([5, 6, 7]);
    }),
  );
  assert.deepEqual([...data.column(0)], values);
  assert.deepEqual([...data.column(1, 'delta')], values);
  assert.deepEqual(
    [...data.column(2, 'zigzag')],
    values.slice(0, -1).flatMap((v) => [v, v === 0 ? 0 : -v]),
  );
  assert.ok(data.column(3) instanceof Uint8Array);
  assert.equal(data.column(3), data.column(3));
  assert.deepEqual(data.damage, []);
});

test('a column that is cut gives what is whole', () => {
  const { values: got, whole } = decodeVarints(Uint8Array.of(1, 2, 0x80), 3, 'plain');
  assert.deepEqual([[...got], whole], [[1, 2], false]);
  assert.deepEqual(decodeVarints(Uint8Array.of(1), 1e15, 'plain').values.length, 1);
  assert.equal(decodeVarints(Uint8Array.of(1), 2, 'plain').whole, false);
});

test('a number that no double holds ends its column', () => {
  const endless = new Uint8Array(40).fill(0xff);
  assert.deepEqual(decodeVarints(endless, 40, 'plain'), { values: new Uint32Array(0), whole: false });
  const large = Uint8Array.of(7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f);
  assert.deepEqual([...decodeVarints(large, 2, 'delta').values], [7]);
});

test('base64 is decoded, with spaces, and up to what is none', () => {
  const bytes = Uint8Array.from({ length: 1000 }, (_, i) => (i * 37) & 255);
  for (let size = 0; size < 50; size++) {
    const text = Buffer.from(bytes.subarray(0, size)).toString('base64');
    assert.deepEqual([...decodeBase64(`\n ${text.replace(/(.{7})/g, '$1\n')} `)], [...bytes.subarray(0, size)]);
  }
  assert.equal(decodeBase64('AAAA<script>AAAA').length, 3);
});

test('a whole pack is read', async () => {
  const data = await readPack(gzipSync(syntheticPack({ events: 3000 })).toString('base64'));
  assert.deepEqual(data.damage, []);
  assert.equal(data.origin_ns, 1718000000000000123n);
  assert.ok(data.tracks.length > 10);
  for (const track of data.tracks) {
    if (track.kind === 'counter') continue;
    assert.equal(data.column(track.start, 'delta').length, track.events);
    assert.equal(data.column(track.name).length, track.events);
  }
});

test('a pack cut anywhere is read in part or refused with a sentence', async () => {
  const packed = gzipSync(syntheticPack({ events: 1500 }));
  let partial = 0;
  for (let size = 0; size < packed.length; size += 997) {
    try {
      const data = await readPack(packed.subarray(0, size).toString('base64'));
      for (const track of data.tracks) {
        data.column(track.kind === 'counter' ? track.time : track.start, 'delta');
        data.column(track.kind === 'counter' ? track.value : track.name);
      }
      assert.ok(data.damage.length > 0, `cut at ${size} and nothing said`);
      partial++;
    } catch (error) {
      assert.match((error as Error).message, /not a profgpu pack|ends within its header|is damaged/);
    }
  }
  assert.ok(partial > 3);
});

test('damaged bytes neither crash nor hang', () => {
  const pack = syntheticPack({ events: 600, ranks: 1, steps: 2 });
  let state = 9;
  for (let round = 0; round < 300; round++) {
    const bytes = pack.slice();
    for (let hit = 0; hit < 8; hit++) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      bytes[state % bytes.length] = state >>> 24;
    }
    try {
      const data = parsePack(bytes);
      for (const track of data.tracks) data.column(track.kind === 'counter' ? track.value : track.duration);
    } catch (error) {
      assert.match((error as Error).message, /this page|packs of version/);
    }
  }
});

test('a header of wrong types is made right or left out', () => {
  const data = parsePack(
    packOf({
      report: [],
      origin_ns: 5,
      span_ns: 'x',
      kept: [[9, 3], 'a', [1, 2]],
      strings: [1, null, 'a'],
      args: [null, { a: 1, b: {} }],
      tracks: [null, { kind: 'stream', start: 99 }, { kind: 'counter' }, { kind: 'dance', title: 'x' }],
      ranks: [{ gaps: [{ cause: 5 }], flame: [{ title: 'no columns' }] }],
      samples: [{}],
    }),
  );
  assert.deepEqual(data.report, {});
  assert.deepEqual(data.kept, [[1, 2]]);
  assert.deepEqual(data.strings, ['1', '', 'a']);
  assert.deepEqual(data.args, [{}, { a: '1', b: '' }]);
  assert.deepEqual([data.tracks.length, data.samples.length, data.ranks[0].flame.length], [0, 0, 0]);
  assert.equal(data.damage.length, 2);
  assert.throws(() => parsePack(new TextEncoder().encode('PGP1')), /ends within its header/);
  assert.throws(() => parsePack(packOf({ version: 2 })), /version 1/);
});
