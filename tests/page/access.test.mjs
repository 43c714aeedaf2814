// What axe, a checker of accessibility, finds in every view: nothing.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { analyzed, closeBrowser, opened, root, samplesBeside, settled, simulated } from './pages.mjs';

const kViews = ['overview', 'timeline', 'steps', 'kernels', 'ops', 'roofline', 'flame', 'memory', 'ranks', 'devices', 'inputs'];

let axe;
try {
  axe = readFileSync(createRequire(join(root, 'web', 'package.json')).resolve('axe-core/axe.min.js'), 'utf8');
} catch { /* npm ci --prefix web brings it */ }

let file;
before(() => {
  const trace = simulated('access', '--ranks', '2', '--steps', '6', '--python-stacks', '--fault', 'data-loading-bound', '--fault', 'straggler-rank', '--fault', 'full-precision-gemm');
  file = analyzed('access', trace, '--samples', samplesBeside(`${trace}/rank-0.json`));
});
after(closeBrowser);

describe('axe', { skip: axe ? false : 'axe-core is not installed' }, () => {
  for (const theme of ['light', 'dark']) {
    it(`finds nothing in ${theme} colours`, async () => {
      const { page, wrong, close } = await opened(file, { theme, free: true });
      await page.evaluate(axe);
      for (const view of kViews) {
        await page.evaluate((id) => { location.hash = id; }, view);
        await settled(page);
        if (['kernels', 'ops', 'roofline'].includes(view)) await page.locator(`#view-${view} tr[data-row="0"]`).click();
        const found = await page.evaluate(async () => (await globalThis.axe.run(document, { resultTypes: ['violations'] })).violations
          .map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)}`));
        assert.deepEqual(found, [], view);
      }
      assert.deepEqual(wrong, []);
      await close();
    });
  }
});
