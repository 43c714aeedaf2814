// A page that is cut, damaged or kept from running still says what it can, and what it cannot.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { analyzed, closeBrowser, opened, path, simulated } from './pages.mjs';

let whole;
before(() => {
  whole = readFileSync(analyzed('whole', simulated('whole.json', '--steps', '3', '--fault', 'data-loading-bound')), 'utf8');
});
after(closeBrowser);

const kData = /(id="data">)([^<]*)(<)/;

function written(name, text) {
  const file = path(`${name}.html`);
  writeFileSync(file, text);
  return file;
}
function withData(name, change) {
  return written(name, whole.replace(kData, (_all, before, data, after) => before + change(data) + after));
}
function withPack(name, change) {
  return withData(name, (data) => gzipSync(change(gunzipSync(Buffer.from(data, 'base64')))).toString('base64'));
}

async function failing(file, said) {
  const { page, wrong, close } = await opened(file, { ready: false });
  await page.waitForSelector('#failure:not([hidden])', { timeout: 60000 });
  assert.match(await page.locator('#failure').innerText(), said);
  assert.ok(await page.locator('#static').isVisible());
  assert.match(await page.locator('#static').innerText(), /The GPU waits for data[\s\S]*data-loading-bound/);
  assert.deepEqual(wrong, []);
  await close();
}

describe('without script', () => {
  it('is the whole report as text', async () => {
    const { page, wrong, close } = await opened(written('plain', whole), { script: false });
    const text = await page.locator('#static').innerText();
    for (const part of ['The GPU waits for data', 'data-loading-bound', 'num_workers', 'Checklist', 'kernels']) assert.ok(text.toLowerCase().includes(part.toLowerCase()), part);
    assert.ok(!(await page.locator('#page').isVisible()));
    assert.deepEqual(wrong, []);
    await close();
  });
});

describe('damage', () => {
  it('no data at all', () => failing(withData('empty', () => ''), /holds no data/));
  it('data that are no base64', () => failing(withData('text', () => 'ä€!!'), /cannot be shown/));
  it('data that are no gzip', () => failing(withData('zeros', () => 'AAAA'.repeat(100)), /cannot be shown/));
  it('a pack of another kind', () => failing(withPack('magic', (pack) => Buffer.concat([Buffer.from('ELF!'), pack.subarray(4)])), /not a profgpu pack/));
  it('a header that ends early', () => failing(withPack('short', (pack) => pack.subarray(0, 200)), /ends within its header/));
  it('a header that is no JSON', () => failing(withPack('json', (pack) => {
    pack.fill('x', 8, 20);
    return pack;
  }), /header/));

  it('a file cut in its data shows the report, or says that it cannot', async () => {
    for (const share of [0.3, 0.6, 0.9, 0.999]) {
      const file = withData(`cut-${share}`, (data) => data.slice(0, Math.floor(data.length * share)));
      const { page, wrong, close } = await opened(file, { ready: false });
      await page.waitForSelector('html.ready, #failure:not([hidden])', { timeout: 60000 });
      const views = await page.locator('html.ready').count();
      if (views > 0) {
        assert.match(await page.locator('.verdict .sentence').innerText(), /The GPU waits for data/);
        await page.keyboard.press('2');
        await page.keyboard.press('i');
        assert.match(await page.locator('#view-inputs .issues').innerText(), /damaged|cut/);
      } else {
        assert.ok(await page.locator('#static').isVisible());
      }
      assert.deepEqual(wrong, []);
      await close();
    }
  });

  it('bytes of the columns that were changed break no view', async () => {
    const file = withPack('noise', (pack) => {
      const header = 8 + pack.readUInt32LE(4);
      for (let at = header; at < pack.length; at += 97) pack[at] ^= 0xff;
      return pack;
    });
    const { page, wrong, close } = await opened(file);
    for (const key of '1234567890i') await page.keyboard.press(key);
    assert.deepEqual(wrong, []);
    await close();
  });

  it('a report without its usual parts breaks no view', async () => {
    const file = withPack('bare', (pack) => {
      const end = 8 + pack.readUInt32LE(4);
      const header = JSON.parse(pack.subarray(8, end).toString());
      header.report = { schema: header.report.schema, ranks: [{ rank: 0 }] };
      header.ranks = [];
      header.tracks = [];
      const json = Buffer.from(JSON.stringify(header));
      const size = Buffer.alloc(4);
      size.writeUInt32LE(json.length);
      return Buffer.concat([pack.subarray(0, 4), size, json, pack.subarray(end)]);
    });
    const { page, wrong, close } = await opened(file);
    for (const key of '1234567890i') await page.keyboard.press(key);
    assert.deepEqual(wrong, []);
    assert.ok((await page.locator('.tabs a.absent').count()) >= 7);
    await close();
  });
});
