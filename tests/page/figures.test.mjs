// One figure for one thing: what a step takes and would take, and what each finding costs, in the document, the page, the
// terminal and Markdown.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { analyzed, closeBrowser, documentOf, opened, program, root, simulated } from './pages.mjs';

after(closeBrowser);

const kUnits = { 'ns': 1, 'µs': 1e3, 'ms': 1e6, 's': 1e9 };

/** "58.1 ms" as nanoseconds, and half of its last digit. */
function read(text) {
  const [, digits, unit] = /^([\d,.]+)\s(ns|µs|ms|s)$/.exec(text.trim()) ?? assert.fail(`"${text}" is no duration`);
  const decimals = (digits.split('.')[1] ?? '').length;
  return { ns: Number(digits.replace(/,/g, '')) * kUnits[unit], rounding: 0.5 * 10 ** -decimals * kUnits[unit] };
}

/** Two digits at least are shown; "120 ms" may stand for 115 to 125. */
function same(text, ns, what) {
  const shown = read(text);
  assert.ok(Math.abs(shown.ns - ns) <= Math.max(shown.rounding * 1.01, 0.051 * ns), `${what}: ${text} is not ${ns} ns`);
}

function printed(trace, ...words) {
  return execFileSync(program, ['analyze', '--quiet', trace, ...words], { stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 28 }).toString();
}

async function compare(name, trace) {
  const document = documentOf(trace);
  const { saving, findings, verdict } = document;
  const terminal = printed(trace, '--section', 'findings', '--width', '200');
  const markdown = printed(trace, '--format', 'markdown');
  const { page, close } = await opened(analyzed(`figures-${name}`, trace));
  const said = /from ([\d.,]+ \S+) to (?:about )?([\d.,]+ (?:ns|µs|ms|s))/.exec(verdict);
  assert.equal(saving !== null, said !== null, `the verdict and saving: ${verdict}`);
  if (saving) {
    const [now, then] = await page.locator('.gain .kept').allInnerTexts();
    for (const text of [said[1], now]) same(text, saving.step_ns, 'a step');
    for (const text of [said[2], then.replace('about ', '')]) same(text, saving.without_ns, 'a step without the cause');
    const cause = findings.find((finding) => finding.rule === saving.rule);
    assert.ok(Math.abs(saving.step_ns - saving.without_ns - cause.cost_ns / cause.steps) <= 2, 'the verdict saves what the finding costs');
  }
  for (const [i, finding] of findings.entries()) {
    if (finding.cost_ns === null) continue;
    const cost = finding.cost_ns / Math.max(1, finding.steps);
    same((await page.locator('.finding').nth(i).locator('.cost b').innerText()).replace(' per step', ''), cost, `${finding.rule} on the page`);
    const on_terminal = new RegExp(`[◆▲○] ${finding.rule} .*?([\\d.,]+ (?:ns|µs|ms|s))(?: +<?[\\d.]+ %)?$`, 'm').exec(terminal);
    same(on_terminal?.[1] ?? '', cost, `${finding.rule} on a terminal`);
    const in_markdown = new RegExp(`${finding.rule}\\*\\* \\([a-z]+\\) costs \\*\\*([^*]+)\\*\\* per step`).exec(markdown);
    same(in_markdown?.[1] ?? '', cost, `${finding.rule} in Markdown`);
  }
  await close();
}

describe('figures of simulated jobs', () => {
  let slow, late;
  before(() => {
    slow = simulated('figures.json', '--steps', '6', '--fault', 'data-loading-bound', '--fault', 'full-precision-gemm', '--fault', 'warm-up');
    late = simulated('figures-late', '--ranks', '4', '--steps', '8', '--fault', 'straggler-rank');
  });
  it('of one rank are equal everywhere', () => compare('one', slow));
  it('of a job are equal everywhere', () => compare('job', late));
});

const kReal = join(root, '..', 'shared', 'traces');
describe('figures of real traces', { skip: existsSync(kReal) ? false : 'no real traces here' }, () => {
  for (const name of existsSync(kReal) ? readdirSync(kReal).filter((file) => /\.json(\.gz)?$/.test(file)) : [])
    it(name, () => compare(name, join(kReal, name)));
});
