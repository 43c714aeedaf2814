// Pages that the built program makes of simulated and hand-written traces, and a browser to open them in.
// PROFGPU and KINETO_SIM name the programs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
const { chromium } = createRequire(join(root, 'web', 'package.json'))('playwright-core');

export const program = process.env.PROFGPU ?? join(root, 'build/release/profgpu');
const kSimulator = process.env.KINETO_SIM ?? join(root, 'build/release/kineto-sim');
const kChromium = process.env.CHROMIUM ?? '/usr/bin/chromium';
const kSlowdown = Number(process.env.PAGE_SLOWDOWN ?? 0);
const kFlags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

const folder = mkdtempSync(join(tmpdir(), 'profgpu-page-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

export function path(name) {
  return join(folder, name);
}

/** Runs the program; the report's file of `name`. */
export function analyzed(name, ...words) {
  const page = path(`${name}.html`);
  execFileSync(program, ['analyze', '--quiet', ...words, '--html', page], { stdio: ['ignore', 'ignore', 'pipe'] });
  return page;
}

/** The document of `profgpu analyze --json`. */
export function documentOf(...words) {
  const text = execFileSync(program, ['analyze', '--quiet', ...words, '--json'], { stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 28 });
  return JSON.parse(text);
}

/** The file that `profgpu export` writes. */
export function exported(name, trace, ...words) {
  const file = path(name);
  execFileSync(program, ['export', trace, ...words, '-o', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  return file;
}

/** Rows of `profgpu query`, as objects. */
export function queried(trace, sql) {
  return JSON.parse(execFileSync(program, ['query', trace, sql, '--format', 'json'], { stdio: ['ignore', 'pipe', 'pipe'] }));
}

export function simulated(name, ...options) {
  const trace = path(name);
  execFileSync(kSimulator, ['--no-truth', '--out', trace, ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
  return trace;
}

/** A memory snapshot of random allocations, as PyTorch writes it; `frame` names the function that makes all of them, `ops` what one line calls. */
export function memorySnapshot(name, { devices = 1, events = 400, version = '2.9', frame = '', ops = [] } = {}) {
  const file = path(`${name}.pickle`);
  const code = `
import json, pickle, sys
import memory_snapshots as m
name, version, devices, events, frame, ops = json.loads(sys.argv[1])
if frame:
    m.STACKS = ([m.frame(frame, frame), m.frame('main')],)
if ops:
    m.STACKS = tuple([m.frame(f'at::_ops::{op}::call(at::Tensor const&)', '??', 0), m.frame('step', '/me/job/optim.py', 80)] for op in ops)
pickle.dump(m.snapshot(version, 3, devices, events), open(name, 'wb'))`;
  execFileSync('python3', ['-c', code, JSON.stringify([file, version, devices, events, frame, ops])],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, PYTHONPATH: join(root, 'tests', 'python') } });
  return file;
}

/** A trace of the given events, and the page of it. */
export function pageOfEvents(name, events, ...words) {
  const trace = path(`${name}.json`);
  writeFileSync(trace, JSON.stringify({ schemaVersion: 1, traceEvents: events }));
  return analyzed(name, trace, ...words);
}

/** Samples of device 0 over the trace's time and a little around it: power capped in one stretch, hot in another. */
export function samplesBeside(trace) {
  const { baseTimeNanoseconds: base = 0, traceEvents: events } = JSON.parse(readFileSync(trace, 'utf8'));
  const times = events.filter((e) => e.ph === 'X' && e.cat !== 'Trace').map((e) => e.ts);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const lines = [];
  for (let i = -5; i <= 105; i++) {
    const us = Math.round(first + ((last - first) * i) / 100);
    const capped = i > 20 && i < 45;
    lines.push(JSON.stringify({
      time_ns: 0, device: 0, utilization_pct: 60 + Math.round(35 * Math.sin(i / 6)), memory_utilization_pct: 30, power_w: capped ? 700 : 520 + (i % 7) * 9,
      power_limit_w: 700, sm_clock_mhz: capped ? 1410 : 1980, memory_clock_mhz: 2619, temperature_c: 55 + Math.floor(i / 8),
      memory_used_bytes: 42949672960 + i * 4194304, clock_event_reasons: (capped ? 4 : 0) | (i > 80 ? 32 : 0),
    }).replace('"time_ns":0', `"time_ns":${BigInt(base) + BigInt(us) * 1000n}`));
  }
  const file = path('samples.jsonl');
  writeFileSync(file, lines.join('\n') + '\n');
  return file;
}

let shared;
/** One browser for all pages of a test file, with an empty profile and no network. */
export async function browser() {
  shared ??= await chromium.launch({ executablePath: kChromium, args: kFlags });
  return shared;
}
export async function closeBrowser() {
  await shared?.close();
  shared = undefined;
}

/** Until the page has done what an input asked for: events that the browser queues, such as hashchange, come after the input's answer. */
export function settled(page) {
  return page.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(next))))).catch(() => {});
}

function settling(target, names, pageOf) {
  for (const name of names) {
    const act = target[name];
    target[name] = async function (...words) {
      const answer = await act.apply(this, words);
      await settled(pageOf(this));
      return answer;
    };
  }
}

let settles = false;
function settleAfterInput(page) {
  settling(page.keyboard, ['press', 'type', 'up'], () => page);
  settling(page.mouse, ['move', 'wheel', 'up', 'click'], () => page);
  settling(page, ['goBack', 'emulateMedia'], () => page);
  if (!settles) settling(Object.getPrototypeOf(page.locator('html')), ['click', 'fill', 'press', 'selectOption', 'focus'], (locator) => locator.page());
  settles = true;
}

/** Opens a file; `first` runs in the page before its own script. PAGE_SLOWDOWN=N makes the page run N times slower, as on a machine that stalls. `wrong` fills with everything that a report must not do: errors, console messages, requests. */
export async function opened(file, { script = true, size = [1280, 800], theme = 'light', view = '', ready = true, free = false, first } = {}) {
  const context = await (await browser()).newContext({
    javaScriptEnabled: script, offline: true, colorScheme: theme, viewport: { width: size[0], height: size[1] }, bypassCSP: free,
  });
  if (first) await context.addInitScript(first);
  const page = await context.newPage();
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) wrong.push(`console: ${message.text()}`);
  });
  page.on('dialog', (dialog) => {
    wrong.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!/^(file:|data:)/.test(request.url())) wrong.push(`request: ${request.url()}`);
  });
  await page.goto(`file://${file}${view ? `#${view}` : ''}`);
  if (script && ready) await page.waitForSelector('html.ready', { timeout: 60000 });
  if (script) settleAfterInput(page);
  if (kSlowdown) await (await context.newCDPSession(page)).send('Emulation.setCPUThrottlingRate', { rate: kSlowdown });
  return { page, wrong, close: () => context.close() };
}

/** Opens a file, uses the page, and closes it; fails if the page did anything that a report must not do. */
export async function visited(file, use, options = {}) {
  const { page, wrong, close } = await opened(file, options);
  try {
    await use(page);
    assert.deepEqual(wrong, []);
  } finally {
    await close();
  }
}

/** What the first such element says. */
export const text = (page, selector) => page.locator(selector).first().innerText();

/** Cells of a column of a view's table, from 1. */
export const cells = (page, view, column) => page.locator(`#view-${view} table.data tbody tr[data-row] td:nth-child(${column})`).allInnerTexts();

/** The source of axe, a checker of accessibility; undefined where it is not installed. */
export function axeSource() {
  try {
    return readFileSync(createRequire(join(root, 'web', 'package.json')).resolve('axe-core/axe.min.js'), 'utf8');
  } catch {
    return undefined;   // npm ci --prefix web brings it
  }
}

/** What axe, whose source the page has run, finds there. */
export function violations(page) {
  return page.evaluate(async () => (await globalThis.axe.run(document, { resultTypes: ['violations'] })).violations
    .map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)}`));
}

/** Real files of a folder beside the project; empty where it is not there. */
export function realFiles(folder, pattern) {
  const place = join(root, '..', 'shared', folder);
  return existsSync(place) ? readdirSync(place).filter((name) => pattern.test(name)).map((name) => ({ name, file: join(place, name) })) : [];
}

export const realTraces = () => realFiles('traces', /\.json(\.gz)?$/);

/** A file where the rest of the project keeps what tests leave behind. */
export function kept(...names) {
  const file = join(root, 'build', ...names);
  mkdirSync(join(file, '..'), { recursive: true });
  return file;
}
