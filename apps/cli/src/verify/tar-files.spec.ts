import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { pack } from 'tar-stream';
import { filesOfTar } from './tar-files.js';

const folder = mkdtempSync(join(tmpdir(), 'hookledger-tar-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const tarOf = async (files: Readonly<Record<string, string>>): Promise<Buffer> => {
  const made = pack();
  for (const [name, text] of Object.entries(files)) made.entry({ name }, text);
  made.finalize();
  const pieces: Buffer[] = [];
  for await (const piece of made) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
};

describe('the files of a tar', () => {
  it('are where their headers say, also under names that need a header of their own', async () => {
    const files = { 'x/manifest.json': '{}', 'x/empty': '', [`${'long/'.repeat(40)}é.jsonl`]: 'y'.repeat(1_500) };
    const bytes = await tarOf(files);
    const path = join(folder, 'some.tar');
    writeFileSync(path, bytes);
    const found = filesOfTar(path)?.map(({ name, start, bytes: size }) => [
      name,
      bytes.toString('utf8', start, start + size),
    ]);
    expect(Object.fromEntries(found ?? [])).toEqual(files);
  });

  it.each(['', 'x', 'x'.repeat(2_000)])('are none in what is no tar', (text) => {
    const path = join(folder, 'other');
    writeFileSync(path, text);
    expect(filesOfTar(path)).toBeNull();
  });
});
