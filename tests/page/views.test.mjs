// The views of a page, as somebody uses them: read, sort, search, zoom, jump to the timeline, by pointer and by keyboard.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { analyzed, cells, closeBrowser, memorySnapshot, pageOfEvents, path, samplesBeside, settled, simulated, text, visited } from './pages.mjs';

let one, job, hung, turns;
before(() => {
  const trace = simulated('one.json', '--steps', '6', '--python-stacks', '--fault', 'data-loading-bound', '--fault', 'full-precision-gemm', '--fault', 'warm-up');
  one = analyzed('one', trace, '--samples', samplesBeside(trace));
  hung = analyzed('hung', simulated('hung', '--ranks', '4', '--steps', '8', '--layers', '2', '--hang-rank', '1'));
  turns = analyzed('turns', simulated('turns', '--ranks', '4', '--steps', '12', '--layers', '4', '--fault', 'straggler-rank:3', '--by-turns'));
  job = analyzed('job', simulated('job', '--ranks', '4', '--steps', '4', '--fault', 'straggler-rank'));
});
after(closeBrowser);

const visit = (file, view, use, options) => visited(file, use, { view, ...options });

describe('overview', () => {
  it('says the verdict and every finding with cost, change and severity', () => visit(one, '', async (page) => {
    assert.match(await text(page, '.verdict .sentence'), /^The GPU waits for data/);
    assert.equal(await page.title(), 'one.json and 1 more – profgpu');
    const first = page.locator('.finding').first();
    assert.equal(await first.getAttribute('data-rule'), 'data-loading-bound');
    assert.match(await first.innerText(), /^A single process prepares every batch[\s\S]*ms\sper step[\s\S]*warning · data-loading-bound[\s\S]*num_workers/);
    assert.equal(await first.locator('svg.mark.warning').count(), 1);
    assert.ok(await page.locator('.finding[data-rule="full-precision-gemm"]').isVisible());
    assert.ok(!(await page.locator('#static').isVisible()), 'the plain report is still shown');
  }));

  it('begins with the rank that holds the others up, and is called as the folder is', () => visit(job, '', async (page) => {
    assert.equal(await page.title(), 'job – profgpu');
    assert.equal(await page.locator('#rank option:checked').innerText(), 'rank 3');
  }));

  it('shows sums that the tables have: phases, device, idle causes, checklist', () => visit(one, '', async (page) => {
    const sums = await text(page, '.sums');
    for (const part of ['A step of', 'data loading', 'backward', 'GPU 0', 'Idle by cause', 'Checklist', 'Next']) assert.ok(sums.includes(part), part);
    assert.equal(await page.locator('.checks tr').count(), 8);
  }));

  it('says that the mean step has the one that hangs', () => visit(hung, '', async (page) => {
    assert.match(await text(page, '.verdict .sentence'), /^Rank 1 never arrives/);
    assert.match(await text(page, '.sums h2'), /^A step of .* with the one that hangs/);
  }));

  it('says who is late by turns, and nothing where nobody is', async () => {
    await visit(turns, '', async (page) => {
      const said = await text(page, '.turns');
      assert.match(said, /Rotating stragglers\s*slow compute[\s\S]*steps the others wait [\d.,]+\sms per step \(\d[\d.]*\s%\), each time for another rank/);
      assert.equal(await page.locator('.turns tbody tr').count(), 4);
      assert.doesNotMatch(await text(page, '.sums'), /hangs/);
    });
    await visit(turns, 'ranks', async (page) => assert.match(await text(page, '#view-ranks .job'), /Rotating stragglers, slow compute/));
    await visit(job, '', async (page) => assert.equal(await page.locator('.turns').count(), 0));
  });

  it('leads from a finding to the wait that it names', () => visit(one, '', async (page) => {
    const [, longest] = /longest wait ([\d.]+)/.exec(await text(page, '.finding[data-rule="data-loading-bound"]'));
    await page.locator('.finding[data-rule="data-loading-bound"] .see').click();
    assert.ok(await page.locator('#view-timeline').isVisible());
    await page.waitForFunction((ms) => new RegExp(`longest wait of ${ms}[\\s\\S]*__next__`).test(document.querySelector('.tl-panel')?.textContent ?? ''), longest);
    await page.goBack();
    assert.ok(await page.locator('#view-overview').isVisible());
  }));

  it('leads from a place in the program to its longest call', () => visit(one, '', async (page) => {
    const place = page.locator('.finding[data-rule="data-loading-bound"] .place').first();
    const name = (await place.innerText()).split(' (')[0];
    await place.click();
    assert.ok(await page.locator('#view-timeline').isVisible());
    await page.waitForFunction((wanted) => document.querySelector('.tl-panel')?.textContent.includes(wanted), name);
  }));

  it('leads from a kernel finding to the longest such kernel', () => visit(one, '', async (page) => {
    await page.locator('.finding[data-rule="full-precision-gemm"] .see').click();
    await page.waitForFunction(() => /sgemm|conv|flash|attention|gemm/i.test(document.querySelector('.tl-panel')?.textContent ?? ''));
  }));

  it('copies a change', () => visit(one, '', async (page) => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    assert.equal(await page.locator('.finding[data-rule="data-loading-bound"] .copy').count(), 0, 'what cannot be pasted has a button to copy it');
    await page.locator('.finding .copy').first().click();
    await page.waitForFunction(() => document.querySelector('.finding .copy').textContent === 'Copied');
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^torch\.set_float32_matmul_precision\("high"\)/);
  }));
});

describe('no finding', () => {
  // A host that computes, without any record of a GPU.
  const step = (n) => [
    { ph: 'X', cat: 'user_annotation', name: `ProfilerStep#${n}`, pid: 1, tid: 1, ts: 1000 * n, dur: 990 },
    { ph: 'X', cat: 'cpu_op', name: 'aten::mm', pid: 1, tid: 1, ts: 1000 * n + 10, dur: 700 },
    { ph: 'X', cat: 'cpu_op', name: 'aten::relu', pid: 1, tid: 1, ts: 1000 * n + 720, dur: 200 },
  ];
  it('is no all-clear: what takes time, what is not known and what to record', () =>
    visit(pageOfEvents('host', [1, 2, 3].flatMap(step)), '', async (page) => {
      assert.match(await text(page, '.verdict .sentence'), /^This trace has no GPU activity: was ProfilerActivity\.CUDA on\?/);
      assert.match(await text(page, 'ul.warn'), /ProfilerActivity\.CUDA/);
      assert.match(await text(page, '.findings'), /no all-clear/);
      const largest = await text(page, '.columns > div:first-child');
      assert.match(largest, /Largest host ranges[\s\S]*aten::mm\s+3 ×\s+2\.10 ms\s+70\.7 %[\s\S]*aten::relu/);
      assert.match(largest, /What could not be checked\s+Record GPU activity: ProfilerActivity\.CUDA[\s\S]*Is the GPU busy over 80 %/);
      assert.match(largest, /Record memory: profile_memory=True[\s\S]*device's memory free/);
      assert.doesNotMatch(largest, /exposed communication/);
      assert.equal(await page.locator('.unchecked > ul > li').count(), 2);
    }));

  it('shows no such list beside warnings', () => visit(one, '', async (page) => assert.equal(await page.locator('.unchecked, .largest').count(), 0)));
});

describe('a trace without steps', () => {
  const kernel = (i) => [
    { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts: 100 * i, dur: 5, args: { correlation: i + 1 } },
    { ph: 'X', cat: 'kernel', name: 'gemm_a', pid: 0, tid: 7, ts: 100 * i + 20, dur: 40, args: { device: 0, stream: 7, correlation: i + 1 } },
  ];
  const file = () => pageOfEvents('unmarked', Array.from({ length: 30 }, (_, i) => kernel(i)).flat());

  it('has costs of the whole trace, and no steps to show', () => visit(file(), '', async (page) => {
    assert.match(await text(page, '.verdict'), /no steps marked/);
    assert.match(await text(page, '.sums h2'), /^The whole trace, [\d.]+ ms/);
    assert.match(await text(page, '.finding .cost b'), /^[\d.]+ [mµ]s$/);
    assert.doesNotMatch(await text(page, '.findings'), /per step/);
    assert.match(await text(page, '.typical h2'), /^The whole trace/);
    await page.keyboard.press('3');
    assert.match(await text(page, '#view-steps .nothing'), /prof\.step\(\)/);
  }));
});

describe('one name for one thing', () => {
  it('is that of a category or cause in all views', () => visit(one, '', async (page) => {
    const sums = await text(page, '.sums');
    for (const name of ['matrix multiplication', 'memory copy']) assert.ok(sums.includes(name), name);
    const causes = await page.locator('.sums section', { hasText: 'Idle by cause' }).locator('th').allInnerTexts();
    await page.keyboard.press('4');
    const kinds = new Set(await cells(page, 'kernels', 2));
    for (const name of ['matrix multiplication', 'memory copy']) assert.ok(kinds.has(name), `${name}: ${[...kinds]}`);
    assert.deepEqual((await page.locator('#view-kernels select option').allInnerTexts()).slice(1).sort(), [...kinds].sort());
    await page.keyboard.press('2');
    await page.waitForSelector('[data-detail="finished"]');
    const named = (await text(page, '.tl-legend')).split('\n').map((line) => line.trim());
    for (const name of [...kinds, ...causes]) assert.ok(named.includes(name), `the timeline has no ${name}: ${named}`);
  }));

  it('stands with phases where it is one, though kernels share it', () => visit(one, 'timeline', async (page) => {
    await page.waitForSelector('[data-detail="finished"]');
    const phases = await page.locator('.tl-legend > div', { hasText: /^Phases/ }).innerText();
    for (const name of ['data loading', 'forward', 'backward', 'optimizer']) assert.ok(phases.includes(name), phases);
  }));

  it('is kept apart from what is like it: time of the host, and with the work that it launched', () => {
    const step = (i) => [
      { ph: 'X', cat: 'user_annotation', name: `ProfilerStep#${i}`, pid: 1, tid: 1, ts: 1000 * i, dur: 900 },
      { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts: 1000 * i + 800, dur: 5, args: { correlation: i + 1 } },
      { ph: 'X', cat: 'kernel', name: 'gemm_a', pid: 0, tid: 7, ts: 1000 * i + 810, dur: 990, args: { device: 0, stream: 7, correlation: i + 1 } },
    ];
    return visit(pageOfEvents('ahead', [1, 2, 3, 4].flatMap(step)), 'steps', async (page) => {
      const titles = await page.locator('#view-steps table.data th').allInnerTexts();
      const column = async (title) => (await cells(page, 'steps', titles.indexOf(title) + 1))[1];
      assert.deepEqual([await column('Elapsed'), await column('On the host')], ['1.00 ms', '900 µs']);
    });
  });

  it('has its rank where only one of several ranks has it', async () => {
    const folder = path('issues');
    mkdirSync(folder);
    for (const rank of [0, 1]) {
      const events = Array.from({ length: 20 }, (_, i) => [
        { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts: 100 * i, dur: 5, args: { correlation: i + 1 } },
        { ph: 'X', cat: 'kernel', name: 'gemm_a', pid: 0, tid: 7, ts: 100 * i + 20, dur: 40, args: { device: 0, stream: 7, correlation: i + 1 + (rank && i > 9 ? 100 : 0) } },
      ]).flat();
      writeFileSync(join(folder, `rank-${rank}.json`), JSON.stringify({ schemaVersion: 1, distributedInfo: { rank, world_size: 2 }, traceEvents: events }));
    }
    await visit(analyzed('issues', folder), '', async (page) => {
      const said = await page.locator('ul.warn li').allInnerTexts();
      assert.ok(said.some((line) => /^Rank 1: device records without a launching call in the file: 10 /.test(line)), said.join('\n'));
      assert.ok(said.every((line) => !/^Rank 0/.test(line)));
    });
  });
});

describe('a memory snapshot', () => {
  it('has its peak in the overview, by category and line', () => visit(analyzed('peak', memorySnapshot('peak', { events: 20 })), '', async (page) => {
    const rows = await page.locator('.peak .bars tr').allInnerTexts();
    assert.ok(rows.length > 1);
    assert.match(rows[0], /[KMG]iB\s+[\d.]+ %/);
    assert.match(await text(page, '.columns'), /Largest holders[\s\S]*blocks?\s+[\d.]+ [KMG]iB/);
    await page.locator('.peak a').click();
    assert.ok(await page.locator('#view-memory').isVisible());
  }));
});

describe('idle time at the ends of a step', () => {
  it('is in the sums, the typical step and the timeline alike', () => {
    // The host prepares for 60 of 100 ms before the first kernel.
    const events = [
      { ph: 'X', cat: 'user_annotation', name: 'ProfilerStep#1', pid: 1, tid: 1, ts: 0, dur: 100_000 },
      { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts: 59_990, dur: 5, args: { correlation: 1 } },
      { ph: 'X', cat: 'kernel', name: 'gemm_a', pid: 0, tid: 7, ts: 60_000, dur: 40_000, args: { device: 0, stream: 7, correlation: 1 } },
    ];
    return visit(pageOfEvents('edge', events), '', async (page) => {
      const [, cause] = /Idle by cause[^\n]*\n+(?:.*\n)??(host bound|data loading|unknown)\s+60\.0 ms/.exec(await text(page, '.sums')) ?? assert.fail(await text(page, '.sums'));
      assert.match(await text(page, '.typical'), new RegExp(`GPU 0\\s+${cause} 60\\.0 ms`));
      await page.keyboard.press('2');
      await page.keyboard.press('g');
      assert.match(await text(page, '.tl-panel h3'), /^Idle for 60\.00 ms/);
    });
  });
});

describe('under the verdict', () => {
  it('stand the step before and after, and a typical step', () => visit(one, '', async (page) => {
    const [, from, to] = /from ([\d.]+ ms) to about ([\d.]+ ms)/.exec(await text(page, '.verdict .sentence').then((t) => t.replace(/\u00a0/g, ' ')));
    assert.match(await text(page, '.gain'), new RegExp(`now\\s+${from}\\s+fixed\\s+about ${to}\\s+−\\d+ %`));
    const [whole, then] = [await page.locator('.gain .whole').first().boundingBox(), await page.locator('.gain .kept').last().boundingBox()];
    assert.ok(Math.abs(then.width / whole.width - Number.parseFloat(to) / Number.parseFloat(from)) < 0.01);
    assert.match(await text(page, '.typical'), /A typical step: ProfilerStep#\d+[\s\S]*host\s+data loading [\d.]+ ms[\s\S]*GPU 0/);
    const wide = await page.locator('.lane').evaluateAll((lanes) => lanes.map((lane) => [...lane.children].reduce((sum, piece) => sum + Number.parseFloat(piece.style.width), 0)));
    for (const sum of wide) assert.ok(Math.abs(sum - 100) < 0.01, `${sum} %`);
    await page.locator('.typical .see').click();
    await page.waitForFunction(() => /ProfilerStep#/.test(document.querySelector('.tl-panel')?.textContent ?? ''));
  }));
});

describe('addresses', () => {
  it('lead back to a filter, a rank and a selection', () => visit(job, 'kernels?q=gemm&category=gemm&rank=2', async (page) => {
    assert.equal(await page.locator('#view-kernels input').inputValue(), 'gemm');
    assert.equal(await page.locator('#view-kernels select').inputValue(), 'gemm');
    assert.equal(await page.locator('#rank').inputValue(), '2');
    await page.locator('#view-kernels input').fill('');
    assert.equal(new URL(page.url()).hash, '#kernels?category=gemm&rank=2');
    await page.locator('#view-kernels tr[data-row="0"]').click();
    await page.locator('#view-kernels .detail .see').click();
    const picked = await text(page, '.tl-panel h3');
    await page.waitForFunction(() => /event=\d+/.test(location.hash));
    await page.reload();
    await page.waitForSelector('.tl-panel h3');
    assert.equal(await text(page, '.tl-panel h3'), picked);
  }));
});

describe('what was looked at', () => {
  it('is there again in its tab, and the rank in every address', () => visit(job, 'kernels?q=gemm', async (page) => {
    await page.locator('#rank').selectOption('2');
    await page.locator('#tab-steps').click();
    await page.waitForFunction(() => location.hash === '#steps?rank=2');
    await page.locator('#tab-kernels').click();
    await page.locator('#view-kernels input').fill('gemm');
    await page.waitForFunction(() => location.hash === '#kernels?q=gemm&rank=2');
    await page.locator('#tab-steps').click();
    await page.locator('#tab-kernels').click();
    await page.waitForFunction(() => location.hash === '#kernels?q=gemm&rank=2');
    assert.equal(await page.locator('#view-kernels input').inputValue(), 'gemm');
    await page.reload();
    assert.equal(await page.locator('#rank').inputValue(), '2');
  }));

  it('includes a name that was searched for exactly', () => visit(one, 'timeline', async (page) => {
    await page.waitForSelector('.tl-panel');
    await page.evaluate(() => { location.hash += '&name=gemm'; });
    await page.waitForFunction(() => /[?&]name=gemm/.test(location.hash));
    await page.reload();
    await page.waitForFunction(() => /[?&]name=gemm/.test(location.hash) && !/[?&]q=/.test(location.hash));
  }));
});

describe('addresses of what is picked', () => {
  for (const [view, at] of [['kernels', 2], ['ops', 1], ['roofline', 1]]) {
    it(`lead back to a row of ${view}`, () => visit(one, view, async (page) => {
      await page.locator(`#view-${view} tr[data-row="${at}"]`).click();
      const picked = await text(page, `#view-${view} .detail h3`);
      await page.waitForFunction(() => /[?&]row=\d+/.test(location.hash));
      await page.reload();
      await page.waitForSelector(`#view-${view} .detail h3`);
      assert.equal(await text(page, `#view-${view} .detail h3`), picked);
      assert.equal(await page.locator(`#view-${view} tr.active`).getAttribute('data-row'), String(at));
    }));
  }

  it('lead back to a part of the flame graph and to a function', () => visit(one, 'flame', async (page) => {
    await page.locator('#view-flame canvas').first().focus();
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
    const trail = await text(page, '.trail');
    assert.match(new URL(page.url()).hash, /[?&]at=\d+/);
    await page.reload();
    await page.waitForSelector('html.ready');
    assert.equal(await text(page, '.trail'), trail);
    await page.locator('#view-flame button[data-layout="sandwich"]').click();
    await page.locator('.sandwich tr[data-row="1"]').click();
    assert.match(new URL(page.url()).hash, /as=sandwich&function=\d+/);
    await page.reload();
    await page.waitForSelector('html.ready');
    assert.match(await text(page, '.sandwich'), /Called by, innermost first/);
    assert.equal(await page.locator('.sandwich tr.active').getAttribute('data-row'), '1');
  }));
});

describe('addresses of what is drawn', () => {
  it('lead back to the split of the steps', () => visit(one, 'steps', async (page) => {
    await page.locator('#view-steps button[data-split="device"]').click();
    assert.equal(new URL(page.url()).hash, '#steps?by=device');
    await page.reload();
    await page.waitForSelector('html.ready');
    assert.equal(await page.locator('#view-steps button[data-split="device"]').getAttribute('aria-pressed'), 'true');
  }));

  it('lead back to a search and an arrangement of the flame graph', () => visit(one, 'flame', async (page) => {
    await page.locator('#view-flame button[data-measure="device"]').click();
    await page.locator('#view-flame input').fill('gemm');
    assert.equal(new URL(page.url()).hash, '#flame?q=gemm&by=device');
    const found = await text(page, '#view-flame [role="status"]');
    await page.reload();
    await page.waitForSelector('html.ready');
    assert.equal(await text(page, '#view-flame [role="status"]'), found);
    assert.equal(await page.locator('#view-flame button[data-measure="device"]').getAttribute('aria-pressed'), 'true');
    await page.locator('#view-flame button[data-layout="sandwich"]').click();
    assert.equal(new URL(page.url()).hash, '#flame?q=gemm&by=device&as=sandwich');
  }));

  it('lead back to a bound and a search of the roofline', () => visit(one, 'roofline?of=kernels&bound=compute&q=gemm', async (page) => {
    assert.equal(await page.getByRole('button', { name: 'Kernels', exact: true }).getAttribute('aria-pressed'), 'true');
    assert.equal(await page.locator('#view-roofline select').inputValue(), 'compute');
    assert.equal(await page.locator('#view-roofline input').inputValue(), 'gemm');
    assert.match(await text(page, '#view-roofline .tools [role="status"]'), /^\d+ of \d+ rows?/);
    await page.locator('#view-roofline input').fill('');
    assert.equal(new URL(page.url()).hash, '#roofline?of=kernels&bound=compute');
  }));
});

describe('everybody', () => {
  it('finds headings in order, in every view', () => visit(one, '', async (page) => {
    for (const id of await page.locator('.tabs a').evaluateAll((tabs) => tabs.map((tab) => tab.hash.slice(1)))) {
      await page.evaluate((view) => { location.hash = view; }, id);
      await settled(page);
      const levels = await page.locator('h1:visible, main :is(h2, h3, h4):visible').evaluateAll((all) => all.map((heading) => Number(heading.tagName[1])));
      assert.equal(levels[0], 1);
      levels.forEach((level, i) => assert.ok(i === 0 || level <= levels[i - 1] + 1, `${id}: ${levels}`));
    }
  }));

  it('hits what is to be pressed on a phone', () => visit(one, '', async (page) => {
    for (const id of ['overview', 'timeline', 'steps', 'kernels', 'roofline', 'flame', 'memory', 'inputs']) {
      await page.evaluate((view) => { location.hash = view; }, id);
      await settled(page);
      const small = await page.locator('button:visible, select:visible, input:visible, .tabs a:visible').evaluateAll((all) =>
        all.filter((target) => target.getBoundingClientRect().height < 31.5).map((target) => target.outerHTML.slice(0, 120)));
      assert.deepEqual(small, [], id);
    }
  }, { size: [400, 800] }));
});

describe('keyboard', () => {
  it('reaches every view by its number and by arrows', () => visit(one, '', async (page) => {
    const ids = await page.locator('.tabs a').evaluateAll((tabs) => tabs.map((tab) => tab.hash.slice(1)));
    assert.equal(ids.length, 11);
    for (const [i, id] of ids.entries()) {
      await page.keyboard.press('1234567890i'[i]);
      assert.ok(await page.locator(`#view-${id}`).isVisible(), id);
      assert.equal(await page.locator('.view:visible').count(), 1);
    }
    await page.keyboard.press('ArrowRight');
    assert.ok(await page.locator('#view-overview').isVisible());
    await page.keyboard.press('ArrowLeft');
    assert.ok(await page.locator('#view-inputs').isVisible());
  }));

  it('shows where the focus is, and the list of keys', () => visit(one, '', async (page) => {
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'none');
    await page.keyboard.press('?');
    assert.ok(await page.locator('dialog.keys').isVisible());
    await page.keyboard.press('Escape');
    assert.ok(!(await page.locator('dialog.keys').isVisible()));
  }));
});

describe('theme', () => {
  it('follows the system, and a choice stays over the next visit', () => visit(one, '', async (page) => {
    const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await back();
    await page.locator('#theme').click();
    assert.equal(await text(page, '#theme'), 'Theme: light');
    assert.notEqual(await back(), dark);
    await page.reload();
    await page.waitForSelector('html.ready');
    assert.equal(await text(page, '#theme'), 'Theme: light');
  }, { theme: 'dark' }));
});

describe('steps', () => {
  it('has a bar and a row for each step; both lead to the timeline', () => visit(one, 'steps', async (page) => {
    assert.equal((await cells(page, 'steps', 1)).length, 6);
    assert.ok((await cells(page, 'steps', 8)).includes('warm-up'), 'no warm-up step');
    await page.locator('#view-steps button[data-split="device"]').click();
    assert.match(await text(page, '#view-steps .legend'), /GPU busy/);
    const bars = await page.locator('#view-steps canvas').boundingBox();
    await page.mouse.move(bars.x + 100, bars.y + bars.height - 40);
    assert.match(await text(page, '.tip'), /ProfilerStep#5/);
    await page.mouse.click(bars.x + 100, bars.y + bars.height - 40);
    assert.ok(await page.locator('#view-timeline').isVisible());
    await page.waitForFunction(() => /ProfilerStep#5/.test(document.querySelector('.tl-panel')?.textContent ?? ''));
  }));
});

describe('kernels', () => {
  it('sorts by its headings', () => visit(one, 'kernels', async (page) => {
    const calls = async () => (await cells(page, 'kernels', 3)).map((n) => Number(n.replace(/,/g, '')));
    await page.getByRole('button', { name: 'Calls' }).click();
    const down = await calls();
    assert.deepEqual(down, [...down].sort((a, b) => b - a));
    await page.getByRole('button', { name: 'Calls' }).click();
    const up = await calls();
    assert.deepEqual(up, [...up].sort((a, b) => a - b));
    assert.equal(await page.locator('#view-kernels th[aria-sort="ascending"]').innerText(), 'Calls ↑'.replace(' ↑', ''));
  }));

  it('searches full names and filters by category', () => visit(one, 'kernels', async (page) => {
    const all = (await cells(page, 'kernels', 1)).length;
    await page.locator('#view-kernels input').fill('gemm');
    const found = await cells(page, 'kernels', 1);
    assert.ok(found.length > 0 && found.length < all);
    await page.locator('#view-kernels input').fill('no such kernel');
    assert.equal((await cells(page, 'kernels', 1)).length, 0);
    assert.match(await text(page, '#view-kernels [role="status"]'), /^0 of /);
    await page.locator('#view-kernels input').fill('');
    await page.locator('#view-kernels select').selectOption('elementwise');
    assert.deepEqual([...new Set(await cells(page, 'kernels', 2))], ['elementwise']);
  }));

  it('shows the durations of a picked kernel and finds it in the timeline', () => visit(one, 'kernels', async (page) => {
    await page.locator('#view-kernels tr[data-row="0"]').click();
    const detail = await text(page, '#view-kernels .detail');
    for (const part of ['Calls', 'Min', 'Median', 'p95', 'Max', 'Distribution']) assert.ok(detail.includes(part), part);
    assert.ok(await page.locator('#view-kernels .detail canvas').isVisible());
    const name = await text(page, '#view-kernels .detail .fullname code');
    assert.match(detail, /Launched from: operator, module, source line\s+aten::/);
    await page.locator('#view-kernels .detail .see').click();
    await page.waitForFunction((n) => document.querySelector('.tl-panel')?.textContent.includes(n.slice(0, 40)), name);
  }));

  it('is walked with the arrow keys', () => visit(one, 'kernels', async (page) => {
    await page.locator('#view-kernels .scroll').focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    assert.equal(await page.locator('#view-kernels tr.active').getAttribute('data-row'), '1');
    await page.keyboard.press('End');
    assert.ok(await page.locator('#view-kernels tr.active').isVisible());
  }));

  it('has only the rows in view as elements, whatever the number', () => visit(one, 'ops', async (page) => {
    const said = Number((await text(page, '#view-ops [role="status"]')).replace(/\D/g, ''));
    const rows = await page.locator('#view-ops tr[data-row]').count();
    assert.ok(rows <= said && rows < 100, `${rows} of ${said}`);
    await page.locator('#view-ops .scroll').evaluate((box) => box.scrollTo(0, box.scrollHeight));
    await page.waitForSelector(`#view-ops tr[data-row="${said - 1}"]`);
  }));
});

describe('flame graph', () => {
  it('zooms, searches and goes back, by pointer and by keys', () => visit(one, 'flame', async (page) => {
    const box = await page.locator('#view-flame canvas').boundingBox();
    await page.mouse.move(box.x + 60, box.y + 50);
    assert.match(await text(page, '.tip'), /of all/);
    await page.mouse.click(box.x + 60, box.y + 50);
    assert.ok((await page.locator('.crumb').count()) > 1);
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('.crumb').count(), 1);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    assert.equal(await page.locator('.crumb').count(), 2);
    await page.keyboard.press('Backspace');
    assert.equal(await page.locator('.crumb').count(), 1);
    await page.locator('#view-flame input').fill('aten::');
    assert.match(await text(page, '#view-flame [role="status"]'), /frames match: .*% of all/);
    await page.locator('#view-flame button[data-measure="device"]').click();
    await page.mouse.move(box.x + 61, box.y + 51);
    assert.match(await text(page, '.tip'), /on the GPU/);
    assert.match(await text(page, '.tip'), / % of what these calls launched/);
  }));

  it('ends in kernels, and shows the hits of a search when zoomed', () => visit(one, 'flame', async (page) => {
    await page.locator('#view-flame button[data-measure="device"]').click();
    await page.locator('#view-flame input').fill('gemm');
    assert.match(await text(page, '#view-flame [role="status"]'), /^\d+ frames? match/);
    await page.locator('#view-flame input').fill('');
    await page.locator('#view-flame canvas').first().focus();
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
    const zoomed = await page.locator('.crumb').count();
    assert.ok(zoomed > 1);
    await page.locator('#view-flame input').fill('__next__');
    await page.waitForFunction((n) => document.querySelectorAll('.crumb').length < n, zoomed);
  }));

  it('goes to the hits of a search one after another', () => visit(one, 'flame', async (page) => {
    assert.ok(!(await page.getByRole('button', { name: 'Next hit' }).first().isVisible()));
    await page.locator('#view-flame input').fill('cudaLaunchKernel');
    const said = [];
    for (const go of [() => page.getByRole('button', { name: 'Next hit' }).first().click(), () => page.locator('#view-flame input').press('Enter')]) {
      await go();
      said.push(await text(page, '#view-flame [role="status"]'));
      assert.match(await page.locator('.crumb').last().innerText(), /cudaLaunchKernel/);
    }
    assert.match(said[0], /^Hit 1 of \d+: cudaLaunchKernel, /);
    assert.match(said[1], /^Hit 2 of /);
  }));

  it('in time order shows the thread, and picks none of its calls', () => visit(one, 'flame', async (page) => {
    await page.getByRole('button', { name: 'In time order' }).click();
    await page.waitForFunction(() => /[?&]t=/.test(location.hash));
    assert.doesNotMatch(new URL(page.url()).hash, /event=/);
    assert.ok(await page.locator('.tl-title', { hasText: /^thread/ }).first().isVisible());
  }));

  it('sorts functions by time of the GPU, and says of which there is none', () => visit(one, 'flame', async (page) => {
    await page.locator('#view-flame button[data-layout="sandwich"]').click();
    assert.equal(await page.locator('.sandwich th[aria-sort]').innerText(), 'CPU self');
    await page.locator('#view-flame input').fill('__next__');
    await page.locator('.sandwich tr[data-row="0"]').click();
    assert.equal(await page.locator('.sandwich canvas:visible').count(), 2);
    await page.locator('#view-flame button[data-measure="device"]').click();
    assert.equal(await page.locator('.sandwich th[aria-sort]').innerText(), 'GPU');
    assert.match(await text(page, '.sandwich'), /__next__ launches nothing on the GPU/);
    assert.equal(await page.locator('.sandwich canvas:visible').count(), 0);
  }));

  it('has every function once, with its callers and what it calls', () => visit(one, 'flame', async (page) => {
    await page.locator('#view-flame button[data-layout="sandwich"]').click();
    await page.locator('#view-flame input').fill('aten::');
    await page.locator('.sandwich tr[data-row="0"]').click();
    assert.match(await text(page, '.sandwich'), /Called by, innermost first[\s\S]*Calls/);
    assert.equal(await page.locator('.sandwich canvas:visible').count(), 2);
  }));
});

describe('memory and devices', () => {
  it('shows memory over time and what held it at the peak', () => visit(one, 'memory', async (page) => {
    assert.ok(await page.locator('#view-memory .uplot canvas').isVisible());
    assert.match(await text(page, '#view-memory .facts'), /Peak allocated/);
    assert.ok((await cells(page, 'memory', 1)).length > 1);
    await page.locator('#view-memory tr[data-row="1"]').click();
    assert.match(await text(page, '#view-memory .detail'), /Called from/);
  }));

  it('lays samples under the kernels on one axis of time', () => visit(one, 'devices', async (page) => {
    const plots = await page.locator('#view-devices .plot').evaluateAll((all) => all.map((plot) => plot.getAttribute('aria-label')));
    for (const what of ['ran kernels', 'Utilization', 'Power', 'Clocks', 'Temperature', 'held back']) assert.ok(plots.some((plot) => plot.includes(what)), what);
    assert.match(await text(page, '#view-devices table.data'), /Power, mean/);
    const plot = await page.locator('#view-devices .plot .u-over').first().boundingBox();
    await page.mouse.move(plot.x + plot.width / 2, plot.y + plot.height / 2);
    const legends = await page.locator('#view-devices .u-legend').allInnerTexts();
    assert.ok(legends.every((legend) => !/at:\s*–/.test(legend)), 'the cursors are not in step');
  }));
});

describe('samples alone', () => {
  it('are shown over time, and the other views say what they lack', () => visit(analyzed('samples', samplesBeside(path('one.json'))), 'devices', async (page) => {
    assert.ok((await page.locator('#view-devices .plot').count()) >= 5);
    assert.equal(await page.getByRole('button', { name: 'Show in timeline' }).count(), 0);
    assert.equal(await page.locator('.tabs a.absent').count(), 8);
    await page.keyboard.press('i');
    assert.match(await text(page, '.lacking'), /ProfilerActivity/);
  }));
});

describe('steps that the timeline does not hold', () => {
  it('keep their bars and lead to their place', () => visit(analyzed('few', path('one.json'), '--html-steps', '7:8'), 'steps', async (page) => {
    assert.equal((await cells(page, 'steps', 1)).length, 6);
    assert.match(await text(page, '#view-steps .legend'), /not kept/);
    const whole = Number.parseFloat((await cells(page, 'steps', 3))[5]);
    await page.locator('#view-steps tr[data-row="5"] button').click();
    await page.waitForFunction(() => /ms in view/.test(document.querySelector('.tl-corner').textContent));
    assert.ok(Math.abs(Number.parseFloat(await text(page, '.tl-corner')) - whole) < 0.2 * whole);
    await page.keyboard.press('i');
    assert.match(await text(page, '#view-inputs'), /ranges and activities in full/);
  }));
});

describe('ranks', () => {
  it('stand side by side, the late one named', () => visit(job, 'ranks', async (page) => {
    assert.match(await text(page, '#view-ranks'), /4 ranks/);
    assert.match(await text(page, '#view-ranks ul.job'), /data parallel/);
    assert.match(await text(page, '#view-ranks ul.job'), /with rank 3 like the others/);
    const table = await text(page, '#view-ranks table.data');
    assert.match(table, /% *\n?/);
    assert.match(await text(page, '#view-ranks tr:has-text("per step")'), /^3/);
    await page.locator('#view-ranks tr[data-row="2"] button').click();
    assert.equal(await page.locator('#rank').inputValue(), '2');
    await page.keyboard.press('4');
    assert.match(await text(page, '#view-kernels h2'), /rank 2/);
  }));

  it('of one rank say why there is nothing to see', () => visit(one, 'ranks', async (page) => {
    assert.match(await text(page, '#view-ranks .nothing'), /all ranks of a job/);
    assert.ok(await page.locator('#tab-ranks.absent').isVisible());
    await page.keyboard.press('i');
    assert.match(await text(page, '.lacking'), /Ranks/);
  }));
});

describe('timeline', () => {
  it('zooms by wheel and keys, and finds events', () => visit(one, 'timeline', async (page) => {
    const span = () => text(page, '.tl-corner');
    const whole = await span();
    const plot = await page.locator('.tl-plot').boundingBox();
    await page.mouse.move(plot.x + plot.width / 2, plot.y + 60);
    await page.mouse.wheel(0, -600);
    await page.waitForFunction((was) => document.querySelector('.tl-corner').textContent !== was, whole);
    const closer = await span();
    await page.keyboard.press('w');
    await page.waitForFunction((was) => document.querySelector('.tl-corner').textContent !== was, closer);
    await page.locator('#view-timeline input[type="search"], .tl-tools input').first().fill('addmm');
    await page.waitForFunction(() => /\d/.test(document.querySelector('.tl-count')?.textContent ?? ''));
  }));
});

describe('layout', () => {
  for (const width of [400, 1280, 2560]) {
    it(`needs no sideways scrolling at ${width} pixels`, () => visit(job, '', async (page) => {
      for (const id of ['overview', 'timeline', 'steps', 'kernels', 'ops', 'roofline', 'flame', 'memory', 'ranks', 'devices', 'inputs']) {
        await page.evaluate((view) => { location.hash = view; }, id);
        await settled(page);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${id} is ${over} pixels too wide`);
      }
    }, { size: [width, 800] }));
  }
});

describe('a phone', () => {
  it('shows names and times of kernels, and tools whose words do not break', () => visit(one, 'kernels', async (page) => {
    for (const [view, title] of [['kernels', 'Total'], ['roofline', 'Total'], ['ops', 'CPU self']]) {
      await page.evaluate((id) => { location.hash = id; }, view);
      await settled(page);
      const heading = await page.locator(`#view-${view} th button`, { hasText: title }).first().boundingBox();
      assert.ok(heading.x + heading.width <= 375, `${title} of ${view} ends at ${heading.x + heading.width}`);
    }
    await page.keyboard.press('2');
    const tall = await page.locator('.tl-tools button').evaluateAll((all) => all.filter((button) => button.getBoundingClientRect().height > 36).map((button) => button.textContent));
    assert.deepEqual(tall, []);
    const cut = await page.locator('.tl-title:not([hidden]) small').evaluateAll((all) => all.filter((range) =>
      range.getBoundingClientRect().bottom > range.closest('.tl-title').getBoundingClientRect().bottom + 0.5).map((range) => range.textContent));
    assert.deepEqual(cut, []);
  }, { size: [375, 812] }));
});

describe('a phone, held upright', () => {
  const kPhone = { size: [390, 844] };

  it('has targets of 32 pixels', () => visit(one, '', async (page) => {
    for (const id of ['overview', 'steps', 'kernels', 'flame', 'inputs']) {
      await page.evaluate((view) => { location.hash = view; }, id);
      await settled(page);
      const low = await page.locator(`#view-${id} :is(a, button, input, select):visible`).evaluateAll((all) =>
        all.filter((target) => target.getBoundingClientRect().height < 31.5).map((target) => `${target.tagName} ${target.textContent}`));
      assert.deepEqual(low, [], id);
    }
  }, kPhone));

  it('gives a place of the program the whole line', () => visit(one, '', async (page) => {
    const at = page.locator('.at').first();
    const [place, time] = [await at.locator('.place').boundingBox(), await at.locator('> .time').last().boundingBox()];
    assert.ok(time.y >= place.y + place.height - 1, 'the time stands beside the place');
  }, kPhone));

  it('brings in what is said of a row that is picked', () => visit(one, 'kernels', async (page) => {
    for (const id of ['kernels', 'ops', 'roofline']) {
      await page.evaluate((view) => { location.hash = view; }, id);
      await settled(page);
      await page.locator(`#view-${id} tr[data-row="0"]`).click();
      await settled(page);
      const title = await page.locator(`#view-${id} .detail h3`).boundingBox();
      assert.ok(title.y >= 0 && title.y + title.height <= 844, `${id}: ${title.y}`);
    }
  }, kPhone));

  it('gives the plot of the timeline the room of the panel that is closed', () => visit(one, 'timeline', async (page) => {
    const bottom = () => page.evaluate(() => ['.tl-body', '.tl-plot', '.tl-plot canvas'].map((of) => document.querySelector(of).getBoundingClientRect().bottom));
    await page.getByRole('button', { name: 'Panel' }).click();
    await settled(page);
    const [body, plot, canvas] = await bottom();
    assert.ok(Math.abs(body - plot) < 3 && Math.abs(plot - canvas) < 3, `${body}, ${plot}, ${canvas}`);
  }, kPhone));
});

describe('paper', () => {
  it('is light, whatever the page is', () => visit(one, '', async (page) => {
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    const [on_paper, on_page] = await page.evaluate(() => ['#paper', '#view-overview'].map((of) =>
      [...document.querySelectorAll(`${of} .stack span`)].map((part) => getComputedStyle(part).backgroundColor)));
    assert.equal(on_paper.length, on_page.length);
    assert.ok(on_paper.every((colour, i) => colour !== on_page[i]));
    const idle = await page.locator('#paper .stack').first().locator('span').last().evaluate((part) => getComputedStyle(part).backgroundColor);
    assert.equal(idle, 'rgb(213, 218, 224)');
    assert.doesNotMatch(await text(page, '#paper'), /tabs above/);
  }, { theme: 'dark' }));

  it('has overview, findings and tables in full, and no more pages than they need', () => visit(one, 'kernels', async (page) => {
    await page.emulateMedia({ media: 'print' });
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    const paper = await text(page, '#paper');
    for (const part of ['The GPU waits for data', 'full-precision-gemm', 'Distance from the limit', 'Roofline: operators', 'Steps', 'Kernels', 'Ops', 'Inputs']) assert.ok(paper.includes(part), part);
    assert.ok(!(await page.locator('#page').isVisible()));
    // On every page stand its name and the device; findings begin on the first.
    assert.match(await page.locator('#paper style').textContent(), /@top-left \{ content: "one\.json and 1 more"[\s\S]*@top-right \{ content: "[^"]+"/);
    assert.equal(await page.locator('#paper .findings').evaluate((list) => getComputedStyle(list).breakInside), 'auto');
    for (const theme of ['dark', 'light']) {
      await page.emulateMedia({ media: 'print', colorScheme: theme });
      assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)');
    }
    await page.evaluate(() => dispatchEvent(new Event('afterprint')));
    await page.emulateMedia({ media: null });
    const file = path('paper.pdf');
    await page.pdf({ path: file, format: 'A4' });
    const said = execFileSync('grep', ['-ac', '/Type */Page\\b', file]).toString();
    assert.ok(Number(said) >= 2 && Number(said) <= 12, `${said} pages`);
    assert.equal(await page.locator('#paper').count(), 0);
  }));
});
