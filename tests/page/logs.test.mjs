// Reports of what a job printed: the log's figures are on the page, and what a log cannot tell is not.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { analyzed, cells, closeBrowser, path, root, text, visited } from './pages.mjs';

const kLinks = `# nThread 1 nGpus 2 minBytes 8388608 maxBytes 16777216 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  1 on node device  0 [0x1b] NVIDIA H100
#  Rank  1 Group  0 Pid  1 on node device  1 [0x43] NVIDIA H100
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608       2097152     float     sum      -1    83.33  100.66  100.66      0    80.98  103.59  103.59      0
    16777216       4194304     float     sum      -1   127.50  131.58  131.58      0   126.90  132.20  132.20      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 117.0
`;

let training, links;
before(() => {
  training = analyzed('training', join(root, 'tests/golden/logs/train.log'));
  const log = path('nccl-tests.log');
  writeFileSync(log, kLinks);
  links = analyzed('links', log);
});
after(closeBrowser);

describe('the page of a log', () => {
  it('says how fast the job was and how it ended', () => visited(training, async (page) => {
    assert.match(await text(page, '.log'), /From the log[\s\S]*Step\s+551 ms[\s\S]*Loss\s+9 at first, 8\.88 at last[\s\S]*End\s+out of memory after step 130, line 18/);
    assert.doesNotMatch(await page.locator('.tabs a.absent').allInnerTexts().then((all) => all.join()), /Steps|Timeline/);
    assert.ok((await page.locator('.tabs a.absent').allInnerTexts()).includes('Roofline'), 'without a device there is no distance from its limit');
  }));

  it('has the figures of each line beside its step, and no columns of a device', () => visited(training, async (page) => {
    const titles = await page.locator('#view-steps table.data th').allInnerTexts();
    assert.ok(titles.includes('TFLOP/s'), titles.join());
    for (const title of titles) assert.doesNotMatch(title, /GPU|Busy/);
    for (const cell of await cells(page, 'steps', titles.indexOf('TFLOP/s') + 1)) assert.match(cell, /^\d/);
  }, { view: 'steps' }));

  it('shows where the run ended', () => visited(training, async (page) => {
    await page.locator('.finding[data-rule="run-failure"] .see').click();
    assert.match(await text(page, '.tl-panel'), /Shown: step 130[\s\S]*step 130/);
  }));

  it('has the links that a benchmark measured, and says why there is no timeline', () => visited(links, async (page) => {
    assert.match(await text(page, '.log'), /Measured links/);
    assert.equal(await page.locator('.log tbody tr').count(), 4);
    assert.match(await page.locator('.log tbody').innerText(), /8\.00 MiB\s+no\s+83\.3 µs\s+101 GB\/s/);
    assert.doesNotMatch(await text(page, '.verdict'), /\bns\b/);
    await page.evaluate(() => { location.hash = 'timeline'; });
    assert.match(await text(page, '#view-timeline'), /A log tells of no events/);
  }));
});
