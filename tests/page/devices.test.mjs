// Several devices of one rank: the one that a finding names is shown; of thousands, some at once.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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

describe('two devices that run the same', () => {
  const file = () => {
    const events = [];
    for (let step = 0; step < 8; step++) {
      const start = 1000 + step * 10000;
      events.push({ ph: 'X', cat: 'user_annotation', name: `ProfilerStep#${step + 1}`, pid: 1, tid: 1, ts: start, dur: 9990 });
      for (let i = 0; i < 4; i++) {
        for (const device of [0, 1]) {
          const correlation = events.length + 1, ts = start + i * 2490;
          events.push({ ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts: ts + device, dur: 1, args: { correlation } });
          events.push({ ph: 'X', cat: 'kernel', name: `gemm_${i}`, pid: device, tid: 7, ts: ts + 5, dur: device === 0 ? 2480 : 2440, args: { device, stream: 7, correlation } });
        }
      }
    }
    return pageOfEvents('same', events);
  };

  it('are told apart in the list of the largest kernels, on paper and by step', async () => {
    await visited(file(), async (page) => {
      const largest = (await page.locator('table.largest').first().innerText()).split('\n').slice(0, 4);
      assert.deepEqual(largest.map((row) => /GPU (\d)/.exec(row)?.[1]), ['0', '0', '0', '0']);
      assert.match(await text(page, 'section:has(> table.largest) h2'), /each GPU’s kernels/);
      await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
      const printed = await page.locator('#paper section', { has: page.locator('h2', { hasText: /^Kernels$/ }) }).locator('tr').allTextContents();
      assert.match(printed[0], /^KernelGPUCategory/);
      assert.deepEqual(printed.slice(1).map((row) => row.slice(0, 7)).sort(), [0, 1, 2, 3].flatMap((i) => [`gemm_${i}0`, `gemm_${i}1`]));
      await page.evaluate(() => dispatchEvent(new Event('afterprint')));
    });
    await visited(file(), async (page) => {
      const heads = await page.locator('#view-steps th').allInnerTexts();
      for (const title of ['GPU 0 busy', 'GPU 0 idle', 'Busy, GPU 0']) assert.ok(heads.includes(title), heads.join());
    }, { view: 'steps' });
  });
});

const kernelNamed = (name, ts, dur, correlation) => [
  { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts, dur: 1, args: { correlation } },
  { ph: 'X', cat: 'kernel', name, pid: 0, tid: 7, ts: ts + 5, dur, args: { device: 0, stream: 7, correlation } },
];

describe('kernels of one short name', () => {
  const names = ['a', 'b'].map((last) => `void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_128x128_32x4_tn_align8_${last}>(Params)`);
  it('are told apart in what ran, on paper and in the timeline', async () => {
    const events = Array.from({ length: 20 }, (_, i) => kernelNamed(names[i % 2], 1000 + i * 100, 60 + (i % 2) * 20, i + 1)).flat();
    await visited(pageOfEvents('alike', events), async (page) => {
      await page.keyboard.press('m');
      const ran = await page.locator('.tl-ran th').allInnerTexts();
      assert.equal(ran.length, 2);
      assert.equal(new Set(ran).size, 2);
      await page.keyboard.press('4');
      assert.deepEqual((await page.locator('#view-kernels tr[data-row] td:first-child').allInnerTexts()).sort(), [...ran].sort());
      await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
      const printed = await page.locator('#paper section', { has: page.locator('h2', { hasText: /^Kernels$/ }) }).locator('tbody td:first-child').allTextContents();
      assert.equal(new Set(printed).size, 2);
    }, { view: 'timeline' });
  });
});

describe('a page that keeps some steps', () => {
  it('does not call the longest of these the longest', async () => {
    const events = [];
    for (let step = 1; step <= 10; step++) {
      const start = step * 10000;
      events.push({ ph: 'X', cat: 'user_annotation', name: `ProfilerStep#${step}`, pid: 1, tid: 1, ts: start, dur: 9900 });
      for (let i = 0; i < 4; i++) events.push(...kernelNamed('sgemm_a', start + 10 + i * 2400, step === 8 && i === 2 ? 2290 : 2000, step * 10 + i));
    }
    const label = async (file) => {
      let said;
      await visited(file, async (page) => {
        await page.locator('#view-kernels tr[data-row="0"]').click();
        said = await text(page, '#view-kernels .see');
      }, { view: 'kernels' });
      return said;
    };
    assert.equal(await label(pageOfEvents('some', events, '--html-steps', '6:7')), 'Find the longest in the kept steps');
    assert.equal(await label(pageOfEvents('every', events)), 'Find the longest in the timeline');
  });
});

describe('samples of two hosts', () => {
  it('stand under what their own rank ran', async () => {
    const folder = path('hosts');
    mkdirSync(folder);
    const samples = [];
    for (const rank of [0, 1]) {
      const trace = {
        schemaVersion: 1, baseTimeNanoseconds: 1700000000000000000, host_name: `node${rank}`, distributedInfo: { rank, world_size: 2 },
        deviceProperties: [{ id: 0, name: 'NVIDIA H100 80GB HBM3' }], traceEvents: kernels(1, 100, () => (rank === 0 ? 30 : 90)),
      };
      writeFileSync(join(folder, `rank${rank}.json`), JSON.stringify(trace));
      for (let i = 0; i < 10; i++)
        samples.push(`{"time_ns":${1700000000000000000n + BigInt(i) * 1000000n},"host":"node${rank}","device":0,"uuid":"GPU-${rank}","name":"NVIDIA H100 80GB HBM3","utilization_pct":${rank ? 90 : 20}}`);
    }
    const log = path('hosts.jsonl');
    writeFileSync(log, `${samples.join('\n')}\n`);
    await visited(analyzed('hosts', folder, '--samples', log), async (page) => {
      const heads = (await page.locator('#view-devices h2').allInnerTexts()).filter((heading) => heading.startsWith('GPU '));
      assert.equal(heads.length, 2);
      assert.notEqual(heads[0], heads[1]);
      assert.equal(await page.locator('#view-devices .plot[aria-label^="Share of time"]').count(), 2);
    }, { view: 'devices' });
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
