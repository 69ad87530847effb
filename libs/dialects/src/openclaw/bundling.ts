import type { Bundling } from '../source/compile.js';
import { sdkGlobal, startGlobal } from './guest-program.js';
import { givenModule } from './node-modules.js';
import { readManifest } from './manifest.js';

/**
 * An OpenClaw plugin becomes one script that hands its entry's exports and its manifest to the guest program. Imports of
 * `openclaw/plugin-sdk/*` resolve to what the guest program gives; so do Node's own modules, whose members throw when
 * they are used. Everything else is one of the plugin's own files.
 */
export const bundling: Bundling = {
  wrap: (entry, files) => {
    const manifest = readManifest(files);
    const text = JSON.stringify(manifest.kind === 'read' ? manifest.manifest : {});
    return `import * as entry from ${JSON.stringify(`/${entry}`)};\nglobalThis[${JSON.stringify(startGlobal)}](entry, JSON.parse(${JSON.stringify(text)}));\n`;
  },
  module: (name) => {
    const given = givenModule(name);
    if (given === null && !isSdk(name) && !isBuiltin(name)) return null;
    const other = `globalThis[${JSON.stringify(sdkGlobal)}](${JSON.stringify(name)})`;
    // What is given stands before what can only be imported.
    return given === null
      ? `module.exports = ${other};\n`
      : `module.exports = Object.setPrototypeOf((() => {${given}\n})(), ${other});\n`;
  },
};

const isSdk = (name: string): boolean => name === 'openclaw' || name.startsWith('openclaw/');

/** Modules of Node that plugins import; with `node:` before it every name is one. */
const builtins: ReadonlySet<string> = new Set([
  'assert',
  'async_hooks',
  'buffer',
  'child_process',
  'crypto',
  'dns',
  'events',
  'fs',
  'fs/promises',
  'http',
  'https',
  'module',
  'net',
  'os',
  'path',
  'perf_hooks',
  'process',
  'readline',
  'stream',
  'timers',
  'timers/promises',
  'tls',
  'tty',
  'url',
  'util',
  'v8',
  'vm',
  'worker_threads',
  'zlib',
]);

const isBuiltin = (name: string): boolean => name.startsWith('node:') || builtins.has(name);
