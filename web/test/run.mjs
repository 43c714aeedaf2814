#!/usr/bin/env node
// Runs the unit tests of this folder: bundles each `*.test.ts` with esbuild (it comes with Vite), since Node 18 and 20
// read no TypeScript, and hands them to Node's own runner. `node web/test/run.mjs [part of a file's name]`.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(join(here, '..', 'package.json'));
const esbuild = createRequire(require.resolve('vite'))('esbuild');

const wanted = process.argv[2] ?? '';
const tests = readdirSync(here).filter((name) => name.endsWith('.test.ts') && name.includes(wanted));
if (tests.length === 0) {
  console.error(`no test here has "${wanted}" in its name`);
  process.exit(1);
}
const folder = mkdtempSync(join(tmpdir(), 'page-tests-'));
try {
  await esbuild.build({
    entryPoints: tests.map((name) => join(here, name)),
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node18',
    sourcemap: 'inline',
    logLevel: 'error',
  });
  const built = tests.map((name) => join(folder, basename(name, '.ts') + '.mjs'));
  process.exitCode =
    spawnSync(process.execPath, ['--enable-source-maps', '--test', ...built], { stdio: 'inherit' }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
