import { createReadStream, existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ExportSource, ExportSummary, Fault } from '#proof';
import { NoExport, verifyExport } from '#proof';
import { Misuse, plain } from '../words.js';
import { filesOfTar } from './tar-files.js';
import type { OutsideWitnesses } from './witnesses.js';
import { readLogKeys } from './witnesses.js';

/** Whether a path is an export: a folder with its files, or a tar of them. */
export const isExport = (path: string): boolean =>
  statSync(path).isDirectory()
    ? existsSync(join(path, 'manifest.json'))
    : filesOfTar(path)?.some(({ name }) => baseOf(name) === 'manifest.json') === true;

const sourceAt = (path: string): ExportSource => {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) throw new Misuse(`there is no ${path}`);
  if (statSync(path).isDirectory()) {
    return {
      names: readdirSync(path).filter((name) => statSync(join(path, name)).isFile()),
      open: (name) => piecesOf(join(path, name), {}),
    };
  }
  const files = filesOfTar(path);
  if (files === null) throw new NoExport(`${path} is neither a folder nor a tar`);
  const places = new Map(files.map((file) => [baseOf(file.name), file]));
  return {
    names: [...places.keys()],
    open: (name) => {
      const { start, bytes } = places.get(name) ?? { start: 0, bytes: 0 };
      return bytes === 0 ? nothing() : piecesOf(path, { start, end: start + bytes - 1 });
    },
  };
};

/** Files of a tar may stand in a folder. */
const baseOf = (name: string): string => name.slice(name.lastIndexOf('/') + 1);

const piecesOf = (path: string, range: { readonly start?: number; readonly end?: number }): AsyncIterable<Buffer> =>
  createReadStream(path, { ...range, highWaterMark: 256 * 1024 }) as AsyncIterable<Buffer>;

async function* nothing(): AsyncGenerator<never> {
  // An empty file.
}

/** Verifies an export: a folder or a tar. Throws `NoExport`. */
export const verifyExportAt = (
  path: string,
  witnesses: OutsideWitnesses,
  onFault: (fault: Fault) => void,
  onProgress: (done: number, of: number) => void,
): Promise<ExportSummary> =>
  verifyExport(sourceAt(path), {
    logKeys: witnesses.logKeys,
    readKeys: readLogKeys,
    outside: witnesses.lines,
    onFault,
    onProgress,
  });

/** The sum of an export in words. */
export const exportWords = ({ events, proven, checkpoints, account, outside }: ExportSummary): string => {
  const lines = outside === null ? '' : `, ${outside.compared} lines of the checkpoint file compared`;
  return (
    `Checked an export of ${plain(account)}: ${number(events)} events, ${number(proven)} of them proven to be in the ` +
    `log, ${number(checkpoints)} checkpoints${lines}.`
  );
};

const number = (count: number): string => count.toLocaleString('en-US');
