#!/usr/bin/env node
// How fast the page's timeline and its view of memory snapshots open and move, in headless Chromium: for made-up packs of
// several sizes, the time from opening the file to the first picture, to all levels of detail, and the time between frames
// while it pans and zooms.
//
//     node bench/page_frames.mjs [BUILD] [events…]        default 75000 1000000 5000000
//
// Given a build folder it also writes BUILD/results/page_frames.json.
// Needs Chromium (CHROMIUM, default /usr/bin/chromium) and the packages of web/. Frames follow the screen's 60 Hz: 16.7
// ms is the best there is. "script" is what of it the page's own code takes. Without a GPU, Chromium also paints on the
// CPU.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, loadavg, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';

const web = join(dirname(fileURLToPath(import.meta.url)), '..', 'web');
const require = createRequire(join(web, 'package.json'));
const { chromium } = require('playwright-core');
const esbuild = createRequire(require.resolve('vite'))('esbuild');

const kArguments = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const kFrames = 180;
const kMemoryMoves = ['pan, all in view', 'pan, 1/20 in view', 'pan, 1/1000 in view', 'zoom in and out', 'cursor'];
const kMoves = ['pan, all in view', 'pan, 1/20 in view', 'pan, 1/1000 in view', 'zoom in and out'];

const folder = mkdtempSync(join(tmpdir(), 'page-frames-'));

async function bundle(code, out, platform) {
  await esbuild.build({
    stdin: { contents: code, resolveDir: web, loader: 'ts' },
    outfile: out,
    bundle: true,
    platform,
    logLevel: 'error',
    format: platform === 'node' ? 'esm' : 'iife',
    target: platform === 'node' ? 'node18' : 'es2021',
    minify: platform !== 'node',
  });
}

const kFrameClock = `
  import './src/style.css';
  import { readPack } from './src/pack';
  const script = [];
  const ask = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (call) => ask((now) => {
    const from = performance.now();
    call(now);
    script.push(performance.now() - from);
  });
  window.frames_of = async (move, count) => {
    const moments = [];
    script.length = 0;
    for (let i = 0; i <= count; i++) {
      moments.push(await new Promise((next) => ask((now) => next(now))));
      move(i);
    }
    return { frames: moments.slice(1).map((moment, i) => moment - moments[i]), script: [...script] };
  };`;

const kPage = `${kFrameClock}
  import { mountTimeline } from './src/timeline/index';
  readPack(document.getElementById('data').textContent).then((data) => {
    const root = document.getElementById('root');
    window.data = data;
    window.handle = mountTimeline(root, data);
    ask(() => setTimeout(() => {
      window.first_ms = performance.now();
      const done = setInterval(() => {
        if (root.dataset.detail !== 'finished') return;
        clearInterval(done);
        window.detailed_ms = performance.now();
      }, 5);
    }));
  });`;

// The view of a memory snapshot, in the place of the page around it.
const kMemoryPage = `${kFrameClock}
  import { analysisOf } from './src/views/report';
  import { SnapshotView } from './src/views/memory_snapshot';
  readPack(document.getElementById('data').textContent).then((data) => {
    const root = document.getElementById('root');
    const analysis = analysisOf({ ranks: [{ rank: 0 }] });
    const context = { data, analysis, rank: analysis.ranks[0], rank_index: 0 };
    window.data = data;
    window.view = new SnapshotView(context, data.ranks[0].snapshot, null, () => {});
    window.events = data.ranks[0].snapshot.histories[0].all_events;
    root.append(window.view.root);
    ask(() => setTimeout(() => { window.first_ms = window.detailed_ms = performance.now(); }));
  });`;

function makePage(syntheticPack, events) {
  return pageOf(syntheticPack({ events, ranks: events > 2e6 ? 4 : 2, steps: events > 2e5 ? 40 : 12 }), 'page', events);
}

function pageOf(pack, bundle, events) {
  const packed = gzipSync(pack, { level: 6 }).toString('base64');
  const style = readFileSync(join(folder, `${bundle}.css`), 'utf8');
  const script = readFileSync(join(folder, `${bundle}.js`), 'utf8').replaceAll('</script', '<\\/script');
  const file = join(folder, `${bundle}-${events}.html`);
  writeFileSync(
    file,
    `<!doctype html><meta charset="utf-8"><style>${style}</style><div id="root"></div>` +
      `<script type="application/octet-stream" id="data">${packed}</script><script>${script}</script>`,
  );
  return { file, bytes: packed.length };
}

function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
}

async function measure(page, name) {
  const { frames, script } = await page.evaluate(
    async ([name, count]) => {
      const { handle, data } = window;
      const span = data.span_ns;
      const wheel = (delta) =>
        document
          .querySelector('.tl-plot')
          .dispatchEvent(
            new WheelEvent('wheel', { deltaY: delta, clientX: 500, clientY: 300, bubbles: true, cancelable: true }),
          );
      const share = { 'pan, all in view': 0.97, 'pan, 1/20 in view': 0.05, 'pan, 1/1000 in view': 0.001 }[name];
      if (share === undefined) {
        handle.show(0, span);
        return window.frames_of((i) => wheel(i % 90 < 45 ? -80 : 80), count);
      }
      return window.frames_of((i) => {
        const start = (share > 0.5 ? 0 : 0.3 * span) + span * share * 0.01 * (i % 100);
        handle.show(start, start + span * share);
      }, count);
    },
    [name, kFrames],
  );
  return {
    median: quantile(frames, 0.5),
    p95: quantile(frames, 0.95),
    script: quantile(script, 0.5),
    script_p95: quantile(script, 0.95),
  };
}

// The arrow keys move the cursor, and with it the allocator's state.
async function measureMemory(page, name) {
  const { frames, script } = await page.evaluate(
    async ([name, count]) => {
      const { events } = window;
      const canvas = document.querySelector('.memstack canvas');
      const { width } = canvas.getBoundingClientRect();
      const send = (event) => canvas.dispatchEvent(event);
      const wheel = (delta, shift) => send(new WheelEvent('wheel', { deltaY: delta, shiftKey: shift, clientX: canvas.getBoundingClientRect().left + width / 2,
        bubbles: true, cancelable: true }));
      const key = (key) => send(new KeyboardEvent('keydown', { key, bubbles: true }));
      key('Escape');
      const share = { 'pan, all in view': 0.97, 'pan, 1/20 in view': 0.05, 'pan, 1/1000 in view': 0.001 }[name];
      if (name === 'cursor') return window.frames_of((i) => key(i % 90 < 45 ? 'ArrowLeft' : 'ArrowRight'), count);
      if (share === undefined) return window.frames_of((i) => wheel(i % 90 < 45 ? -80 : 80, false), count);
      // A wheel of 500 makes the stretch e times smaller.
      for (let left = Math.log(1 / share) * 500; left > 0; left -= 500) wheel(-Math.min(500, left), false);
      return window.frames_of((i) => wheel(i % 6 < 3 ? 8 : -8, true), count);
    },
    [name, kFrames],
  );
  return { median: quantile(frames, 0.5), p95: quantile(frames, 0.95), script: quantile(script, 0.5), script_p95: quantile(script, 0.95) };
}

async function run(file, names = kMoves, measured = measure) {
  const profile = mkdtempSync(join(folder, 'profile-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    viewport: { width: 1280, height: 800 },
    args: kArguments,
  });
  try {
    const [page] = context.pages();
    const errors = [];
    page.on('pageerror', (error) => errors.push(error.message));
    await page.goto(pathToFileURL(file).href);
    await page.waitForFunction(() => window.detailed_ms !== undefined, null, { timeout: 120_000 });
    if (errors.length > 0) throw new Error(errors.join('\n'));
    const opened = await page.evaluate(() => ({
      first: window.first_ms,
      detailed: window.detailed_ms,
      events: window.events ?? window.data.events,
    }));
    // Whoever moves the view has the pointer over it, so what is under it is looked up and shown in every frame.
    await page.mouse.move(500, 300);
    const moves = {};
    for (const name of names) moves[name] = await measured(page, name);
    return { ...opened, moves };
  } finally {
    await context.close();
  }
}

function printHeadings(view) {
  console.log(`\n| ${view}: events | pack, MB | first picture | all detail | move | frame, median | p95 | script, median | p95 |`);
  console.log('| ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |');
}

/** Prints the rows of one size and gives them back, as they are kept. */
function printed(bytes, { first, detailed, events, moves }) {
  let opening = `| ${events.toLocaleString('en-US')} | ${(bytes / 1e6).toFixed(1)} | ${first.toFixed(0)} | ${detailed.toFixed(0)} |`;
  for (const [name, { median, p95, script, script_p95 }] of Object.entries(moves)) {
    console.log(`${opening} ${name} | ${[median, p95, script, script_p95].map((ms) => ms.toFixed(1)).join(' | ')} |`);
    opening = '| | | | |';
  }
  return { events, pack_bytes: bytes, first_ms: first, detailed_ms: detailed, moves };
}

async function main() {
  const words = process.argv.slice(2);
  const build = /^\d+$/.test(words[0] ?? '0') ? undefined : words.shift();
  const sizes = words.map(Number);
  const result = { date: new Date().toISOString().slice(0, 10), cpu: cpus()[0]?.model.trim() ?? '?', cores: cpus().length, load_before: loadavg()[0],
    frames: kFrames, rows: [], memory_rows: [] };
  await bundle(kPage, join(folder, 'page.js'), 'browser');
  await bundle(kMemoryPage, join(folder, 'memory.js'), 'browser');
  await bundle(`export { syntheticPack } from './test/synthetic_pack'; export { syntheticSnapshot } from './test/synthetic_snapshot';`, join(folder, 'pack.mjs'), 'node');
  const { syntheticPack, syntheticSnapshot } = await import(pathToFileURL(join(folder, 'pack.mjs')).href);
  const gpu = 'no GPU: painted on the CPU';
  console.log(
    `${cpus().length} × ${cpus()[0]?.model.trim()}, ${gpu}, 1280 × 800 pixels, ${kFrames} frames a row; milliseconds\n`,
  );
  const wanted = (usual) => (sizes.length > 0 ? sizes : usual);
  printHeadings('timeline');
  for (const size of wanted([75_000, 1_000_000, 5_000_000])) {
    const { file, bytes } = makePage(syntheticPack, size);
    result.rows.push(printed(bytes, await run(file)));
  }
  printHeadings('memory');
  for (const size of wanted([100_000, 1_000_000, 2_000_000])) {
    const { file, bytes } = pageOf(syntheticSnapshot({ events: size, layers: 400 }), 'memory', size);
    result.memory_rows.push(printed(bytes, await run(file, kMemoryMoves, measureMemory)));
  }
  if (build === undefined) return;
  mkdirSync(join(build, 'results'), { recursive: true });
  writeFileSync(join(build, 'results', 'page_frames.json'), JSON.stringify(result));
}

main()
  .finally(() => rmSync(folder, { recursive: true, force: true }))
  .catch((error) => {
    console.error(`page_frames: ${error.message}`);
    process.exitCode = 1;
  });
