import { createReadStream, existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ExportSource, ExportSummary, Fault } from '#proof';
import { verifyExport } from '#proof';
import { plain } from '../words.js';
import type { OutsideWitnesses } from './witnesses.js';
import { readLogKeys } from './witnesses.js';

/** Whether a folder holds an export. */
export const isExport = (folder: string): boolean => existsSync(join(folder, 'manifest.json'));

const sourceIn = (folder: string): ExportSource => ({
  names: readdirSync(folder).filter((name) => statSync(join(folder, name)).isFile()),
  open: (name) => createReadStream(join(folder, name), { highWaterMark: 256 * 1024 }) as AsyncIterable<Buffer>,
});

/** Verifies the export in a folder. Throws `NoExport`. */
export const verifyExportFolder = (
  folder: string,
  witnesses: OutsideWitnesses,
  onFault: (fault: Fault) => void,
  onProgress: (done: number, of: number) => void,
): Promise<ExportSummary> =>
  verifyExport(sourceIn(folder), {
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
