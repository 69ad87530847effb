import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Outbox, Report } from '../outbox.js';
import { removeDurably, writeDurably } from './durable-file.js';

/**
 * Keeps each report in a file of a folder, which is made, so that it survives the process and the machine. Reports hold
 * what hooks were fired with: the files are readable for their owner only. One process at a time for a folder.
 */
export const fileOutbox = (folder: string): Outbox => {
  const names = new Map<string, string>();
  const nameOf = (id: string): string => {
    // The time first, so that the order of the names is that of the reports.
    const name = names.get(id) ?? `${stamp()}-${encodeURIComponent(id).replaceAll('.', '%2E')}.json`;
    names.set(id, name);
    return name;
  };
  return {
    put: async (report) => {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await writeDurably(join(folder, nameOf(report.id)), JSON.stringify(report));
    },
    list: async () => {
      const found = (await readdir(folder).catch(emptyIfMissing)).filter((name) => name.endsWith('.json')).sort();
      const reports: Report[] = [];
      for (const name of found) {
        const report = JSON.parse(await readFile(join(folder, name), 'utf8')) as Report;
        names.set(report.id, name);
        reports.push(report);
      }
      return reports;
    },
    remove: async (id) => {
      const name = names.get(id);
      if (name !== undefined) await removeDurably(join(folder, name));
      names.delete(id);
    },
  };
};

let last = 0;

/** Milliseconds, of one width, each later than the one before. */
const stamp = (): string => {
  last = Math.max(last + 1, Date.now());
  return String(last).padStart(15, '0');
};

const emptyIfMissing = (error: unknown): readonly string[] => {
  if ((error as { code?: unknown }).code === 'ENOENT') return [];
  throw error;
};
