import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { loadMasterKey, MasterKeyProblem, unwrapKey, wrapKey } from './master-key.js';

describe('the master key', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hookledger-master-key-'));
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  const load = (environment?: string): ReturnType<typeof loadMasterKey> =>
    loadMasterKey({ environment, dataDir: join(folder, 'data') });

  it('is made at the first start, readable by its owner only, and found again', () => {
    const made = load();
    expect(made.source).toBe('file');
    expect(statSync(join(folder, 'data', 'master.key')).mode & 0o777).toBe(0o600);
    expect(readdirSync(join(folder, 'data'))).toEqual(['master.key']);
    expect(load().id).toBe(made.id);
    expect(readFileSync(join(folder, 'data', 'master.key'), 'utf8')).not.toContain(made.id);
  });

  it('is another one in another installation', () => {
    const elsewhere = loadMasterKey({ environment: '', dataDir: join(folder, 'other') });
    expect(load().id).not.toBe(elsewhere.id);
  });

  it('comes from the environment, as hex or base64, and then no file is made', () => {
    const bytes = randomBytes(32);
    const ids = ['hex', 'base64', 'base64url'].map((form) => load(bytes.toString(form as BufferEncoding)).id);
    expect(new Set(ids).size).toBe(1);
    expect(readdirSync(folder)).toEqual([]);
    expect(load(randomBytes(32).toString('hex')).id).not.toBe(ids[0]);
  });

  it.each(['short', '00'.repeat(31), '00'.repeat(33), 'zz'.repeat(32), randomBytes(16).toString('base64')])(
    'is refused when it is not 32 bytes: %s',
    (text) => {
      expect(() => load(text)).toThrow(MasterKeyProblem);
    },
  );

  it('is refused when others may read its file or its file holds something else', () => {
    load();
    const path = join(folder, 'data', 'master.key');
    chmodSync(path, 0o640);
    expect(() => load()).toThrow('chmod 600');
    chmodSync(path, 0o600);
    writeFileSync(path, 'nonsense');
    expect(() => load()).toThrow(MasterKeyProblem);
  });

  it('wraps a data key for one scope of one account only', () => {
    const master = load();
    const name = { id: 'k', account: 'a', scope: 'session:s' };
    const dataKey = randomBytes(32);
    const wrapped = wrapKey(master, name, dataKey);
    expect(wrapped.includes(dataKey)).toBe(false);
    expect(unwrapKey(master, name, wrapped)).toEqual(dataKey);
    for (const other of [
      { ...name, id: 'l' },
      { ...name, account: 'b' },
      { ...name, scope: 'account' },
    ]) {
      expect(() => unwrapKey(master, other, wrapped)).toThrow();
    }
    expect(wrapKey(master, name, dataKey)).not.toEqual(wrapped);
  });
});
