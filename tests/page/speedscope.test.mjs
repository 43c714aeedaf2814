// The files of `profgpu export --to speedscope` in speedscope itself, from its npm package.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { closeBrowser, exported, kept, opened, path, root, simulated } from './pages.mjs';

const kPage = join(root, 'web/node_modules/speedscope/dist/release/index.html');

after(closeBrowser);

/** Opens a file as speedscope's own command does. */
async function inSpeedscope(file) {
  const script = path('speedscope.js');
  writeFileSync(script, `speedscope.loadFileFromBase64('export.speedscope.json', '${readFileSync(file).toString('base64')}')`);
  const { page, wrong, close } = await opened(kPage, { view: `localProfilePath=${script}`, ready: false });
  await page.waitForFunction(() => /^(?!speedscope).+ - speedscope$/.test(document.title), null, { timeout: 60000 });
  // What it says of its own drawing is nothing of ours.
  return { page, wrong: wrong.filter((text) => !/WebGL|GL Driver/.test(text)), close };
}

describe('speedscope', () => {
  it('shows a profile for each thread, with its ranges', async () => {
    const file = exported('one.speedscope.json', simulated('one.json', '--steps', '3', '--layers', '2'), '--to', 'speedscope');
    const { profiles, shared: { frames } } = JSON.parse(readFileSync(file, 'utf8'));
    const { page, wrong, close } = await inSpeedscope(file);
    assert.equal(await page.title(), `${profiles[0].name} - speedscope`);
    assert.match(await page.locator('body').innerText(), new RegExp(`1/${profiles.length}`));
    // The table of all frames, those with the longest time of their own first.
    await page.keyboard.press('3');
    const names = [...new Set(profiles[0].events.map((e) => frames[e.frame].name))];
    await page.waitForFunction((all) => all.filter((name) => document.body.innerText.includes(name)).length >= 5, names, { timeout: 60000 });
    await page.screenshot({ path: kept('page-shots', 'speedscope.png') });
    assert.deepEqual(wrong, []);
    await close();
  });

  it('takes names that are markup as names', async () => {
    const name = '<img src=x onerror=alert(1)>\u0000\u202e';
    const trace = path('hostile.json');
    writeFileSync(trace, JSON.stringify({ traceEvents: [
      { ph: 'X', cat: 'cpu_op', name, pid: 1, tid: 1, ts: 1, dur: 10, args: {} }, { ph: 'X', cat: 'cpu_op', name: 'aten::mm', pid: 1, tid: 1, ts: 2, dur: 3, args: {} },
    ] }));
    const { wrong, close } = await inSpeedscope(exported('hostile.speedscope.json', trace, '--to', 'speedscope'));
    assert.deepEqual(wrong, []);
    await close();
  });
});
