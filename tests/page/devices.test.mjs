// Several devices of one rank: the one that a finding names is shown; of thousands, some at once.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { after, describe, it } from 'node:test';
import { analyzed, closeBrowser, pageOfEvents, path, text, visited } from './pages.mjs';

after(closeBrowser);

/** Kernels on devices in turn; of device d, `busy(d)` of every 100 us. */
function kernels(devices, rounds, busy) {
  const events = [];
  for (let device = 0; device < devices; device++) {
    for (let round = 0; round < rounds; round++) {
      const correlation = device * rounds + round + 1;
      const ts = 10 + round * 100;
      events.push({ ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts: ts - 5, dur: 2, args: { correlation } });
      events.push({ ph: 'X', cat: 'kernel', name: 'work', pid: device, tid: 7, ts, dur: busy(device), args: { device, stream: 7, correlation } });
    }
  }
  return events;
}

describe('two devices', () => {
  it('the typical step has the busiest, and the one that the first finding names', async () => {
    const file = pageOfEvents('two', kernels(2, 20, (device) => (device === 0 ? 60 : 20)));
    await visited(file, async (page) => {
      const lanes = (await text(page, '.lanes')).split('\n');
      assert.ok(lanes.includes('GPU 0') && lanes.includes('GPU 1'), lanes.join());
      const headings = await page.locator('.sums h2').allInnerTexts();
      assert.ok(['GPU 0', 'GPU 1'].every((name) => headings.some((heading) => heading.startsWith(name))), headings.join());
      assert.equal(await page.locator('.more-devices').count(), 0);
    });
  });
});

describe('thousands of devices', () => {
  it('the overview has a few, says of how many, and is no wider than the window', async () => {
    const file = pageOfEvents('many', kernels(2000, 4, (device) => 20 + (device % 60)));
    await visited(file, async (page) => {
      assert.match(await text(page, '.sums .more-devices'), /^8 of 2,000 GPUs: .*profgpu analyze --section use/);
      assert.equal((await page.locator('.sums h2').allInnerTexts()).filter((heading) => heading.startsWith('GPU ')).length, 8);
      const [wide, window_width, elements] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth, document.querySelectorAll('*').length]);
      assert.ok(wide <= window_width, `${wide} px`);
      assert.ok(elements < 5000, `${elements} elements`);
    });
    await visited(file, async (page) => {
      assert.equal(await page.locator('#view-inputs table.static tbody tr').count(), 500);
      assert.ok((await text(page, '#view-inputs')).includes('… and 1,500 more'));
    }, { view: 'inputs' });
  });

  it('plots of samples come a dozen at a time', async () => {
    const samples = path('many.jsonl');
    const lines = [];
    for (let s = 0; s < 4; s++) {
      for (let device = 0; device < 30; device++) lines.push(`{"time_ns":${1700000000 + s}000000000,"device":${device},"utilization_pct":${40 + device}}`);
    }
    writeFileSync(samples, `${lines.join('\n')}\n`);
    await visited(analyzed('samples', samples), async (page) => {
      const plotted = async () => (await page.locator('#view-devices h2').allInnerTexts()).filter((heading) => heading.startsWith('GPU ')).length;
      const more = page.locator('#view-devices button.more-devices');
      assert.equal(await plotted(), 12);
      assert.equal(await more.innerText(), 'Plot 12 more of 30 GPUs');
      await more.click();
      assert.equal(await more.innerText(), 'Plot 6 more of 30 GPUs');
      await more.click();
      assert.equal(await plotted(), 30);
      assert.ok(!(await more.isVisible()));
      assert.match(await text(page, '#view-devices'), /The first 24 of 30 GPUs/);
    }, { view: 'devices' });
  });
});
