// One figure for one thing: what a step takes and would take, and what each finding costs, in the document, the page, the
// terminal and Markdown.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { analyzed, closeBrowser, documentOf, program, realTraces, simulated, text, visited } from './pages.mjs';

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

/** What a report in Markdown says, as its words. */
function wordsOf(markdown) {
  const lines = markdown.split('\n').map((line) => line.replace(/\\([^\w\s])/g, '$1').replace(/&lt;/g, '<').replace(/&gt;/g, '>').replace(/&amp;/g, '&'));
  const from = (title) => {
    const at = lines.findIndex((line) => title.test(line));
    const rest = at < 0 ? [] : lines.slice(at + 1);
    return { title: lines[at], rows: rest.slice(0, rest.findIndex((line) => line.startsWith('#'))).filter((line) => line.startsWith('| ')).slice(2).map((line) => line.split(/ *\| */).slice(1, -1)) };
  };
  return { lines, step: from(/^### (A step of|The whole trace,) /), kernels: from(/^### Top kernels/) };
}

const plain = (said) => said.replace(/\u00a0/g, ' ').replace(/\s+/g, ' ').trim();
const escaped = (said) => said.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** The step, its phases, each device and each finding read the same on the page and in Markdown. */
async function overviewReads(page, markdown, findings) {
  const { lines, step } = wordsOf(markdown);
  const sums = plain(await text(page, '.sums'));
  // Engines' steps are of the host, which only Markdown says.
  if (step.title) assert.ok(sums.includes(step.title.slice('### '.length).replace(/ on the host|, rank \d+/g, '')), `"${step.title}" is not in ${sums.slice(0, 200)}`);
  for (const [name, ns, share] of step.rows) assert.match(sums, new RegExp(`\\b${escaped(name)} ${escaped(ns)} ${escaped(share)}`), `the phase ${name}`);
  for (const line of lines.filter((said) => /^- \*\*GPU \d+\*\* busy/.test(said))) {
    const [, device, busy, idle, causes] = /\*\*(GPU \d+)\*\* busy (\S+ %), idle (\S+ %)(?:: ([^;]*))?/.exec(line.replace(/, not recorded \S+ %/, ''));
    const section = plain(await page.locator('.sums h2').evaluateAll((all, name) => all.find((heading) => heading.firstChild.textContent === name).parentElement.innerText, device));
    assert.ok(section.includes(`busy ${busy} of `), `${device}: ${busy} in ${section}`);
    assert.ok(section.includes(`idle ${idle}`), `${device}: ${idle} in ${section}`);
    for (const cause of (causes ?? '').split(', ').filter(Boolean)) {
      const [, name, share] = /^(.*) (<?[\d.]+ %)$/.exec(cause);
      assert.match(sums, new RegExp(`${escaped(name)} [\\d.,]+ \\S+ ${escaped(share)}`), `${device}: ${cause}`);
    }
    const [, rest] = /busy (\S+ % of the (?:recorded time|time with requests))/.exec(line) ?? [];
    if (rest) assert.ok(section.includes(rest), `${device}: ${rest} in ${section}`);
  }
  for (const [i, { rule, where }] of findings.entries()) {
    const at = lines.findIndex((said) => said.startsWith(`${i + 1}. **${rule}**`));
    const item = plain(await page.locator('.finding').nth(i).innerText());
    const [, cost, per_step = ''] = /costs \*\*([^*]+)\*\*( per step)?/.exec(lines[at]) ?? [];
    if (cost) assert.ok(item.includes(`${cost}${per_step} `), `${rule}: ${cost}${per_step} in ${item}`);
    const places = [];
    for (let k = at + 1; lines[k]?.startsWith('    - '); k++) if (/^ {4}- in .*: [\d.,]+ (?:ns|µs|ms|s)(?: per step)?$/.test(lines[k])) places.push(lines[k]);
    assert.equal(places.length, where.length, rule);
    for (const place of places) {
      const [, ns] = /: ([^:]*)$/.exec(place);
      assert.match(item, new RegExp(`: ${escaped(ns)}(?! per step per)`), `${rule}: ${place}`);
    }
  }
}

/** The largest kernels of Markdown in the table of kernels, with their calls and times. */
async function kernelsRead(page, markdown) {
  await page.evaluate(() => { location.hash = 'kernels'; });
  await page.waitForSelector('#view-kernels:not([hidden])');
  const { kernels } = wordsOf(markdown);
  if (kernels.rows.length === 0) return;
  const rows = (await page.locator('#view-kernels tr[data-row]').allInnerTexts()).map(plain);
  for (const row of kernels.rows) {
    const [calls, total, mean, share] = row.slice(-4);
    assert.ok(rows.some((of) => of.includes(` ${calls} ${total} ${share} ${mean} `)), `${row.join(' ')} in\n${rows.slice(0, 8).join('\n')}`);
  }
}

/** The share of the peak rate and the distance from the limit, in the view that owns them and in the overview. */
async function limitsRead(page, { roofline, distance, average_step }) {
  if (average_step && distance?.steps > 0) {
    // One length of a step: what the distance is of, and what it leaves out.
    const step_ns = average_step.elapsed_ns, sum_ns = (distance.wall_ns + distance.left_out_ns) / distance.steps;
    assert.ok(Math.abs(step_ns - sum_ns) <= 1, `a step of ${step_ns} ns, and a distance of ${sum_ns} ns`);
    const sums = plain(await text(page, '.sums'));
    const [, shown] = /A step of ([\d.,]+ (?:ns|µs|ms|s))/.exec(sums) ?? [];
    if (shown && distance.parts.some(({ part }) => part !== 'outside')) {
      await page.evaluate(() => { location.hash = 'roofline'; });
      await page.waitForSelector('#view-roofline:not([hidden])');
      const of = plain(await page.locator('#view-roofline h2').first().innerText());
      assert.ok(of.includes(`a step, ${shown}`), `${of} is not of ${shown}`);
      await page.evaluate(() => { location.hash = 'overview'; });
      await page.waitForSelector('#view-overview:not([hidden])');
    }
  }
  const said = await page.locator('.verdict .distance').count() > 0 ? await text(page, '.verdict .distance') : null;
  if (said === null || !roofline) return;
  await page.locator('.verdict .distance a').click();
  const facts = plain(await text(page, '#view-roofline .facts'));
  assert.equal(plain(await text(page, '#view-roofline p.distance')), plain(said));
  const [, mfu] = /MFU ([\d.]+) %/.exec(plain(said)) ?? [];
  if (mfu) assert.ok(Math.abs(Number(mfu) - roofline.mfu_pct) <= 0.51 && facts.includes(`MFU ${roofline.mfu_pct === 100 ? 100 : roofline.mfu_pct.toFixed(1)} %`), `${mfu} and ${facts}`);
  const measured = (await page.locator('.waterfall tr[data-part="measured"] td.num').first().innerText()).trim();
  same(measured, distance.wall_ns / Math.max(1, distance.steps), 'the measured time');
}

async function compare(name, trace) {
  const document = documentOf(trace);
  const terminal = printed(trace, '--section', 'findings', '--width', '200');
  const markdown = printed(trace, '--format', 'markdown');
  await visited(analyzed(`figures-${name}`, trace), (page) => readEverywhere(page, document, terminal, markdown));
}

async function readEverywhere(page, document, terminal, markdown) {
  const { saving, findings, verdict } = document;
  const said = /from ([\d.,]+ \S+) to (?:about )?([\d.,]+ (?:ns|µs|ms|s))/.exec(verdict);
  assert.equal(saving !== null, said !== null, `the verdict and saving: ${verdict}`);
  if (saving) {
    const [now, fixed] = (await page.locator('.gain .whole').allInnerTexts()).map(plain);
    const [, then] = /about ([\d.,]+ (?:ns|µs|ms|s))/.exec(fixed);   // in the bar, or beside a short one
    for (const text of [said[1], now]) same(text, saving.step_ns, 'a step');
    for (const text of [said[2], then]) same(text, saving.without_ns, 'a step without the cause');
    const cause = findings.find((finding) => finding.rule === saving.rule);
    assert.ok(Math.abs(saving.step_ns - saving.without_ns - cause.cost_ns / cause.steps) <= 2, 'the verdict saves what the finding costs');
  }
  for (const [i, finding] of findings.entries()) {
    if (finding.cost_ns === null) continue;
    const cost = finding.cost_ns / Math.max(1, finding.steps);
    if (cost === 0) {
      assert.equal(await page.locator('.finding').nth(i).locator('.cost').innerText(), 'saves nothing alone');
      assert.match(terminal, new RegExp(`${finding.rule} .*saves nothing`), `${finding.rule} on a terminal`);
      assert.ok(markdown.includes(`${finding.rule}** (${finding.severity}) saves nothing alone`), `${finding.rule} in Markdown`);
      continue;
    }
    same((await page.locator('.finding').nth(i).locator('.cost b').innerText()).replace(' per step', ''), cost, `${finding.rule} on the page`);
    const on_terminal = new RegExp(`[◆▲○] ${finding.rule} .*?([\\d.,]+ (?:ns|µs|ms|s))(?: +<?[\\d.]+ %)?$`, 'm').exec(terminal);
    same(on_terminal?.[1] ?? '', cost, `${finding.rule} on a terminal`);
    const in_markdown = new RegExp(`${finding.rule}\\*\\* \\([a-z]+\\) costs \\*\\*([^*]+)\\*\\*`).exec(markdown);
    same(in_markdown?.[1] ?? '', cost, `${finding.rule} in Markdown`);
  }
  await overviewReads(page, markdown, findings);
  const [, number] = /^rank (\d+)/.exec(await rankShown(page)) ?? [];
  await limitsRead(page, document.ranks.find((of) => number === undefined || of.rank === Number(number)) ?? {});
  await kernelsRead(page, markdown);
}

async function rankShown(page) {
  return (await page.locator('#rank').count()) > 0 ? page.locator('#rank option:checked').innerText() : '';
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

const kReal = realTraces();
describe('figures of real traces', { skip: kReal.length > 0 ? false : 'no real traces here' }, () => {
  for (const { name, file } of kReal) it(name, () => compare(name, file));
});
