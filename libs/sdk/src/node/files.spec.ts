import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { fileCheckpoints, fileOutbox } from './index.js';

const folder = mkdtempSync(join(tmpdir(), 'hookledger-files-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const report = (id: string) => ({ id, path: 'unreachable', body: { text: `of ${id} \ud800` } });

describe('an outbox of files', () => {
  it('keeps the order, survives its process, and forgets what is told', async () => {
    const place = join(folder, 'outbox');
    const first = fileOutbox(place);
    const ids = ['c', 'a', '../b', '.', 'é'];
    for (const id of ids) await first.put(report(id));
    const second = fileOutbox(place);
    expect(await second.list()).toEqual(ids.map(report));
    await second.put({ ...report('a'), refused: { status: 422, code: 'no', detail: 'no' } });
    await second.remove('../b');
    expect((await fileOutbox(place).list()).map(({ id, refused }) => [id, refused?.code])).toEqual([
      ['c', undefined],
      ['a', 'no'],
      ['.', undefined],
      ['é', undefined],
    ]);
    expect(readdirSync(folder)).toEqual(['outbox']);
    const [file] = readdirSync(place);
    expect(statSync(join(place, file ?? '')).mode & 0o077).toBe(0);
  });

  it('is empty where there is no folder', async () => {
    expect(await fileOutbox(join(folder, 'none')).list()).toEqual([]);
  });
});

describe('checkpoints in files', () => {
  it('are kept under any name, and refused where a file holds none', async () => {
    const place = join(folder, 'positions');
    const names = ['siem', '../up', 'a/b', '.', '..', ''];
    for (const [index, name] of names.entries()) await fileCheckpoints(place).save(name, String(index));
    for (const [index, name] of names.entries()) expect(await fileCheckpoints(place).load(name)).toBe(String(index));
    expect(await fileCheckpoints(place).load('other')).toBe(null);
    writeFileSync(join(place, 'torn.position'), '12');
    await expect(fileCheckpoints(place).load('torn')).rejects.toThrow('holds no position');
  });
});
