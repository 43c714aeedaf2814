// Pictures of every view at two sizes, light and dark, into build/page-shots: to be looked at.
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { analyzed, closeBrowser, kept, opened, samplesBeside, simulated } from './pages.mjs';

const kSizes = [[1280, 800], [2560, 1440]];
const kViews = ['overview', 'timeline', 'steps', 'kernels', 'ops', 'roofline', 'flame', 'memory', 'ranks', 'devices', 'inputs'];

let file;
before(() => {
  const trace = simulated('shots', '--ranks', '2', '--steps', '8', '--python-stacks', '--fault', 'data-loading-bound', '--fault', 'straggler-rank', '--fault', 'unfused-optimizer');
  file = analyzed('shots', trace, '--samples', samplesBeside(`${trace}/rank-0.json`));
});
after(closeBrowser);

describe('pictures', () => {
  for (const theme of ['light', 'dark']) {
    for (const size of kSizes) {
      it(`${size[0]} × ${size[1]}, ${theme}`, async () => {
        const { page, wrong, close } = await opened(file, { size, theme });
        for (const view of kViews) {
          await page.evaluate((id) => { location.hash = id; }, view);
          await page.waitForTimeout(250);
          if (view === 'kernels') await page.locator('#view-kernels tr[data-row="0"]').click();
          const shot = kept('page-shots', `${view}-${size[0]}-${theme}.png`);
          await page.screenshot({ path: shot });
          assert.ok(statSync(shot).size > 5000, `${view} is empty`);
        }
        assert.deepEqual(wrong, []);
        await close();
      });
    }
  }
});
