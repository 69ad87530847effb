import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import tar from 'tar-stream';
import { buffer } from 'node:stream/consumers';
import { Failure } from '../words.js';
import { exportRecord, readExport } from './export.js';

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const events = Buffer.from('{"a":1}\n');

const tarOf = async (files: Readonly<Record<string, Buffer>>): Promise<Buffer> => {
  const pack = tar.pack();
  for (const [name, bytes] of Object.entries(files)) pack.entry({ name: `hookledger-export-x/${name}` }, bytes);
  pack.finalize();
  return buffer(pack);
};

let folder: string;
let server: Server;
/** Answers `GET …/file`. */
let sendFile: (response: ServerResponse) => void;

beforeEach(async () => {
  jest.spyOn(console, 'log').mockImplementation(() => undefined);
  folder = mkdtempSync(join(tmpdir(), 'hookledger-export-'));
  const shown = {
    id: 'x',
    state: 'done',
    format: 'jsonl',
    events: 1,
    range: { first: '0', last: '0' },
    manifest: {
      events: 1,
      first: '0',
      last: '0',
      files: { 'events.jsonl': { sha256: sha256(events), bytes: events.length } },
    },
  };
  server = createServer((request, response) => {
    if (request.url?.endsWith('/file') === true) sendFile(response);
    else response.setHeader('content-type', 'application/json').end(JSON.stringify(shown));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});

afterEach(async () => {
  jest.restoreAllMocks();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true });
});

const fetchTo = (name: string): Promise<number> => {
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  return exportRecord(['--to', join(folder, name), '--url', url, '--key', 'k', '--json']);
};

describe('a fetched export', () => {
  it('is kept when it is whole and each file is what the manifest says', async () => {
    const whole = await tarOf({ 'manifest.json': Buffer.from('{}'), 'events.jsonl': events });
    sendFile = (response) => response.setHeader('content-length', whole.length).end(whole);
    expect(await fetchTo('a.tar')).toBe(0);
    expect(readFileSync(join(folder, 'a.tar')).equals(whole)).toBe(true);
    expect(readdirSync(folder)).toEqual(['a.tar']);
  });

  it.each<[string, (whole: Buffer) => (response: ServerResponse) => void]>([
    [
      'broke off',
      (whole) => (response) => {
        response.setHeader('content-length', whole.length).write(whole.subarray(0, 700));
        setTimeout(() => response.destroy(), 20);
      },
    ],
    [
      'ended early by its own word',
      (whole) => (response) => response.setHeader('content-length', 1_024).end(whole.subarray(0, 1_024)),
    ],
    [
      'was changed in one byte',
      (whole) => (response) => {
        const changed = Buffer.from(whole);
        const at = changed.indexOf('{"a":1}');
        changed[at + 5] = 0x32;
        response.setHeader('content-length', changed.length).end(changed);
      },
    ],
    ['is something else', () => (response) => response.setHeader('content-length', 5).end('hello')],
    ['has no length', (whole) => (response) => void (response.write(whole), response.end())],
  ])('is not kept when it %s', async (_what, answer) => {
    const whole = await tarOf({ 'manifest.json': Buffer.from('{}'), 'events.jsonl': events });
    sendFile = answer(whole);
    await expect(fetchTo('a.tar')).rejects.toThrow(Failure);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('touches no file that is there', async () => {
    const whole = await tarOf({ 'events.jsonl': events });
    sendFile = (response) => response.setHeader('content-length', whole.length).end(whole);
    await fetchTo('a.tar');
    await expect(fetchTo('a.tar')).rejects.toThrow('exists already');
    expect(existsSync(join(folder, 'a.tar'))).toBe(true);
  });
});

describe('the words of an export', () => {
  const read = (words: string) => readExport(['--key', 'k', ...words.split(' ')], {}, '/').wish;

  it('become the query of the API, and say the format by the name of the file', () => {
    expect(
      read('--to a.csv --from 2026-01-01 --until 2026-02-01 --type handler.* --type invocation.opened --session s'),
    ).toEqual({
      to: '/a.csv',
      id: null,
      json: false,
      body: {
        query: { from: '2026-01-01', to: '2026-02-01', types: ['handler.*', 'invocation.opened'], sessionId: 's' },
        format: 'csv',
        content: 'none',
      },
    });
    expect(read('--to a --first 3 --last 9 --stream x --content').body).toEqual({
      query: { first: '3', last: '9', stream: 'x' },
      format: 'jsonl',
      content: 'full',
    });
    expect(read('--to a --resume id').id).toBe('id');
  });

  it.each([
    ['--format jsonl', '--to'],
    ['--to a --format pdf', '--format'],
    ['--to a --resume id --first 3', '--resume'],
  ])('are refused as %s', (words, named) => {
    expect(() => read(words)).toThrow(named);
  });
});
