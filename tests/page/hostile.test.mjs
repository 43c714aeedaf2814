// Names from a trace are data, whatever is in them: nothing runs, nothing loads, nothing breaks the page.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, describe, it } from 'node:test';
import { analyzed, closeBrowser, memorySnapshot, opened, pageOfEvents, settled } from './pages.mjs';

after(closeBrowser);

const kNames = {
  'script and picture': '</script><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>',
  'comment and mark': '<!--profgpu:data--><!--<script>--><svg onload="document.title=\'owned\'">',
  'attribute': '"><a href="https://example.invalid/" onmouseover="document.title=\'owned\'">x</a>',
  'address': 'javascript:document.title="owned"',
  'control characters': 'a\u0000b\u0001c\u001b[31md\u0007\u007f\u0085e',
  'turned direction': 'kernel\u202Egnp.elif\u2066\u200F',
  'lone surrogate': 'a\ud800b',
  'megabyte': 'x'.repeat(1 << 20),
  'prototype': '__proto__',
  'nothing': '',
};
const kViews = ['overview', 'timeline', 'steps', 'kernels', 'ops', 'roofline', 'flame', 'memory', 'ranks', 'devices', 'inputs'];

// The name as kernel, operator, range, argument, device and thread.
function eventsNamed(name) {
  return [
    { ph: 'X', cat: 'user_annotation', name: 'ProfilerStep#1', pid: 1, tid: 1, ts: 0, dur: 1000 },
    { ph: 'X', cat: 'user_annotation', name, pid: 1, tid: 1, ts: 10, dur: 900 },
    { ph: 'X', cat: 'cpu_op', name, pid: 1, tid: 1, ts: 20, dur: 800, args: { 'External id': 1, [name]: name } },
    { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts: 30, dur: 10, args: { correlation: 1 } },
    { ph: 'X', cat: 'kernel', name, pid: 0, tid: 7, ts: 100, dur: 200, args: { device: 0, stream: 7, correlation: 1, grid: name } },
    { ph: 'X', cat: 'kernel', name, pid: 0, tid: 7, ts: 400, dur: 300, args: { device: 0, stream: 7, correlation: 2 } },
    { ph: 'M', name: 'thread_name', pid: 1, tid: 1, args: { name } },
    { ph: 'M', name: 'process_name', pid: 0, tid: 0, args: { name } },
  ];
}

describe('hostile names', () => {
  for (const [what, name] of Object.entries(kNames)) {
    it(`${what}: stays text in every view`, async () => {
      const file = pageOfEvents(`hostile-${what.replace(/ /g, '-')}`, eventsNamed(name));
      const { page, wrong, close } = await opened(file);
      for (const view of kViews) {
        await page.evaluate((id) => { location.hash = id; }, view);
        await settled(page);
        if (view === 'kernels' || view === 'ops') await page.locator(`#view-${view} tr[data-row="0"]`).click();
      }
      assert.ok(!(await page.title()).includes('owned'));
      assert.equal(await page.locator('img, iframe, object, embed, #page a:not([href^="#"])').count(), 0);
      assert.equal(await page.evaluate(() => document.scripts.length), 1);
      assert.deepEqual(wrong, []);
      await close();
    });
  }

  it('stay text as frames of a memory snapshot', async () => {
    const name = kNames['script and picture'] + kNames['turned direction'] + kNames['control characters'];
    const { page, wrong, close } = await opened(analyzed('hostile-frame', memorySnapshot('hostile-frame', { frame: name })), { view: 'memory' });
    // The newest of what is held at the end has its stack.
    await page.locator('.snapshot button[data-by="made"]').click();
    await page.locator('.memstack canvas').first().focus();
    for (const key of ['End', 'ArrowDown']) await page.keyboard.press(key);
    assert.match(await page.locator('.snapshot .stacktrace').innerText(), /<\/script><img src=x onerror/);
    assert.match(await page.locator('.snapshot .stacktrace').innerText(), /\\u202e/);
    const flame = await page.locator('.flamegraph canvas').boundingBox();
    await page.mouse.move(flame.x + 30, flame.y + 50);
    assert.ok(!(await page.title()).includes('owned'));
    assert.equal(await page.locator('img, iframe, object, embed').count(), 0);
    assert.deepEqual(wrong, []);
    await close();
  });

  it('control characters and turned direction are seen as such', async () => {
    const file = pageOfEvents('hostile-shown', eventsNamed(`${kNames['control characters']}${kNames['turned direction']}`));
    const { page, close } = await opened(file, { view: 'kernels' });
    const row = await page.locator('#view-kernels tr[data-row="0"] td').first().innerText();
    assert.ok(!/[\u0000-\u0008\u001b\u202e\u2066]/.test(row), JSON.stringify(row));
    assert.match(row, /\\u202e/);
    await close();
  });
});

describe('policy', () => {
  const file = pageOfEvents('policy', eventsNamed('k'));
  const text = readFileSync(file, 'utf8');

  it('names no place outside the file', () => {
    assert.doesNotMatch(text, /\b(?:src|href|action|data|poster)\s*=\s*["']?\s*(?:https?:)?\/\//i);
    assert.doesNotMatch(text, /@import|url\(\s*["']?(?!data:)/i);
  });

  it('lets nothing run that is not the page\'s one script', async () => {
    const { page, close } = await opened(file);
    const ran = await page.evaluate(async () => {
      const refused = [];
      addEventListener('securitypolicyviolation', (event) => refused.push(event.effectiveDirective));
      const script = document.createElement('script');
      try {
        script.textContent = 'document.title = "owned"';
        document.body.append(script);
      } catch { refused.push('thrown'); }
      try {
        document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="document.title=\'owned\'">');
      } catch { refused.push('thrown'); }
      try {
        await fetch('https://example.invalid/');
      } catch { /* refused below */ }
      for (let i = 0; i < 1000 && refused.length < 2; ++i) await new Promise((done) => setTimeout(done, 50));
      return { title: document.title, refused };
    });
    assert.ok(!ran.title.includes('owned'));
    assert.ok(ran.refused.length >= 2, ran.refused.join());
    await close();
  });
});
