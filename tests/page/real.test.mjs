// Pages of real traces in every view, at the widths of a phone, a tablet and a screen, in both themes: nothing is wrong,
// nothing needs sideways scrolling, and axe finds nothing.
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { analyzed, axeSource, closeBrowser, realFiles, realTraces, settled, violations, visited } from './pages.mjs';

after(closeBrowser);

const kNames = /^(a100-2rank-nccl-metadata|a100-alexnet|a100-cupti-counters|cpu-only|h100-bert-small|h100-timesformer-python-stacks|mi300-sglang-decode|mi300-torch-compile|synthetic-two-devices|v100-resnet50-workers0)\./;
const kViews = ['overview', 'timeline', 'steps', 'kernels', 'ops', 'roofline', 'flame', 'memory', 'ranks', 'devices', 'inputs'];
const kLooks = [{ width: 375, theme: 'dark' }, { width: 1024, theme: 'light' }, { width: 1920, theme: 'dark' }];
/** Checked by axe at the middle width, in a theme by turns; it takes half a second for a view. */
const kChecked = ['overview', 'timeline', 'kernels', 'memory'];

const axe = axeSource();
const traces = realTraces().filter(({ name }) => kNames.test(name));
const real = [...traces, ...realFiles('snapshots', /^(small|lm-ctx128-fullstep)\.pickle$/)];

async function looks(page, width) {
  for (const view of kViews) {
    await page.evaluate((id) => { location.hash = id; }, view);
    await settled(page);
    const said = await page.locator(`#view-${view}`).innerText();
    assert.ok(said.length > 20, `${view} is empty`);
    assert.doesNotMatch(said, /cannot be shown|\bNaN\b|\bundefined\b|\[object /, view);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${view} is ${over} pixels too wide at ${width}`);
    if (width === 1024 && axe && kChecked.includes(view)) assert.deepEqual(await violations(page), [], view);
  }
}

describe('real files', { skip: real.length > 0 ? false : 'no real files here' }, () => {
  for (const [i, { name, file }] of real.entries())
    it(name, async () => {
      const report = analyzed(`real-${name}`, file);
      for (const { width, theme } of kLooks) {
        const chosen = width === 1024 && i % 2 === 1 ? 'dark' : theme;
        await visited(report, async (page) => {
          if (axe && width === 1024) await page.evaluate(axe);
          await looks(page, width);
        }, { size: [width, 900], theme: chosen, free: width === 1024 });
      }
    });
});
