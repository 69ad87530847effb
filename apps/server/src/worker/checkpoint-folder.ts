import { randomUUID } from 'node:crypto';
import { mkdir, open, readFile, rename, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { NoteVerifier, SealingRound } from '#proof';
import { readRoundLine, readVerifierKey, verifierKeyText } from '#proof';
import type { LogKey } from '../control/proofs/log-keys.js';

/** The folder cannot be used; the message is for an operator. */
export class FolderProblem extends Error {
  override readonly name = 'FolderProblem';
}

const linesFile = 'checkpoints.jsonl';
const keysFile = 'log-keys.json';

/** With very many accounts a line is long: the file grows by no more than this a second, so that it lasts. */
const bytesPerSecond = 64 * 1024;
const chunkBytes = 1024 * 1024;

/**
 * What is known of the log outside its database (events.md §5): every sealing round as a signed line that lists every
 * account, and the public keys. Only ever added to. It says what a restored, truncated or replaced database cannot.
 */
export class CheckpointFolder {
  private lineDueAt = 0;

  constructor(
    private readonly folder: string,
    private readonly log: string,
  ) {}

  /**
   * The newest round that was signed by this log, or null. Its own list of keys is trusted beside the database's, which
   * may be an old copy. Throws `FolderProblem` where the folder is another log's.
   */
  async newest(verifiers: readonly NoteVerifier[]): Promise<SealingRound | null> {
    const known = [...verifiers, ...(await this.keptKeys())];
    const file = await openIfThere(join(this.folder, linesFile));
    if (file === null) return null;
    try {
      for await (const line of linesBackwards(file)) {
        const read = readRoundLine(line, known);
        if (read.kind === 'signed' && read.round.log === this.log) return read.round;
      }
      return null;
    } finally {
      await file.close();
    }
  }

  /** Whether another line may follow already. */
  isDue(now: number): boolean {
    return now >= this.lineDueAt;
  }

  /** Adds a line. Resolves when it is on the disk. */
  async append(line: string, now: number): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const path = join(this.folder, linesFile);
    const isNew = (await sizeOf(path)) === null;
    const file = await open(path, 'a+', 0o644);
    try {
      // A writer that died in mid-line left no newline: what it wrote stays, as a line that nobody can read.
      const start = (await endsInMidLine(file)) ? '\n' : '';
      await file.appendFile(`${start}${line}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    if (isNew) await syncFolder(this.folder);
    this.lineDueAt = now + Math.floor((line.length / bytesPerSecond) * 1000);
  }

  /** Writes the public keys with their times in force. Throws `FolderProblem` where the folder is another log's. */
  async writeKeys(keys: readonly LogKey[]): Promise<void> {
    const kept = await this.keptKeys();
    const listed = keys.map(({ id, verifier, validFrom, validUntil }) => ({
      id,
      name: verifier.name,
      verifierKey: verifierKeyText(verifier),
      validFrom,
      validUntil,
    }));
    // A key that only this folder knows was in force before the database became an older copy of itself: it stays.
    const others = kept
      .filter((verifier) => !keys.some(({ id }) => id === verifier.id))
      .map((verifier) => ({ id: verifier.id, name: verifier.name, verifierKey: verifierKeyText(verifier) }));
    const text = `${JSON.stringify({ log: this.log, keys: [...listed, ...others] }, null, 2)}\n`;
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    await replaceFile(this.folder, keysFile, text);
  }

  private async keptKeys(): Promise<readonly NoteVerifier[]> {
    const text = await readFile(join(this.folder, keysFile), 'utf8').catch((error: unknown) => {
      if ((error as { code?: string }).code === 'ENOENT') return null;
      throw error;
    });
    if (text === null) return [];
    const { log, keys } = keysIn(text);
    if (log !== this.log) throw new FolderProblem(`${this.folder} holds the checkpoints of another log (${log})`);
    return keys.map(readVerifierKey).filter((verifier) => verifier !== null);
  }
}

const keysIn = (text: string): { readonly log: string; readonly keys: readonly string[] } => {
  try {
    const { log, keys } = JSON.parse(text) as { log: string; keys: readonly { verifierKey: string }[] };
    return { log, keys: keys.map(({ verifierKey }) => verifierKey) };
  } catch {
    throw new FolderProblem(`${keysFile} among the checkpoints cannot be read`);
  }
};

const openIfThere = async (path: string): Promise<FileHandle | null> => {
  try {
    return await open(path, 'r');
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return null;
    throw error;
  }
};

const sizeOf = async (path: string): Promise<number | null> => {
  try {
    return (await stat(path)).size;
  } catch {
    return null;
  }
};

const endsInMidLine = async (file: FileHandle): Promise<boolean> => {
  const { size } = await file.stat();
  if (size === 0) return false;
  const last = Buffer.alloc(1);
  await file.read(last, 0, 1, size - 1);
  return last.toString() !== '\n';
};

/** The lines of a file, newest first; the file may be far larger than memory. */
async function* linesBackwards(file: FileHandle): AsyncGenerator<string> {
  let { size: end } = await file.stat();
  let rest = Buffer.alloc(0);
  while (end > 0) {
    const start = Math.max(0, end - chunkBytes);
    const chunk = Buffer.alloc(end - start);
    await file.read(chunk, 0, chunk.length, start);
    rest = Buffer.concat([chunk, rest]);
    end = start;
    for (let newline = rest.lastIndexOf(10); newline >= 0; newline = rest.lastIndexOf(10)) {
      yield rest.subarray(newline + 1).toString('utf8');
      rest = rest.subarray(0, newline);
    }
  }
  yield rest.toString('utf8');
}

/** Written whole beside its place and renamed into it: a reader sees the old text or the new. */
const replaceFile = async (folder: string, name: string, text: string): Promise<void> => {
  const draft = join(folder, `${name}.${randomUUID()}.new`);
  const file = await open(draft, 'w', 0o644);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(draft, join(folder, name));
  await syncFolder(folder);
};

/** Makes a new name durable too. Windows has no handle of a folder. */
const syncFolder = async (folder: string): Promise<void> => {
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};
