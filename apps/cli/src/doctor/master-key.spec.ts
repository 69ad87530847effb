import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadMasterKey, masterKeyFrom } from '#sealing';
import { backupKey } from '../keys/backup-key.js';
import { examineMasterKey } from './master-key.js';
import type { KeyQuestion } from './master-key.js';

const hex = 'ab'.repeat(32);
let home: string;
let dataDir: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'hookledger-doctor-'));
  dataDir = join(home, 'data');
});

afterEach(() => rmSync(home, { recursive: true, force: true }));

const makeKey = () => loadMasterKey({ environment: undefined, dataDir });
const examine = (question: Partial<KeyQuestion> = {}) =>
  examineMasterKey({ dataDir, environment: undefined, databaseExists: false, masters: null, ...question });
const states = (question?: Partial<KeyQuestion>): readonly string[] => examine(question).map(({ state }) => state);

describe('the master key', () => {
  it('may be missing before the first start, and is not made', () => {
    expect(states()).toEqual(['ok']);
    expect(existsSync(dataDir)).toBe(false);
  });

  it('may not be missing where there is content that it opened', () => {
    expect(examine({ databaseExists: true })).toEqual([
      { check: 'master-key', state: 'problem', words: expect.stringContaining('keys restore') },
    ]);
    expect(states({ masters: ['0011223344556677'] })).toEqual(['problem']);
    expect(states({ databaseExists: true, masters: [] })).toEqual(['ok']);
  });

  it('is a warning while it exists in one place only, and none once it was backed up', () => {
    makeKey();
    expect(examine()).toEqual([
      { check: 'master-key', state: 'warning', words: expect.stringContaining('one place only') },
    ]);
    const now = new Date('2026-11-30T10:00:00.000Z');
    backupKey({ dataDir, to: join(home, 'copy'), environment: undefined, now });
    expect(examine()).toEqual([{ check: 'master-key', state: 'ok', words: expect.stringContaining('2026-11-30') }]);
  });

  it('is a warning again when the copy is of another key', () => {
    makeKey();
    backupKey({ dataDir, to: join(home, 'copy'), environment: undefined, now: new Date() });
    rmSync(join(dataDir, 'master.key'));
    makeKey();
    expect(states()).toEqual(['warning']);
  });

  it('must be the one that the content is under', () => {
    const { id } = makeKey();
    expect(states({ masters: [id] })).toEqual(['warning']);
    expect(states({ masters: [id, '0011223344556677'] })).toEqual(['problem', 'warning']);
  });

  it('is a warning while another one is taking its place', () => {
    const { id } = makeKey();
    writeFileSync(join(dataDir, 'master.next.key'), hex, { mode: 0o600 });
    const next = masterKeyFrom(Buffer.from(hex, 'hex'), 'file').id;
    expect(examine({ masters: [id, next] })[0]?.words).toContain('keys rotate');
    expect(examine({ masters: [next] })[0]?.words).toContain('keys rotate');
    rmSync(join(dataDir, 'master.next.key'));
    expect(examine({ masters: [id, next], nextEnvironment: hex })[0]?.state).toBe('warning');
    expect(examine({ masters: [id, next] })[0]?.state).toBe('problem');
    const given = { environment: 'cd'.repeat(32), nextEnvironment: hex };
    expect(examine({ ...given, masters: [next] })[0]?.words).toContain('make it HOOKLEDGER_MASTER_KEY');
  });

  it('is fine when the environment gives it, unless the file is another one', () => {
    expect(states({ environment: hex })).toEqual(['ok']);
    makeKey();
    expect(states({ environment: hex })).toEqual(['ok', 'warning']);
    // The file is the one in force: what the environment gives opens nothing.
    const { id } = makeKey();
    const words = examine({ environment: hex, masters: [id] }).map((finding) => finding.words);
    expect(words[0]).toContain(`under the one in ${dataDir}`);
    expect(words.join(' ')).not.toContain('HOOKLEDGER_MASTER_KEY_NEXT');
  });

  it('is a problem when it is none, or when others may read it', () => {
    expect(states({ environment: 'short' })).toEqual(['problem']);
    makeKey();
    chmodSync(join(dataDir, 'master.key'), 0o604);
    expect(examine()).toEqual([{ check: 'master-key', state: 'problem', words: expect.stringContaining('chmod 600') }]);
  });
});
