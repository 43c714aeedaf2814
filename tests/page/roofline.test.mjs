// The roofline view: parts that add up, points that can be hovered, walked and followed to the timeline.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { analyzed, closeBrowser, documentOf, realTraces, simulated, text, visited } from './pages.mjs';

let trace, file, document;
before(() => {
  trace = simulated('roofline.json', '--steps', '6', '--fault', 'full-precision-gemm');
  file = analyzed('roofline', trace);
  document = documentOf(trace);
});
after(closeBrowser);

const visit = (of, use, options) => visited(of, use, { view: 'roofline', ...options });
const inPanel = (page, wanted) => page.waitForFunction((part) => document.querySelector('.tl-panel')?.textContent.includes(part), wanted);

/** Parts of the waterfall add up to the limit and to what was measured, exactly, and each begins where the last one ends. */
async function addsUp(page, distance) {
  const rows = await page.locator('.waterfall tr').evaluateAll((all) => all.map((row) => ({
    part: row.dataset.part, ns: Number(row.dataset.ns), total: row.classList.contains('total'),
    left: Number.parseFloat(row.querySelector('.bar').style.marginLeft), width: Number.parseFloat(row.querySelector('.bar').style.width),
  })));
  const parts = rows.filter((row) => !row.total);
  assert.equal(parts.reduce((sum, row) => sum + row.ns, 0), distance.wall_ns);
  assert.equal(rows.at(-1).ns, distance.wall_ns);
  const limit = rows.find((row) => row.part === 'limit');
  assert.equal(limit?.ns ?? null, distance.limit_ns);
  if (limit) assert.equal(parts.filter((row) => ['necessary_work', 'unknown_work'].includes(row.part)).reduce((sum, row) => sum + row.ns, 0), distance.limit_ns);
  let at = 0;
  for (const { part, left, width } of parts) {
    assert.ok(Math.abs(left - at) < 0.001, `${part} begins at ${left} %, not ${at} %`);
    at += width;
  }
  assert.ok(Math.abs(at - 100) < 0.001);
}

describe('distance', () => {
  it('adds up to the measured time', () => visit(file, async (page) => {
    await addsUp(page, document.ranks[0].distance);
    const { times_limit: times } = document.ranks[0].distance;
    assert.ok(times > 1.05 && times < 9.95);
    assert.ok((await text(page, 'p.distance')).startsWith(`The hardware could run this step ${times.toFixed(1)}x as fast`));
  }));

  it('leads from a part to what it is made of', () => visit(file, async (page) => {
    const part = page.locator('.waterfall tr[data-part="products"] button');
    await part.click();
    assert.equal(await page.locator('#view-roofline select').inputValue(), 'compute');
    assert.match(await text(page, '#view-roofline .tools [role="status"]'), /^\d+ of \d+ rows?/);
    await page.locator('.waterfall tr[data-part^="idle: "] button').first().click();
    assert.ok(await page.locator('#view-timeline').isVisible());
    await inPanel(page, 'Idle for');
  }));

  it('is said in the overview, with the way to it', () => visit(file, async (page) => {
    await page.keyboard.press('1');
    await page.locator('.verdict .distance a').click();
    assert.ok(await page.locator('#view-roofline').isVisible());
  }));
});

describe('roofline', () => {
  const points = (page) => page.locator('.roofplot canvas');

  it('is walked by arrows, and Enter shows the point in the timeline', () => visit(file, async (page) => {
    await points(page).focus();
    await page.keyboard.press('ArrowRight');
    const first = await text(page, '.roofplot [role="status"]');
    assert.match(first, /TFLOP\/s at .* FLOP\/byte/);
    assert.equal((await text(page, '.tip')).split('\n')[0], first.split(';')[0]);
    await page.keyboard.press('End');
    assert.notEqual(await text(page, '.roofplot [role="status"]'), first);
    const name = (await text(page, '.tip')).split(/[\s[]/)[0];
    await page.keyboard.press('Enter');
    assert.ok(await page.locator('#view-timeline').isVisible());
    await inPanel(page, name);
  }));

  it('names what is under the pointer, and a click shows it in the timeline', () => visit(file, async (page) => {
    await points(page).focus();
    await page.keyboard.press('End');
    // The keys' box stands beside the point, on the side that has room.
    const tip = await page.locator('.tip').boundingBox();
    const name = (await text(page, '.tip')).split('\n')[0];
    const corners = [tip.x - 14, tip.x + tip.width + 14].flatMap((x) => [tip.y - 14, tip.y + tip.height + 14].map((y) => [x, y]));
    let found;
    for (const [x, y] of corners) {
      await page.mouse.move(x, y);
      if ((await page.locator('.tip').isVisible()) && (await text(page, '.tip')).split('\n')[0] === name) found = [x, y];
      if (found) break;
    }
    assert.ok(found, `no pointer finds ${name}`);
    await page.mouse.click(...found);
    assert.ok(await page.locator('#view-timeline').isVisible());
    await inPanel(page, name.split(/[\s[]/)[0]);
  }));

  it('has operators and kernels, sorted, searched and picked', () => visit(file, async (page) => {
    const rows = () => page.locator('#view-roofline tr[data-row]').count();
    assert.ok((await rows()) > 1);
    await page.getByRole('button', { name: 'Kernels', exact: true }).click();
    const { kernels } = document.ranks[0].roofline;
    assert.ok((await text(page, '#view-roofline .tools [role="status"]')).startsWith(`${kernels.length} rows`));
    await page.locator('#view-roofline input[type="search"]').fill('gemm');
    assert.match(await text(page, '#view-roofline .tools [role="status"]'), new RegExp(`of ${kernels.length} rows?`));
    await page.locator('#view-roofline tr[data-row="0"]').click();
    for (const part of ['Limit', 'Of limit', 'TFLOP/s', 'FLOP/byte']) assert.ok((await text(page, '#view-roofline .detail')).includes(part), part);
    await page.locator('#view-roofline .detail .see').click();
    await inPanel(page, 'gemm');
  }));
});

describe('utilization by step', () => {
  it('has a bar for each step, which leads to it, and a column in Steps', () => visit(file, async (page) => {
    const canvas = page.locator('#view-roofline canvas').last();
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + 100, box.y + box.height - 30);
    assert.match(await text(page, '.tip'), /ProfilerStep#5[\s\S]*MFU [\d.]+ %/);
    await page.mouse.click(box.x + 100, box.y + box.height - 30);
    await inPanel(page, 'ProfilerStep#5');
    await page.keyboard.press('3');
    await page.getByRole('button', { name: 'MFU' }).click();
    const shares = await page.locator('#view-steps tr[data-row] td:nth-child(7)').allInnerTexts();
    assert.equal(shares.length, 6);
    for (const share of shares) assert.match(share, /^[\d.]+ %$/);
  }));
});

describe('without shapes', () => {
  it('says what to record, and still where the time goes', () => {
    const bare = simulated('bare.json', '--steps', '4', '--no-shapes');
    return visit(analyzed('bare', bare), async (page) => {
      assert.match(await text(page, '#view-roofline .warn'), /record_shapes=True/);
      await addsUp(page, documentOf(bare).ranks[0].distance);
      assert.equal(await page.locator('#view-roofline p.distance').count(), 0);
    });
  });
});

const kWithWork = /^(h100-vit-classifier|h100-qwen|mi300-bert-small|mi300-torch-compile|a100-alexnet|vllm-decode-graph|a100-cupti-counters)\./;
const kReal = realTraces().filter(({ name }) => kWithWork.test(name));
describe('real traces', { skip: kReal.length > 0 ? false : 'no real traces here' }, () => {
  for (const { name, file: of } of kReal) {
    it(name, () => {
      const { distance } = documentOf(of).ranks[0];
      return visit(analyzed(`roofline-${name}`, of), async (page) => {
        // Without a device all time is outside of its work: nothing to show.
        if (distance.parts.some(({ part }) => part !== 'outside')) await addsUp(page, distance);
        else assert.equal(await page.locator('.waterfall').count(), 0);
      });
    });
  }
});
