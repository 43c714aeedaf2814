// The timeline in a page, by pointer, touch and keyboard.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { analyzed, closeBrowser, samplesBeside, simulated, text, visited } from './pages.mjs';

let one, job, cut;
before(() => {
  const trace = simulated('one.json', '--steps', '6', '--python-stacks', '--fault', 'data-loading-bound');
  one = analyzed('one', trace, '--samples', samplesBeside(trace));
  cut = analyzed('cut', trace, '--html-steps', '8:9');
  job = analyzed('job', simulated('job', '--ranks', '4', '--steps', '3', '--fault', 'straggler-rank'));
});
after(closeBrowser);

function visit(file, use, options) {
  return visited(file, async (page) => {
    await page.waitForSelector('#view-timeline[data-detail="finished"]');
    await use(page);
  }, { view: 'timeline', ...options });
}

const status = (page) => page.locator('.tl-status').textContent();

async function inView(page) {
  await page.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next))));
  const [value, unit] = (await text(page, '.tl-corner')).split(' ');
  return Number(value.replaceAll(',', '')) * { s: 1e9, ms: 1e6, µs: 1e3, ns: 1 }[unit];
}

/** A point on a track, at a share of the plot's width. */
async function pointOn(page, title, share) {
  const [line, plot] = await Promise.all([
    page.locator('.tl-title:not([hidden]):not(.tl-heading)', { hasText: title }).first().boundingBox(),
    page.locator('.tl-plot').boundingBox(),
  ]);
  return { x: plot.x + share * plot.width, y: line.y + 9 };
}

/** Of a canvas, by way of a copy, since reading the canvas itself would make the browser paint it otherwise: its first
 * pixel, how many pixels have a colour of their own (not the ground, not a shade of grey), and whether anything is drawn. */
function drawn(page, selector = '.tl-plot canvas') {
  return page.evaluate((of) => {
    const canvas = document.querySelector(of);
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    let [coloured, any] = [0, false];
    for (let i = 0; i < data.length; i += 4) {
      if (Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 60) coloured++;
      any ||= data[i + 3] > 0;
    }
    return { first: [...data.slice(0, 4)], coloured, any };
  }, selector);
}

const colouredPixels = async (page) => (await drawn(page)).coloured;

describe('what it shows', () => {
  it('draws tracks with titles, and names what is under the pointer', () =>
    visit(one, async (page) => {
      for (const title of ['steps', 'phases', 'idle', 'stream', 'thread', 'power'])
        assert.ok((await page.locator('.tl-title', { hasText: title }).count()) > 0, title);
      assert.ok((await colouredPixels(page)) > 20_000);
      const { x, y } = await pointOn(page, 'steps', 0.5);
      await page.mouse.move(x, y);
      assert.match(await text(page, '.tip'), /ProfilerStep#\d+\s+[\d.]+ ms/);
      await page.locator('.tl-plot').focus();
      while ((await page.locator('.tl-title:not([hidden]):not(.tl-heading)', { hasText: 'power' }).count()) === 0)
        await page.keyboard.press('PageDown');
      const power = await pointOn(page, 'power', 0.5);
      await page.mouse.move(power.x, power.y);
      assert.match(await text(page, '.tip'), /power: \d+ W/);
    }));

  it('draws again in dark colours', () =>
    visit(one, async (page) => {
      const ground = async () => (await drawn(page)).first;
      const light = await ground();
      await page.emulateMedia({ colorScheme: 'dark' });
      await inView(page);
      const dark = await ground();
      assert.ok(light[0] > 200 && dark[0] < 80, `${light} and ${dark}`);
    }));

  it('says where only density is kept', () =>
    visit(cut, async (page) => {
      const { x, y } = await pointOn(page, 'stream', 0.2);
      const plot = await page.locator('.tl-plot').boundingBox();
      const seen = new Set();
      for (let by = 0; by < 60; by += 4) {
        await page.mouse.move(x + by, y);
        if (await page.locator('.tip').isVisible()) seen.add(await text(page, '.tip'));
      }
      assert.ok(
        [...seen].some((tip) => /busy \d+ %, mostly/.test(tip) && /--html-steps/.test(tip)),
        [...seen].join('\n'),
      );
      assert.ok((await colouredPixels(page)) > 0.002 * plot.width * plot.height);
    }));

  it('keeps pinned tracks in view above the others', () =>
    visit(one, async (page) => {
      const stream = page.locator('.tl-title', { hasText: 'stream' }).first();
      await stream.hover();
      await stream.locator('.tl-pin').click();
      assert.match(await text(page, '.tl-pinnings'), /^stream \d+/);
      const plot = await page.locator('.tl-plot').boundingBox();
      for (const scrolled of [false, true]) {
        if (scrolled) {
          await page.locator('.tl-plot').focus();
          await page.keyboard.press('PageDown');
        }
        await page.mouse.move(plot.x + plot.width / 2, plot.y + 10);
        assert.match(await text(page, '.tip'), /busy \d+ %|matrix multiplication|optimizer/, scrolled ? 'after scrolling' : 'at the top');
      }
      await page.waitForFunction(() => /[?&]pin=\d+/.test(location.hash));
      await page.reload();
      await page.waitForSelector('.tl-pinnings .tl-title');
      assert.match(await text(page, '.tl-pinnings'), /^stream \d+/);
      await page.locator('.tl-pinnings .tl-pin').click();
      assert.equal(await page.locator('.tl-pinnings .tl-title').count(), 0);
    }));

  it('folds ranks, groups and call stacks', () =>
    visit(job, async (page) => {
      const titles = () => page.locator('.tl-title:not([hidden])').count();
      const all = await titles();
      const rank = page.locator('.tl-level0 button').last();   // of the late rank, which is shown
      assert.equal(await rank.getAttribute('aria-expanded'), 'true');
      await rank.click();
      assert.equal(await rank.getAttribute('aria-expanded'), 'false');
      assert.ok((await titles()) < all);
      assert.ok((await colouredPixels(page)) > 300, 'a folded rank shows nothing');
      assert.equal(await page.locator('.tl-level0').count(), 4);
      await rank.click();
      await page.waitForFunction((n) => document.querySelectorAll('.tl-title:not([hidden])').length === n, all);
    }));
});

describe('moving', () => {
  it('zooms and pans by wheel, drag, keys and the overview', () =>
    visit(one, async (page) => {
      const whole = await inView(page);
      const { x, y } = await pointOn(page, 'steps', 0.5);
      await page.mouse.move(x, y);
      const under = (await text(page, '.tip')).split('\n')[0];
      await page.mouse.wheel(0, -600);
      const near = await inView(page);
      assert.ok(near < whole / 2, `${near} of ${whole}`);
      assert.equal((await text(page, '.tip')).split('\n')[0], under, 'the time under the pointer moved');
      await page.mouse.down();
      await page.mouse.move(x + 200, y, { steps: 4 });
      await page.mouse.up();
      assert.equal(await inView(page), near);
      for (const [key, check] of [
        ['w', (ns) => ns < near],
        ['s', (ns) => Math.abs(ns / near - 1) < 0.02],
        ['Home', (ns) => ns === whole],
        ['0', (ns) => ns === whole],
      ]) {
        await page.keyboard.press(key);
        assert.ok(check(await inView(page)), key);
      }
      const map = await page.locator('.tl-top canvas').first().boundingBox();
      await page.mouse.move(map.x + map.width * 0.001, map.y + 20);
      await page.locator('.tl-plot').focus();
      for (let i = 0; i < 10; i++) await page.keyboard.press('w');
      const window = await inView(page);
      assert.ok(window < whole / 5);
      await page.mouse.move(map.x + map.width * 0.8, map.y + 20);
      await page.mouse.down();
      await page.mouse.move(map.x + map.width * 0.9, map.y + 20, { steps: 3 });
      await page.mouse.up();
      const dragged = await inView(page);
      assert.ok(Math.abs(dragged / (whole * 0.1) - 1) < 0.15, `${dragged} of ${whole}`);
    }));

  it('pinches with two fingers', () =>
    visit(one, async (page) => {
      const whole = await inView(page);
      const plot = await page.locator('.tl-plot').boundingBox();
      const client = await page.context().newCDPSession(page);
      const touch = (type, ...xs) =>
        client.send('Input.dispatchTouchEvent', {
          type,
          touchPoints: xs.map((x, id) => ({ x: plot.x + x, y: plot.y + 200, id })),
        });
      await touch('touchStart', 300, 400);
      for (let by = 10; by <= 100; by += 10) await touch('touchMove', 300 - by, 400 + by);
      await touch('touchEnd');
      const near = await inView(page);
      assert.ok(Math.abs(whole / near / 3 - 1) < 0.15, `${whole / near} times`);
    }));

  it('goes through steps and gaps, longest first, with the cause', () =>
    visit(one, async (page) => {
      await page.keyboard.press(']');
      assert.match(await status(page), /Selected ProfilerStep#/);
      const step = await status(page);
      await page.keyboard.press(']');
      assert.notEqual(await status(page), step);
      await page.keyboard.press('[');
      assert.equal(await status(page), step);
      await page.keyboard.press('g');
      assert.match(await status(page), /^Gap 1 of \d+: .* ms, idle: data loading/);
      assert.match(await text(page, '.tl-panel'), /Idle for[\s\S]*Cause\s+idle: data loading/);
      const longest = await inView(page);
      await page.keyboard.press('g');
      assert.match(await status(page), /^Gap 2 of/);
      assert.ok((await inView(page)) <= longest * 1.001);
      await page.keyboard.press('Shift+G');
      assert.match(await status(page), /^Gap 1 of/);
    }));
});

describe('picking', () => {
  it('shows a kernel with its launch, and goes there and back', () =>
    visit(one, async (page) => {
      await page.locator('.tl-tools input').fill('gemm');
      await page.locator('.tl-tools input').press('Enter');
      await page.waitForSelector('.tl-panel h4:text("Launched by")');
      const panel = () => text(page, '.tl-panel');
      assert.match(await panel(), /Duration[\s\S]*Launched by/);
      assert.match(await panel(), /Arguments/);
      const kernel = await text(page, '.tl-panel h3');
      await page.locator('.tl-panel h4:text("Launched by") + .tl-link').click();
      assert.match(await text(page, '.tl-panel h3'), /Launch|launch/);
      assert.match(await panel(), /Launched 1 on the device/);
      await page.locator('.tl-panel .tl-link').last().click();
      assert.equal(await text(page, '.tl-panel h3'), kernel);
      assert.ok((await drawn(page, '.tl-overlay')).any, 'nothing is drawn over the plot');
      await page.locator('.tl-plot').focus();
      await page.keyboard.press('f');
      assert.ok((await inView(page)) < 1e6);
      await page.keyboard.press('Escape');
      assert.doesNotMatch(await panel(), /Launched by/);
    }));

  it('searches with a count, goes through the matches, and dims the rest', () =>
    visit(one, async (page) => {
      const before = await colouredPixels(page);
      await page.keyboard.press('/');
      assert.ok(await page.locator('.tl-tools input').evaluate((input) => input === document.activeElement));
      await page.keyboard.type('gemm');
      const count = page.locator('.tl-tools .tl-count').first();
      await page.waitForFunction(() => /^\d[\d,]*, /.test(document.querySelector('.tl-tools .tl-count').textContent));
      assert.ok((await colouredPixels(page)) < before * 0.7, 'what does not match is not dimmed');
      await page.keyboard.press('Enter');
      await page.waitForFunction(() => / of /.test(document.querySelector('.tl-tools .tl-count').textContent));
      const first = await count.innerText();
      assert.match(first, /^[\d,]+ of [\d,]+, /);
      await page.locator('.tl-plot').focus();
      await page.keyboard.press('n');
      assert.notEqual(await count.innerText(), first);
      await page.keyboard.press('Shift+N');
      assert.equal(await count.innerText(), first);
      const all = Number(first.match(/of ([\d,]+)/)[1].replaceAll(',', ''));
      await page.locator('.tl-panel button', { hasText: 'All of this name' }).click();
      await page.waitForFunction(() => /of [\d,]+, /.test(document.querySelector('.tl-tools .tl-count').textContent));
      const same = Number((await count.innerText()).match(/of ([\d,]+)/)[1].replaceAll(',', ''));
      assert.ok(same >= 1 && same < all, `${same} of ${all}`);
      await page.locator('.tl-tools input').fill('no such name');
      await page.waitForFunction(() => document.querySelector('.tl-tools .tl-count').textContent === 'no match');
      await page.locator('.tl-tools input').press('Escape');
      assert.equal(await count.innerText(), '');
      assert.equal(await colouredPixels(page), before);
    }));

  it('lists what ran in a span, by drag at any zoom and by key', () =>
    visit(one, async (page) => {
      const { x, y } = await pointOn(page, 'stream', 0.3);
      await page.mouse.move(x, y);
      await page.mouse.down();
      await page.mouse.move(x + 200, y, { steps: 4 });
      await page.mouse.up();
      assert.match(await text(page, '.tl-panel'), /What ran[\s\S]*\d ×\s+[\d.]+ ms\s+[\d.]+ %/);
      assert.ok(await page.locator('.tl-panel').evaluate((panel) => panel.scrollWidth <= panel.clientWidth), 'figures are beyond the edge');
      await page.locator('.tl-panel select').selectOption({ label: 'by stream' });
      assert.match(await text(page, '.tl-ran'), /stream \d+/);
      // The address leads back to the span, at the whole run too, where the view begins before the run.
      const span = await text(page, '.tl-panel h3');
      await page.waitForFunction(() => /\?t=-\d+_\d+&span=/.test(location.hash));
      await page.reload();
      await page.waitForSelector('.tl-panel h3');
      assert.equal(await text(page, '.tl-panel h3'), span);
      assert.match(await text(page, '.tl-panel'), /Span of [\d.]+ ms[\s\S]*all streams[\s\S]*busy [\d.]+ %/);
      await page.keyboard.press('Escape');
      await page.keyboard.press('m');
      assert.match(await text(page, '.tl-panel'), /Span of[\s\S]*phases/);
    }));

  it('can be used by keys alone', () =>
    visit(one, async (page) => {
      await page.locator('.tl-plot').focus();
      await page.keyboard.press('Enter');
      assert.match(await status(page), /^Selected /);
      const first = await status(page);
      await page.keyboard.press('Shift+ArrowLeft');
      assert.notEqual(await status(page), first);
      await page.keyboard.press('?');
      assert.match(await text(page, 'dialog[open]'), /Keys of the timeline[\s\S]*measure/);
      await page.keyboard.press('Escape');
      assert.equal(await page.locator('dialog[open]').count(), 0);
      await page.locator('.tl-plot').focus();
      await page.keyboard.press('p');
      assert.ok(!(await page.locator('.tl-panel').isVisible()));
      for (const label of await page
        .locator('#view-timeline button')
        .evaluateAll((all) => all.map((b) => b.getAttribute('aria-label') ?? b.textContent)))
        assert.ok(label.trim());
    }));
});
