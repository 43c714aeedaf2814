// The view of memory snapshots: what it shows equals the report, and is hovered, picked, searched and walked.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import {
  analyzed, axeSource, closeBrowser, documentOf, memorySnapshot, realFiles, settled, simulated, text, violations, visited,
} from './pages.mjs';

let pickle, file;
before(() => {
  pickle = memorySnapshot('held', { devices: 2, events: 3000 });
  file = analyzed('held', pickle);
});
after(closeBrowser);

const visit = (of, use, options) => visited(of, use, { view: 'memory', ...options });
const plot = (page) => page.locator('.memstack canvas').first();
const detail = (page) => text(page, '.snapshot .detail');

/** How much the plot stands out from its ground: 0 is an empty plot. Of a copy, since reading the canvas itself would make the browser warn. */
const coloured = (page) => plot(page).evaluate((canvas) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
  copy.fillStyle = getComputedStyle(document.body).backgroundColor;
  copy.fillRect(0, 0, canvas.width, canvas.height);
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  let sum = 0;
  for (let i = 4; i < data.length; i += 4) for (let c = 0; c < 3; c++) sum += Math.abs(data[i + c] - data[c]);
  return sum / (data.length / 4) / 3 / 255;
});

/** Points at what is held, right above the lower edge, at a share of the plot's width. */
async function overHeld(page, share = 0.5) {
  const box = await plot(page).boundingBox();
  const at = { x: box.x + 76 + share * (box.width - 76), y: box.y + box.height - 24 - 60 };
  await page.mouse.move(at.x, at.y);
  return at;
}

describe('active memory', () => {
  it('has the peak of the report, with its categories', () => visit(file, async (page) => {
    const { snapshot } = documentOf(pickle).ranks[0];
    const mib = (snapshot.peak_allocated_bytes / 2 ** 20).toPrecision(3);
    assert.match(await text(page, '.snapshot .facts'), new RegExp(`Peak\\s+${mib.replace('.', '\\.')} MiB[\\s\\S]*At event\\s+${snapshot.peak_event.toLocaleString('en-US')}`));
    assert.equal(await page.locator('.snapshot .bars tr').count(), snapshot.peak.categories.length);
    assert.match(await text(page, '.memstate [role="status"]'), new RegExp(`After event ${snapshot.peak_event.toLocaleString('en-US')}: .* ${mib.replace('.', '\\.')} MiB held`));
    assert.equal((await text(page, '.snapshot .facts')).includes('Peak with twice the batch'), snapshot.batch !== null);
    assert.equal(await page.locator('h3', { hasText: 'Could be freed earlier' }).count(), snapshot.early_frees.length > 0 ? 1 : 0);
    assert.ok((await coloured(page)) > 0.05);
  }));

  it('compares the end with the peak in bytes of one kind', () => visit(file, async (page) => {
    const { peak, devices } = documentOf(pickle).ranks[0].snapshot;
    const end = devices.find(({ device }) => device === peak.device);
    assert.ok(end.requested_bytes <= peak.allocated_bytes && end.requested_bytes < end.allocated_bytes);
    const mib = (n) => (n / 2 ** 20).toPrecision(3).replace('.', '\\.');
    assert.match(await text(page, '.snapshot .facts'), new RegExp(`At the end\\s+${mib(end.requested_bytes)} MiB\\s+Rounded to blocks\\s+${mib(end.allocated_bytes)} MiB`));
  }));

  it('has each line of the program once for a category', async () => {
    const of_ops = memorySnapshot('ops', { ops: ['sqrt', 'div_Tensor', 'mul_Tensor'] });
    const { holders, allocated_bytes } = documentOf(of_ops).ranks[0].snapshot.peak;
    const line = (h) => `${h.function} (${h.file}:${h.line}) ${h.category}`;
    assert.ok(new Set(holders.map(line)).size < holders.length, 'no line holds memory by two operators');
    await visit(analyzed('ops', of_ops), async (page) => {
      const table = page.locator('[aria-label="Lines that hold the peak, table"] tr[data-row]');
      const rows = await table.evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
      assert.equal(new Set(rows.map(([of, , , , category]) => `${of} ${category}`)).size, rows.length);
      assert.ok(rows.some(([, , , , , op]) => op.includes(', ')), 'no row names its operators');
      const held = (n) => `${(n / 2 ** 20).toPrecision(3)} MiB`;
      const most = holders.filter((h) => line(h) === line(holders[0])).reduce((sum, h) => sum + h.held_bytes, 0);
      assert.ok(most <= allocated_bytes);
      assert.equal(rows[0][1], held(most));
    });
  });

  it('names what is under the pointer, and a click shows its stack and state', () => visit(file, async (page) => {
    const at = await overHeld(page);
    assert.match(await text(page, '.tip'), /^[\d.]+ [KM]iB, [\s\S]*(from event|from before)[\s\S]*held of [\d.]+ MiB reserved/);
    const size = /^([\d.]+ [KM]iB)/.exec(await text(page, '.tip'))[1];
    await page.mouse.click(at.x, at.y);
    const said = await detail(page);
    assert.ok(said.startsWith(size), said);
    for (const part of ['Category', 'Life', 'Address', 'Stack, innermost first']) assert.ok(said.includes(part), part);
    assert.match(await text(page, '.memstate [role="status"]'), /After event/);
    await page.waitForFunction(() => /allocation=\d+/.test(location.hash));
    const picked = said.split('\n')[0];
    await page.reload();
    await page.waitForSelector('html.ready');
    assert.equal((await detail(page)).split('\n')[0], picked);
  }));

  it('zooms and moves by wheel, drag, buttons and keys', () => visit(file, async (page) => {
    const at = await overHeld(page);
    // The address follows a moment later.
    const stretch = async (was) => {
      await page.waitForFunction((known) => (new URLSearchParams(location.hash.split('?')[1]).get('t') ?? '') !== known, was);
      return new URLSearchParams(new URL(page.url()).hash.split('?')[1]).get('t');
    };
    const numbers = (t) => t.split('_').map(Number);
    await page.mouse.wheel(0, -500);
    const zoomed = await stretch('');
    const [from, to] = numbers(zoomed);
    assert.ok(from > 0 && to - from < 2000, `${from} to ${to}`);
    await page.mouse.down();
    await page.mouse.move(at.x - 200, at.y, { steps: 3 });
    await page.mouse.up();
    const dragged = await stretch(zoomed);
    assert.ok(numbers(dragged)[0] > from);
    await page.getByRole('button', { name: 'Zoom in' }).click();
    const [closer_from, closer_to] = numbers(await stretch(dragged));
    assert.ok(closer_to - closer_from < to - from);
    await page.getByRole('button', { name: 'All events and bytes' }).click();
    await page.waitForFunction(() => !/[?&]t=/.test(location.hash));
    await plot(page).focus();
    await page.keyboard.press('Home');
    assert.match(await text(page, '.memstate [role="status"]'), /Before the first event:/);
    await page.keyboard.press('Shift+ArrowRight');
    assert.match(await text(page, '.memstate [role="status"]'), /After event 0:/);
    await page.keyboard.press('ArrowUp');
    assert.match(await detail(page), /^[\d.]+ [KM]?i?B/);
  }));

  it('is stacked by category or age, or in lanes', () => visit(file, async (page) => {
    const shares = new Set();
    for (const by of ['made', 'lanes', 'category']) {
      await page.locator(`.snapshot button[data-by="${by}"]`).click();
      assert.equal(await page.locator(`.snapshot button[data-by="${by}"]`).getAttribute('aria-pressed'), 'true');
      shares.add((await coloured(page)).toFixed(3));
    }
    assert.ok(shares.size >= 2, 'lanes look like a stack');
  }));

  it('finds names and stacks: others fade', () => visit(file, async (page) => {
    const all = await coloured(page);
    await page.locator('.snapshot input[type="search"]').fill('adamw.py');
    assert.match(await text(page, '.snapshot .tools [role="status"]'), /^[\d,]+ allocations; [\d.]+ \S+ of them at the peak, [\d.]+ %/);
    assert.ok((await coloured(page)) < 0.7 * all);
    assert.match(await text(page, '.flamegraph [role="status"]'), /frames? match/);
    await page.locator('.snapshot input[type="search"]').fill('no such line');
    assert.match(await text(page, '.snapshot .tools [role="status"]'), /^0 allocations/);
  }));

  it('shows the other device', () => visit(file, async (page) => {
    await page.locator('.snapshot select[aria-label="Device"]').selectOption('1');
    assert.match(await text(page, '.memory-of-device h2'), /GPU 1/);
    assert.ok((await coloured(page)) > 0.05);
  }));
});

describe('allocator state', () => {
  it('follows slider and buttons, and lists the events around it', () => visit(file, async (page) => {
    const said = () => text(page, '.memstate [role="status"]');
    await page.getByRole('button', { name: 'End', exact: true }).click();
    const { snapshot } = documentOf(pickle).ranks[0];
    const device = snapshot.devices.find((d) => d.device === snapshot.peak.device);
    assert.match(await said(), new RegExp(`${device.segments} segments, ${(device.reserved_bytes / 2 ** 20).toPrecision(3).replace('.', '\\.')} MiB reserved`));
    const last = await said();
    await page.getByRole('button', { name: '« segment' }).click();
    assert.notEqual(await said(), last);
    assert.match(await text(page, '.events tr.active'), /segment alloc\s+20(\.0)? MiB\s+0x7f/);
    await page.locator('.events tr').nth(2).locator('button').first().click();
    assert.match(await text(page, '.events tr.active'), new RegExp(`^${/After event ([\d,]+)/.exec(await said())[1]}`));
    await page.locator('.memstate input[type="range"]').fill('10');
    assert.match(await said(), /After event 9:/);
  }));

  it('names blocks and free parts, and a click picks a block', () => visit(file, async (page) => {
    const canvas = page.locator('.memstate canvas');
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    const tips = [];
    for (let x = 2; x < box.width; x += 3) {
      await page.mouse.move(box.x + x, box.y + 10);
      tips.push(await text(page, '.tip'));
      if (/^[\d.]+ [KM]?i?B,/.test(tips.at(-1))) break;
    }
    assert.match(tips.at(-1), /^[\d.]+ [KM]?i?B,[\s\S]*segment 0x7f[0-9a-f]+ of 20(\.0)? MiB/);
    await page.mouse.down();
    await page.mouse.up();
    assert.ok((await detail(page)).startsWith(tips.at(-1).split(',')[0]));
  }));
});

describe('flame graph by bytes', () => {
  it('adds up to the peak, and has C++ frames on demand', () => visit(file, async (page) => {
    const { snapshot } = documentOf(pickle).ranks[0];
    const canvas = page.locator('.flamegraph canvas');
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + 30, box.y + 8);
    assert.match(await text(page, '.tip'), new RegExp(`^all that is held\\s+${(snapshot.peak_allocated_bytes / 2 ** 20).toPrecision(3).replace('.', '\\.')} MiB\\s+100 %`));
    await page.locator('.snapshot input[type="search"]').fill('mul_Tensor');
    assert.match(await text(page, '.flamegraph [role="status"]'), /^0 frames/);
    await page.locator('.snapshot input[type="checkbox"]').check();
    assert.match(await text(page, '.flamegraph [role="status"]'), /^[1-9]\d* frames?/);
    await page.locator('.snapshot select[aria-label="Bytes held"]').selectOption('end');
    await page.mouse.move(box.x + 31, box.y + 8);
    assert.match(await text(page, '.tip'), /^all that is held/);
  }));
});

describe('the peak explained', () => {
  it('leads from a line to its allocations', () => visit(file, async (page) => {
    const line = await page.locator('.snapshot [aria-label="Lines that hold the peak, table"] tr[data-row="0"] td').first().innerText();
    await page.locator('.snapshot [aria-label="Lines that hold the peak, table"] tr[data-row="0"]').click();
    assert.equal(await page.locator('.snapshot input[type="search"]').inputValue(), line.split(' (')[0]);
  }));
});

describe('every size and reader', () => {
  it('needs no sideways scrolling and hits what is pressed on a phone', () => visit(file, async (page) => {
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
    const small = await page.locator('button:visible, select:visible, input:visible:not([type="checkbox"])').evaluateAll((all) =>
      all.filter((target) => target.getBoundingClientRect().height < 31.5).map((target) => target.outerHTML.slice(0, 120)));
    assert.deepEqual(small, []);
  }, { size: [400, 800] }));

  for (const theme of ['light', 'dark']) {
    it(`passes axe in ${theme} colours`, async (t) => {
      const axe = axeSource();
      if (!axe) return t.skip('axe-core is not installed');
      return visit(file, async (page) => {
        await page.evaluate(axe);
        const at = await overHeld(page);
        await page.mouse.click(at.x, at.y);
        await settled(page);
        assert.deepEqual(await violations(page), []);
      }, { theme, free: true });
    });
  }
});

describe('a snapshot alone', () => {
  it('has no timeline, and the tabs say so', () => visit(file, async (page) => {
    assert.deepEqual(await page.locator('.tabs a:not(.absent)').allInnerTexts(), ['Overview', 'Memory', 'Inputs']);
    await page.keyboard.press('2');
    assert.match(await text(page, '#view-timeline .nothing'), /Memory/);
  }));
});

describe('beside the trace of its process', () => {
  it('stands above the memory of the trace', () => visit(analyzed('both', simulated('both.json', '--steps', '4'), pickle), async (page) => {
    assert.deepEqual(await page.locator('#view-memory h2').evaluateAll((all) => all.map((heading) => heading.firstChild.textContent)),
      ['Memory snapshot', 'Active memory', 'Allocator state', 'By stack', 'The peak explained', 'Memory', 'Held at the peak']);
    assert.ok((await coloured(page)) > 0.05);
    assert.ok(await page.locator('#view-memory .uplot canvas').isVisible());
  }));
});

const kReal = realFiles('snapshots', /\.pickle$/);
describe('real snapshots', { skip: kReal.length > 0 ? false : 'no real snapshots here' }, () => {
  for (const { name, file: of } of kReal) {
    it(name, () => {
      const { snapshot } = documentOf(of).ranks[0];
      return visit(analyzed(`snapshot-${name}`, of), async (page) => {
        const event = snapshot.peak_event ?? -1;
        assert.ok((await text(page, '.memstate [role="status"]')).startsWith(`After event ${event.toLocaleString('en-US')}: `));
        assert.ok((await coloured(page)) > 0.05);
        await overHeld(page, 0.7);
        assert.match(await text(page, '.tip'), /[KMG]iB, /);
      });
    });
  }
});
