import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { examineFolder } from './folder.js';

let home: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'hookledger-doctor-'));
});

afterEach(() => rmSync(home, { recursive: true, force: true }));

const states = (dataDir: string): readonly string[] => examineFolder(dataDir).map(({ state }) => state);

describe('the data folder', () => {
  it('may be missing where it can be made, and is not made', () => {
    const dataDir = join(home, 'a', 'b');
    expect(examineFolder(dataDir)).toEqual([
      { check: 'data', state: 'ok', words: `The data folder ${dataDir} does not exist yet; the first start makes it.` },
    ]);
    expect(existsSync(join(home, 'a'))).toBe(false);
  });

  it('is fine with the modes that a start gives it', () => {
    chmodSync(home, 0o711);
    expect(states(home)).toEqual(['ok']);
    chmodSync(home, 0o700);
    expect(states(home)).toEqual(['ok']);
  });

  it('may not be a file, nor below one', () => {
    writeFileSync(join(home, 'file'), '');
    expect(examineFolder(join(home, 'file'))[0]).toMatchObject({
      state: 'problem',
      words: expect.stringContaining('is a file'),
    });
    expect(examineFolder(join(home, 'file', 'below'))[0]).toMatchObject({
      state: 'problem',
      words: expect.stringContaining('ENOTDIR'),
    });
  });

  it.each([0o777, 0o770, 0o702])('may not be written by others (%o)', (mode) => {
    const dataDir = join(home, 'data');
    mkdirSync(dataDir);
    chmodSync(dataDir, mode);
    expect(examineFolder(dataDir)[0]).toMatchObject({ state: 'problem', words: expect.stringContaining('chmod go-w') });
  });

  it('may not show the password of the database', () => {
    writeFileSync(join(home, 'postgres.password'), 'p', { mode: 0o600 });
    expect(states(home)).toEqual(['ok']);
    chmodSync(join(home, 'postgres.password'), 0o640);
    expect(examineFolder(home)[0]).toMatchObject({ state: 'problem', words: expect.stringContaining('chmod 600') });
  });
});
