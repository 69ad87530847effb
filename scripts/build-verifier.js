// Bundles the stand-alone verifier into one file that Node alone runs: for people who have an export or a checkpoint
// file and nothing else of Hookledger.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Its main file asks for its parts in a way that cannot be bundled; its ESM build can, and has no default export. */
const jsoncParser = {
  name: 'jsonc-parser',
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^jsonc-parser$/ }, () => ({ path: 'jsonc-parser', namespace: 'jsonc' }));
    onLoad({ filter: /.*/, namespace: 'jsonc' }, () => ({
      contents: "export * as default from 'jsonc-parser/lib/esm/main.js';",
      resolveDir: root,
    }));
  },
};

await build({
  entryPoints: [join(root, 'apps/cli/src/verify/standalone.ts')],
  outfile: join(root, 'dist/verifier/hookledger-verify.mjs'),
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  conditions: ['hookledger-source'],
  // Optional parts of the database driver, which it does without.
  external: ['pg-native', 'pg-cloudflare', 'cloudflare:sockets'],
  banner: {
    js: [
      '#!/usr/bin/env node',
      "import { createRequire as requireOf } from 'node:module';",
      'const require = requireOf(import.meta.url);',
    ].join('\n'),
  },
  plugins: [jsoncParser],
  legalComments: 'none',
  logLevel: 'error',
});
