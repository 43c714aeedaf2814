// Text on a canvas can be read: each text that a view writes has a contrast of 4.5 against what is right beside it.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { analyzed, closeBrowser, memorySnapshot, opened, samplesBeside, settled, simulated } from './pages.mjs';

let one, held;
before(() => {
  const trace = simulated('contrast.json', '--steps', '6', '--python-stacks', '--fault', 'data-loading-bound', '--fault', 'full-precision-gemm', '--fault', 'warm-up');
  one = analyzed('contrast', trace, '--samples', samplesBeside(trace));
  held = analyzed('contrast-held', memorySnapshot('contrast-held', { events: 800 }));
});
after(closeBrowser);

/** In the page: notes where each canvas has its texts, and what is cleared. */
function noteTexts() {
  const noted = (globalThis.notedTexts = new Map());
  const { fillText, clearRect, fillRect } = CanvasRenderingContext2D.prototype;
  const forget = (draw) => function (x, y, width, height) {
    if (this.canvas.isConnected && width * this.getTransform().a >= this.canvas.width && height * this.getTransform().d >= this.canvas.height) noted.delete(this.canvas);
    return draw.call(this, x, y, width, height);
  };
  CanvasRenderingContext2D.prototype.clearRect = forget(clearRect);
  CanvasRenderingContext2D.prototype.fillRect = forget(fillRect);
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const { width } = this.measureText(text);
    const left = this.textAlign === 'right' || this.textAlign === 'end' ? x - width : this.textAlign === 'center' ? x - width / 2 : x;
    const middle = this.textBaseline === 'bottom' ? y - 5 : this.textBaseline === 'top' ? y + 5 : y;
    const beside = [-3, 0, 3].flatMap((by) => [left - 1.5, left + width + 1.5].map((at) => this.getTransform().transformPoint({ x: at, y: middle + by })));
    noted.set(this.canvas, [...(noted.get(this.canvas) ?? []), { text, ink: this.fillStyle, beside: beside.map((point) => [point.x, point.y]) }]);
    return fillText.call(this, text, x, y, ...rest);
  };
}

/** In the page: the texts of the canvases in view that stand out too little, and how many there are. */
function unreadable() {
  const shade = (channel) => (channel / 255 <= 0.04045 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * shade(r) + 0.7152 * shade(g) + 0.0722 * shade(b);
  const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
  const back = getComputedStyle(document.body).backgroundColor;
  const rgb = (text) => (text.startsWith('#') ? [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)) : text.match(/[\d.]+/g).slice(0, 3).map(Number));
  const found = [];
  let texts = 0;
  for (const [canvas, notes] of globalThis.notedTexts) {
    if (!canvas.isConnected || canvas.offsetParent === null) continue;
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
    copy.fillStyle = back;
    copy.fillRect(0, 0, canvas.width, canvas.height);
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    for (const { text, ink, beside } of notes) {
      const inside = beside.map((point) => point.map(Math.round)).filter(([x, y]) => x >= 0 && y >= 0 && x < canvas.width && y < canvas.height);
      if (inside.length === 0) continue;
      texts++;
      // A line of the grid beside it is not what it stands on.
      const best = Math.max(...inside.map(([x, y]) => contrast(rgb(ink), data.slice(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 3))));
      if (best < 4.5) found.push(`${best.toFixed(2)} of "${text.slice(0, 60)}" in ${ink}`);
    }
  }
  return { texts, found };
}

async function reads(file, theme, views) {
  const { page, wrong, close } = await opened(file, { theme, first: noteTexts });
  for (const [view, act] of views) {
    await page.evaluate((id) => { location.hash = id; }, view);
    await settled(page);
    await act?.(page);
    await page.waitForFunction(() => [...globalThis.notedTexts.keys()].some((canvas) => canvas.offsetParent !== null));
    const { texts, found } = await page.evaluate(unreadable);
    assert.ok(texts > 3, `${view} writes ${texts} texts`);
    assert.deepEqual(found, [], view);
  }
  assert.deepEqual(wrong, []);
  await close();
}

describe('labels of canvases', () => {
  for (const theme of ['light', 'dark']) {
    it(`of a trace can be read in ${theme} colours`, () => reads(one, theme, [
      ['timeline', (page) => page.waitForSelector('#view-timeline[data-detail="finished"]')],
      ['timeline', async (page) => {
        await page.locator('.tl-tools input').fill('gemm');
        await page.waitForFunction(() => /\d/.test(document.querySelector('.tl-count').textContent));
        await settled(page);
      }],
      ['steps'], ['kernels', (page) => page.locator('#view-kernels tr[data-row="0"]').click()], ['roofline'], ['flame'],
      ['flame', (page) => page.locator('#view-flame input').fill('aten')], ['memory'], ['devices'],
    ]));

    it(`of a memory snapshot can be read in ${theme} colours`, () => reads(held, theme, [
      ['memory'], ['memory', (page) => page.locator('.snapshot button[data-by="lanes"]').click()],
    ]));
  }
});
