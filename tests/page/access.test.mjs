// What axe, a checker of accessibility, finds in every view: nothing.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { analyzed, axeSource, closeBrowser, opened, samplesBeside, settled, simulated, violations } from './pages.mjs';

const kViews = ['overview', 'timeline', 'steps', 'kernels', 'ops', 'roofline', 'flame', 'memory', 'ranks', 'devices', 'inputs'];

const axe = axeSource();

let file;
before(() => {
  const trace = simulated('access', '--ranks', '2', '--steps', '6', '--python-stacks', '--fault', 'data-loading-bound', '--fault', 'straggler-rank', '--fault', 'full-precision-gemm');
  file = analyzed('access', trace, '--samples', samplesBeside(`${trace}/rank-0.json`));
});
after(closeBrowser);

describe('axe', { skip: axe ? false : 'axe-core is not installed' }, () => {
  for (const [where, options] of [['in light colours', {}], ['in dark colours', { theme: 'dark' }], ['on a phone', { size: [390, 844] }]]) {
    it(`finds nothing ${where}`, async () => {
      const { page, wrong, close } = await opened(file, { ...options, free: true });
      await page.evaluate(axe);
      for (const view of kViews) {
        await page.evaluate((id) => { location.hash = id; }, view);
        await settled(page);
        if (['kernels', 'ops', 'roofline'].includes(view)) await page.locator(`#view-${view} tr[data-row="0"]`).click();
        // Tabs scroll sideways on a phone: the first one, out of view, is no link that skips anything.
        assert.deepEqual((await violations(page)).filter((said) => !said.startsWith('skip-link')), [], view);
      }
      assert.deepEqual(wrong, []);
      await close();
    });
  }
});
