import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { replaceFile } from './key-files.js';

/** That a copy of a master key exists outside the data folder; not where, and nothing of the key. */
export interface BackupNote {
  /** The key's id, which gives nothing of it away: an older key's backup is none of a newer one's. */
  readonly digest: string;
  /** RFC 3339. */
  readonly at: string;
}

const fileName = 'master.key.backup.json';

/** Notes a backup in the data folder, in the place of an earlier note. */
export const noteBackup = (dataDir: string, note: BackupNote): void => {
  replaceFile(dataDir, fileName, `${JSON.stringify({ digest: note.digest, at: note.at })}\n`);
};

/** The newest backup that was noted; null where none was, or where the note cannot be read. */
export const readBackupNote = (dataDir: string): BackupNote | null => {
  try {
    const note = JSON.parse(readFileSync(join(dataDir, fileName), 'utf8')) as unknown;
    return isNote(note) ? note : null;
  } catch {
    return null;
  }
};

const isNote = (value: unknown): value is BackupNote =>
  typeof value === 'object' &&
  value !== null &&
  'digest' in value &&
  'at' in value &&
  typeof value.digest === 'string' &&
  typeof value.at === 'string' &&
  !Number.isNaN(Date.parse(value.at));
