import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Checkpoints } from '../follow.js';
import { writeDurably } from './durable-file.js';

/** Keeps the position of each subscription in a file of a folder, which is made. One process at a time for a name. */
export const fileCheckpoints = (folder: string): Checkpoints => {
  const file = (name: string): string => join(folder, `${encodeURIComponent(name).replaceAll('.', '%2E')}.position`);
  return {
    load: async (name) => {
      const text = await readFile(file(name), 'utf8').catch(unlessMissing);
      if (text === null) return null;
      if (!/^\d{1,18}\n$/u.test(text)) throw new Error(`${file(name)} holds no position`);
      return text.trim();
    },
    save: async (name, position) => {
      await mkdir(folder, { recursive: true });
      await writeDurably(file(name), `${position}\n`);
    },
  };
};

const unlessMissing = (error: unknown): null => {
  if ((error as { code?: unknown }).code === 'ENOENT') return null;
  throw error;
};
