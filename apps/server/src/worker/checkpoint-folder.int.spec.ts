import { generateKeyPairSync } from 'node:crypto';
import { appendFileSync, chmodSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { noteSigner, roundLine, type NoteSigner, type SealingRound } from '#proof';
import type { LogKey } from '../control/proofs/log-keys.js';
import { CheckpointFolder, FolderProblem } from './checkpoint-folder.js';

const log = '0c5f9d3e-1d2a-4a5b-8c7d-112233445566';
const newSigner = (): NoteSigner => noteSigner(`hookledger/${log}`, generateKeyPairSync('ed25519').privateKey);
const signer = newSigner();
const keyOf = (verifier: NoteSigner): LogKey => ({
  id: verifier.id,
  verifier,
  validFrom: '2026-11-30T10:00:00.000Z',
  validUntil: null,
});

const roundOf = (size: bigint, accounts = 1): SealingRound => ({
  log,
  at: '2026-11-30T10:00:00.000Z',
  accounts: Array.from({ length: accounts }, (_, n) => ({ account: `a${String(n)}`, size, root: Buffer.alloc(32, 1) })),
  notes: {},
});

let folder: string;
const linesPath = (): string => join(folder, 'checkpoints.jsonl');
const newestSize = async (of: CheckpointFolder): Promise<bigint | undefined> =>
  (await of.newest([signer]))?.accounts[0]?.size;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'hookledger-checkpoints-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('the folder of checkpoints', () => {
  it('is made when it is first written, and knows nothing before', async () => {
    const deep = new CheckpointFolder(join(folder, 'a', 'b'), log);
    expect(await deep.newest([signer])).toBeNull();
    await deep.append(roundLine(roundOf(1n), signer), 0);
    expect(await newestSize(deep)).toBe(1n);
  });

  it('goes on after a line that was cut off, without touching it', async () => {
    const one = new CheckpointFolder(folder, log);
    for (const size of [1n, 2n]) await one.append(roundLine(roundOf(size), signer), 0);
    truncateSync(linesPath(), readFileSync(linesPath()).length - 30);
    const cut = readFileSync(linesPath(), 'utf8');
    expect(await newestSize(one)).toBe(1n);
    await one.append(roundLine(roundOf(3n), signer), 0);
    expect(readFileSync(linesPath(), 'utf8').startsWith(`${cut}\n`)).toBe(true);
    expect(await newestSize(new CheckpointFolder(folder, log))).toBe(3n);
  });

  it('finds the newest line of its log behind anything that is none', async () => {
    const one = new CheckpointFolder(folder, log);
    await one.append(roundLine(roundOf(7n), signer), 0);
    appendFileSync(linesPath(), `${roundLine(roundOf(9n), newSigner())}\n${'x'.repeat(3_000_000)}\n\n{}\n`);
    expect(await newestSize(one)).toBe(7n);
  });

  it('reads lines that are longer than what it reads at once', async () => {
    const one = new CheckpointFolder(folder, log);
    await one.append(roundLine(roundOf(1n), signer), 0);
    await one.append(roundLine(roundOf(5n, 30_000), signer), 0);
    expect((await one.newest([signer]))?.accounts).toHaveLength(30_000);
  }, 60_000);

  it('grows by no more than 64 KiB a second, however long its lines are', async () => {
    const one = new CheckpointFolder(folder, log);
    const line = roundLine(roundOf(1n, 2_000), signer);
    await one.append(line, 10_000);
    const wait = Math.floor((line.length / (64 * 1024)) * 1000);
    expect([one.isDue(10_000 + wait - 1), one.isDue(10_000 + wait)]).toEqual([false, true]);
  });

  it('trusts the keys it has kept beside those of the database', async () => {
    const later = newSigner();
    const one = new CheckpointFolder(folder, log);
    await one.writeKeys([keyOf(signer), keyOf(later)]);
    await one.append(roundLine(roundOf(4n), later), 0);
    // The database is an older copy that never heard of the later key.
    expect(await newestSize(new CheckpointFolder(folder, log))).toBe(4n);
    await one.writeKeys([keyOf(signer)]);
    expect(await newestSize(new CheckpointFolder(folder, log))).toBe(4n);
  });

  it('is another log’s, or unreadable, and says so', async () => {
    await new CheckpointFolder(folder, log).writeKeys([keyOf(signer)]);
    const other = new CheckpointFolder(folder, 'another');
    await expect(other.newest([signer])).rejects.toThrow(FolderProblem);
    await expect(other.writeKeys([keyOf(signer)])).rejects.toThrow(FolderProblem);
    writeFileSync(join(folder, 'log-keys.json'), '{');
    await expect(new CheckpointFolder(folder, log).newest([signer])).rejects.toThrow(FolderProblem);
    chmodSync(folder, 0o700);
  });
});
