// Each finding's button shows what the finding names: rank, device, step, and the very time that its text says.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { analyzed, closeBrowser, documentOf, opened, realTraces, simulated } from './pages.mjs';

after(closeBrowser);

const panel = (page) => page.locator('.tl-panel').innerText();

// What the panel must say of a finding, besides repeating it.
function expected({ seen, ranks }, document) {
  const said = [];
  const many = document.ranks.length > 1;
  if (seen.start_ns !== null) said.push(`Shown: the longest`);
  if (seen.step !== null) said.push(`Shown: step ${seen.step}`);
  if (seen.step !== null && many) said.push(`rank ${seen.rank ?? ranks[0]}`);
  return said;
}

/** Presses every button of the overview, and comes back each time. */
async function driven(file, document) {
  const { page, wrong, close } = await opened(file);
  for (const [i, finding] of document.findings.entries()) {
    const item = page.locator('.finding').nth(i);
    const see = item.locator('.see');
    if ((await see.count()) === 0) continue;
    const name = await see.getAttribute('aria-label');
    assert.ok(name.includes(finding.what.slice(0, 40)), `"${name}" does not name its finding`);
    const text = await see.innerText();
    assert.ok(name.startsWith(text), `"${name}" does not begin with "${text}"`);
    await see.click();
    const shown = await panel(page);
    const title = finding.what.charAt(0).toUpperCase() + finding.what.slice(1);
    assert.ok(shown.includes(title.slice(0, 60)), `${finding.rule}: the panel does not repeat it:\n${shown}`);
    for (const part of expected(finding, document)) assert.ok(shown.includes(part), `${finding.rule}: no "${part}" in\n${shown}`);
    // The time that the button names is that of what is picked.
    const [time] = /\d[\d.,]* (?:ns|µs|ms|s)\b/.exec(text) ?? [];
    if (time && finding.seen.start_ns !== null) {
      const [digits, unit] = time.split(' ');
      const picked = /(?:Idle for|Duration|Span of)\s+([\d.,]+) (\S+)/.exec(shown.slice(shown.indexOf('Back to')));
      assert.ok(picked, `${finding.rule}: nothing is picked:\n${shown}`);
      assert.equal(picked[2], unit);
      assert.ok(Math.abs(Number(picked[1].replace(/,/g, '')) / Number(digits.replace(/,/g, '')) - 1) < 0.006, `${text} and ${picked[0]}`);
      const [wait] = finding.evidence.join('; ').match(/longest wait [\d.]+ \S+?s\b/) ?? [];
      if (wait) assert.ok(text.includes(wait.slice('longest wait '.length)), `"${wait}" and "${text}"`);
      if (finding.seen.device !== null && /Idle for/.test(shown)) assert.match(shown, new RegExp(`Device\\s+${finding.seen.device}\\b`));
    }
    assert.ok(await page.evaluate(() => document.activeElement.closest('.tl-panel') !== null), 'the focus stayed behind');
    await page.locator('.tl-back').click();
    assert.ok(await page.locator('#view-overview').isVisible());
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), name);
  }
  assert.deepEqual(wrong, []);
  await close();
}

function drives(name, trace, ...options) {
  it(name, async () => {
    const document = documentOf(trace(), ...options);
    await driven(analyzed(`evidence-${name}`, trace(), ...options), document);
  });
}

describe('evidence of simulated jobs', () => {
  let slow, late;
  before(() => {
    slow = simulated('slow.json', '--steps', '6', '--fault', 'data-loading-bound', '--fault', 'full-precision-gemm', '--fault', 'warm-up');
    late = simulated('late', '--ranks', '4', '--steps', '8', '--fault', 'straggler-rank');
  });
  drives('slow', () => slow);
  drives('late', () => late);

  it('is still shown after the page was loaded again, with the way back', async () => {
    const { page, close } = await opened(analyzed('evidence-again', slow));
    const see = page.locator('.finding .see').first();
    const name = await see.getAttribute('aria-label');
    await see.click();
    await page.waitForFunction(() => /[?&]finding=0\b/.test(location.hash));
    const asked = await page.locator('.tl-asked').innerText();
    await page.reload();
    await page.waitForSelector('.tl-asked');
    assert.equal(await page.locator('.tl-asked').innerText(), asked);
    await page.locator('.tl-back').click();
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), name);
    await close();
  });

  it('of the late rank is its worst step', async () => {
    const { findings } = documentOf(late);
    const straggler = findings.find((finding) => finding.rule === 'straggler-rank');
    assert.deepEqual([straggler.seen.rank], straggler.ranks);
    const { page, close } = await opened(analyzed('evidence-worst', late));
    await page.locator('.finding[data-rule="straggler-rank"] .see').click();
    assert.match(await panel(page), new RegExp(`ProfilerStep#${straggler.seen.step}[\\s\\S]*rank ${straggler.seen.rank}`));
    await close();
  });
});

const kReal = realTraces();
describe('evidence of real traces', { skip: kReal.length > 0 ? false : 'no real traces here' }, () => {
  for (const { name, file } of kReal) drives(name, () => file);
});
