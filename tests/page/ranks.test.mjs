// Jobs of several ranks: the page speaks of ranks whose events it holds, follows the one that is shown, and says where it holds none.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { analyzed, cells, closeBrowser, documentOf, path, text, visited } from './pages.mjs';

after(closeBrowser);

const kLate = 9;

/** Steps of four kernels; on one rank each is followed by a copy from pageable memory. */
function eventsOf(rank, steps) {
  const events = [];
  let ts = 1000 + rank;
  let correlation = 0;
  const launch = (name, cat, device_name, dur, args = {}) => {
    correlation++;
    events.push({ ph: 'X', cat: 'cuda_runtime', name, pid: 100, tid: 100, ts, dur: cat === 'kernel' ? 2 : dur + 100, args: { correlation } });
    events.push({ ph: 'X', cat, name: device_name, pid: 0, tid: 7, ts: ts + 20, dur, args: { device: 0, stream: 7, correlation, ...args } });
    ts += dur + 120;
  };
  for (let step = 1; step <= steps; step++) {
    const start = ts;
    for (let i = 0; i < 4; i++) {
      launch('cudaLaunchKernel', 'kernel', i < 3 ? `gemm_${i}` : 'softmax', 4000);
      if (rank === kLate) launch('cudaMemcpyAsync', 'gpu_memcpy', 'Memcpy HtoD (Pageable -> Device)', 4800, { bytes: 50_000_000 });
      else ts += 4920;
    }
    events.push({ ph: 'X', cat: 'user_annotation', name: `ProfilerStep#${step}`, pid: 100, tid: 100, ts: start - 5, dur: ts - start });
  }
  return events;
}

function job(name, ranks, steps = 6) {
  const folder = path(name);
  mkdirSync(folder);
  for (let rank = 0; rank < ranks; rank++) {
    const trace = { schemaVersion: 1, distributedInfo: { rank, world_size: ranks }, deviceProperties: [{ id: 0, name: 'NVIDIA H100 80GB HBM3' }], traceEvents: eventsOf(rank, steps) };
    writeFileSync(join(folder, `rank${rank}.json`), JSON.stringify(trace));
  }
  return folder;
}

let twelve, few, three;
before(() => {
  const folder = job('twelve', 12);
  const seen = documentOf(folder).findings.map((finding) => finding.seen.rank);
  assert.ok(seen.includes(kLate), `no finding of rank ${kLate}: ${seen}`);
  twelve = analyzed('twelve', folder);
  few = analyzed('few', folder, '--html-ranks', '0,1');
  three = analyzed('three', job('three', 3));
});

const item = (page) => page.locator('.finding', { hasText: /pageable/i }).first();
const panel = (page) => page.locator('.tl-panel').innerText();

describe('a job of twelve ranks', () => {
  it('has the events of the rank that a finding names, and shows them', () => visited(twelve, async (page) => {
    await item(page).locator('.see').click();
    assert.match(await panel(page), /Memcpy HtoD/);
    const [from, to] = /[?&]t=(-?\d+)_(\d+)/.exec(await page.waitForFunction(() => /[?&]t=/.test(location.hash) && location.hash).then((h) => h.jsonValue())).slice(1).map(Number);
    assert.ok(to - from > 1e6, `${to - from} ns are in view`);
  }));

  it('opens with a rank of which it has a typical step', () => visited(twelve, async (page) => {
    assert.match(await text(page, '.typical h2'), new RegExp(`rank ${await page.locator('#rank option:checked').innerText().then((t) => t.replace(/\D/g, ''))}`));
  }));
});

describe('a rank whose events were left out', () => {
  const kOption = new RegExp(`no events of rank ${kLate}\\. --html-ranks ${kLate} puts them`);

  it('has no evidence to show, and says how to get it', () => visited(few, async (page) => {
    assert.equal(await item(page).locator('.see').count(), 0);
    assert.match(await item(page).innerText(), kOption);
    await page.locator('#rank').selectOption(String(kLate));
    assert.equal(await page.locator('.typical').count(), 0);
    assert.match(await text(page, '#view-overview'), kOption);
  }));

  it('leads from no step into the timeline', () => visited(few, async (page) => {
    assert.match(await text(page, '#view-steps h2'), kOption);
    assert.equal((await cells(page, 'steps', 1)).length, 6);
    assert.equal(await page.locator('#view-steps button.cell').count(), 0);
    await page.locator('#view-steps canvas').click({ position: { x: 120, y: 200 } });
    assert.ok(await page.locator('#view-steps').isVisible());
  }, { view: `steps?rank=${kLate}` }));

  it('has kernels whose calls are not looked for', () => visited(few, async (page) => {
    await page.locator('#view-kernels tr[data-row="0"]').click();
    assert.match(await text(page, '#view-kernels aside'), kOption);
    assert.doesNotMatch(await text(page, '#view-kernels aside'), /--html-steps/);
    assert.equal(await page.locator('#view-kernels .see').count(), 0);
  }, { view: `kernels?rank=${kLate}` }));

  it('has no steps to go to by keys', () => visited(few, async (page) => {
    await page.keyboard.press(']');
    assert.equal(await text(page, '.tl-status'), `No steps of rank ${kLate} are known`);
  }, { view: `timeline?rank=${kLate}` }));
});

describe('the rank that is shown', () => {
  it('is the one whose steps and devices keys of the timeline are about', () => visited(three, async (page) => {
    const open = () => page.locator('.tl-level0 button[aria-expanded="true"]').allInnerTexts();
    await page.locator('#rank').selectOption({ label: 'rank 2' });
    assert.ok((await open()).includes('rank 2'));
    await page.keyboard.press(']');
    assert.match(await panel(page), /ProfilerStep#1[\s\S]*rank 2/);
    await page.keyboard.press('Escape');
    await page.keyboard.press('Home');
    await page.keyboard.press('m');
    assert.match(await panel(page), /Span of[\s\S]*Rank\s+2/);
    await page.waitForFunction(() => /[?&]span=2_/.test(location.hash) && /[?&]rank=2/.test(location.hash));
    await page.reload();
    await page.waitForSelector('html.ready');
    assert.equal(await page.locator('#rank option:checked').innerText(), 'rank 2');
    assert.deepEqual(await open(), ['rank 2']);
  }, { view: 'timeline' }));

  it('takes search, category and row along', () => visited(three, async (page) => {
    await page.locator('#view-kernels input').fill('gemm_2');
    await page.locator('#view-kernels select').selectOption('gemm');
    await page.locator('#view-kernels tr[data-row="0"]').click();
    await page.waitForFunction(() => /row=\d/.test(location.hash));
    for (const rank of ['rank 1', 'rank 2']) {
      await page.locator('#rank').selectOption({ label: rank });
      assert.equal(await page.locator('#view-kernels input').inputValue(), 'gemm_2');
      assert.equal(await page.locator('#view-kernels select').inputValue(), 'gemm');
      assert.deepEqual(await cells(page, 'kernels', 1), ['gemm_2']);
      assert.match(await text(page, '#view-kernels aside h3'), /gemm_2/);
    }
    await page.locator('#tab-overview').click();
    await page.locator('#rank').selectOption({ label: 'rank 1' });
    await page.locator('#tab-kernels').click();
    assert.equal(await page.locator('#view-kernels input').inputValue(), 'gemm_2');
  }, { view: 'kernels' }));
});
