// One file out of the page: script and style inside, and a policy that lets nothing else run or load.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { defineConfig, type Plugin } from 'vite';
import { viteSingleFile } from 'vite-plugin-singlefile';

const script = /<script type="module"[^>]*>([\s\S]*?)<\/script>/g;

function policy(html: string): string {
  const hashes = [...html.matchAll(script)].map((m) => `'sha256-${createHash('sha256').update(m[1]!).digest('base64')}'`);
  if (hashes.length !== 1) throw new Error(`the page has ${hashes.length} scripts, not one`);
  return [
    "default-src 'none'",
    `script-src ${hashes[0]}`,
    // Bars of the plain report have their length in a style attribute.
    "style-src 'unsafe-inline'",
    'img-src data: blob:',
    "base-uri 'none'",
    "form-action 'none'",
    // No text becomes markup, whatever a later change of the page tries.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

// Whoever has a report has a copy of the library, and its licence wants to be with it.
function notice(library: string): string {
  const licence = readFileSync(new URL(`node_modules/${library}/LICENSE`, import.meta.url), 'utf8').trim();
  if (licence.includes('--') || licence.includes('://')) throw new Error(`the licence of ${library} does not fit into a comment of the page`);
  return `<!-- ${library}\n\n${licence} -->\n`;
}

// After the single-file plugin: the hash is of the script as it stands in the file.
function contentSecurityPolicy(): Plugin {
  return {
    name: 'content-security-policy',
    enforce: 'post',
    apply: 'build',
    generateBundle: {
      order: 'post',
      handler(_options, bundle) {
        for (const file of Object.values(bundle)) {
          if (file.type !== 'asset' || !file.fileName.endsWith('.html')) continue;
          // Carriage returns would be newlines to a browser, and the hash another.
          const html = String(file.source).replace(/\r\n?/g, '\n').replace(/ crossorigin(?=[ >])/g, '');
          for (const mark of ['title', 'report', 'data'])
            if (!html.includes(`<!--profgpu:${mark}-->`)) throw new Error(`the page lacks its mark for the ${mark}`);
          const meta = `<meta http-equiv="Content-Security-Policy" content="${policy(html)}">`;
          file.source = html
            .replace('<meta charset="utf-8">', () => `<meta charset="utf-8">\n${meta}`)
            .replace('</body>', () => `${notice('uplot')}</body>`);
        }
      },
    },
  };
}

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true }), contentSecurityPolicy()],
  // Names that end so are private everywhere: short ones save a tenth of the page.
  esbuild: { mangleProps: /[a-z]_$/ },
  build: { target: 'es2021', modulePreload: false, reportCompressedSize: false },
  logLevel: 'warn',
});
