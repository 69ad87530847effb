import type { Bundling } from '../source/compile.js';
import { moduleGlobal, startGlobal } from './guest-program.js';

/** A JavaScript plugin becomes one script that hands its entry's exports to the guest program. */
export const bundling: Bundling = {
  wrap: (entry) =>
    `import * as entry from ${JSON.stringify(`/${entry}`)};\nglobalThis[${JSON.stringify(startGlobal)}](entry);\n`,
  module: (name) =>
    name === 'kohakuterrarium' || name.startsWith('kohakuterrarium/')
      ? `module.exports = globalThis[${JSON.stringify(moduleGlobal)}];\n`
      : null,
};
