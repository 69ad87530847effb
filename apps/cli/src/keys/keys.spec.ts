import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadMasterKey } from '#sealing';
import { Failure } from '../words.js';
import { readBackupNote } from './backup-note.js';
import { backupKey } from './backup-key.js';
import { restoreKey } from './restore-key.js';

const now = new Date('2026-11-30T10:00:00.000Z');
const hex = 'ab'.repeat(32);
const otherHex = 'cd'.repeat(32);

let home: string;
let dataDir: string;
const at = (name: string): string => join(home, name);

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'hookledger-keys-'));
  dataDir = at('data');
});

afterEach(() => rmSync(home, { recursive: true, force: true }));

const makeKey = () => loadMasterKey({ environment: undefined, dataDir });
const backup = (to: string, environment?: string): readonly string[] => backupKey({ dataDir, to, environment, now });
const restore = (from: string, environment?: string): readonly string[] =>
  restoreKey({ dataDir, from, environment, now });

const failureOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    if (error instanceof Failure) return error.message;
    throw error;
  }
  throw new Error('it did not fail');
};

describe('a backup of the master key', () => {
  it('is a file for its owner alone that the environment and restore take', () => {
    const key = makeKey();
    backup(at('copy'));
    expect(statSync(at('copy')).mode & 0o777).toBe(0o600);
    const text = readFileSync(at('copy'), 'utf8');
    expect(loadMasterKey({ environment: text.trim(), dataDir: at('none') }).id).toBe(key.id);
    rmSync(dataDir, { recursive: true });
    restore(at('copy'));
    expect(makeKey().id).toBe(key.id);
  });

  it('is noted with its day and the key’s digest, and neither the key nor the place', () => {
    const key = makeKey();
    expect(readBackupNote(dataDir)).toBeNull();
    backup(at('copy'));
    expect(readBackupNote(dataDir)).toEqual({ digest: key.id, at: '2026-11-30T10:00:00.000Z' });
    const note = readFileSync(join(dataDir, 'master.key.backup.json'), 'utf8');
    expect(note).not.toContain(readFileSync(at('copy'), 'utf8').trim());
    expect(note).not.toContain(home);
  });

  it('says nothing of the key', () => {
    makeKey();
    const said = backup(at('copy')).join('\n');
    expect(said).not.toContain(readFileSync(at('copy'), 'utf8').trim());
  });

  it('takes the key of the environment where the server does', () => {
    const key = loadMasterKey({ environment: hex, dataDir });
    backup(at('copy'), ` ${hex}\n`);
    expect(loadMasterKey({ environment: readFileSync(at('copy'), 'utf8').trim(), dataDir }).id).toBe(key.id);
    expect(existsSync(dataDir)).toBe(false);
  });

  it('leaves a file that is there alone, and a link', () => {
    makeKey();
    writeFileSync(at('copy'), 'mine');
    symlinkSync(at('elsewhere'), at('link'));
    expect(failureOf(() => backup(at('copy')))).toContain('exists already');
    expect(failureOf(() => backup(at('link')))).toContain('exists already');
    expect(readFileSync(at('copy'), 'utf8')).toBe('mine');
    expect(existsSync(at('elsewhere'))).toBe(false);
    expect(readBackupNote(dataDir)).toBeNull();
  });

  it('is refused within the data folder, also by a way around', () => {
    makeKey();
    mkdirSync(join(dataDir, 'inner'));
    symlinkSync(join(dataDir, 'inner'), at('around'));
    const places = [
      join(dataDir, 'copy'),
      join(dataDir, 'inner', 'copy'),
      join(at('around'), 'copy'),
      `${home}/x/../data/copy`,
    ];
    mkdirSync(at('x'));
    for (const place of places) expect(failureOf(() => backup(place))).toContain('inside the data folder');
    expect(readdirSync(dataDir, { recursive: true }).sort()).toEqual(['inner', 'master.key']);
  });

  it('is refused beside the database that is kept elsewhere', () => {
    makeKey();
    mkdirSync(at('cluster'));
    writeFileSync(join(dataDir, 'postgres.location'), `${at('cluster')}\n`);
    expect(failureOf(() => backup(join(at('cluster'), 'copy')))).toContain('inside the data folder');
  });

  it('may be in a folder whose name only begins like the data folder’s', () => {
    makeKey();
    mkdirSync(`${dataDir}-copies`);
    backup(join(`${dataDir}-copies`, '..copy'));
    expect(existsSync(join(`${dataDir}-copies`, '..copy'))).toBe(true);
  });

  it('makes no key where there is none', () => {
    mkdirSync(dataDir);
    expect(failureOf(() => backup(at('copy')))).toContain('no master key');
    expect([readdirSync(dataDir), existsSync(at('copy'))]).toEqual([[], false]);
  });

  it('is refused for a key that others may read, as a start is', () => {
    makeKey();
    chmodSync(join(dataDir, 'master.key'), 0o644);
    expect(failureOf(() => backup(at('copy')))).toContain('chmod 600');
    expect(existsSync(at('copy'))).toBe(false);
  });

  it('is refused into a folder that is not there', () => {
    makeKey();
    expect(failureOf(() => backup(join(home, 'missing', 'copy')))).toContain('does not exist');
  });
});

describe('a restoration of the master key', () => {
  const copyOf = (text: string): string => {
    writeFileSync(at('copy'), text, { mode: 0o600 });
    return at('copy');
  };

  it('puts the key in its place for its owner alone, and knows that there is a copy', () => {
    const key = loadMasterKey({ environment: hex, dataDir });
    restore(copyOf(`${hex}\n`));
    expect(makeKey().id).toBe(key.id);
    expect(statSync(join(dataDir, 'master.key')).mode & 0o777).toBe(0o600);
    expect(readBackupNote(dataDir)?.digest).toBe(key.id);
    expect(readdirSync(dataDir).sort()).toEqual(['master.key', 'master.key.backup.json']);
  });

  it('takes base64 as the environment does', () => {
    const base64 = Buffer.from(hex, 'hex').toString('base64');
    restore(copyOf(base64));
    expect(makeKey().id).toBe(loadMasterKey({ environment: hex, dataDir: at('none') }).id);
  });

  it('changes nothing where the same key is already', () => {
    restore(copyOf(hex));
    const before = readFileSync(join(dataDir, 'master.key'), 'utf8');
    expect(restore(copyOf(hex))).toEqual(['The data folder has this master key already.']);
    expect(readFileSync(join(dataDir, 'master.key'), 'utf8')).toBe(before);
  });

  it('is refused where another key is, which stays', () => {
    const key = makeKey();
    const words = failureOf(() => restore(copyOf(hex)));
    expect(words).toContain('another key');
    expect(words).not.toContain(hex);
    expect(makeKey().id).toBe(key.id);
  });

  it('is refused where a file is that is no key, or that others may read', () => {
    mkdirSync(dataDir);
    writeFileSync(join(dataDir, 'master.key'), 'torn', { mode: 0o600 });
    expect(failureOf(() => restore(copyOf(hex)))).toContain('Nothing was changed');
    expect(readFileSync(join(dataDir, 'master.key'), 'utf8')).toBe('torn');
  });

  it('is refused while the environment gives another key, which would be used', () => {
    expect(failureOf(() => restore(copyOf(hex), otherHex))).toContain('HOOKLEDGER_MASTER_KEY is another key');
    expect(existsSync(dataDir)).toBe(false);
    expect(restore(copyOf(hex), hex)).toHaveLength(1);
  });

  it.each(['', 'ab', `${hex}ab`, 'x'.repeat(5_000)])('is refused for a file that holds no key (%#)', (text) => {
    expect(failureOf(() => restore(copyOf(text)))).toMatch(/holds no master key|is no file of a master key/u);
    expect(existsSync(dataDir)).toBe(false);
  });

  it('is refused for a file that is not there', () => {
    expect(failureOf(() => restore(at('missing')))).toContain('cannot be read (ENOENT)');
  });
});
