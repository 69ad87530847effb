import { afterEach, describe, expect, it } from '@jest/globals';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createPool, sqlOver } from '#event-store';
import type { EmbeddedPostgres } from './embedded-postgres.js';
import { startEmbeddedPostgres } from './embedded-postgres.js';
import { createLogger } from '#platform';

const logger = createLogger('silent');
const isRoot = process.getuid?.() === 0;
const asRoot = isRoot ? it : it.skip;

const folders: string[] = [];
const running: EmbeddedPostgres[] = [];

const newFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'hookledger-embedded-'));
  // A temporary folder is its maker's alone; the server's user must get through.
  chmodSync(folder, 0o755);
  folders.push(folder);
  return join(folder, 'data');
};

const start = async (dataDir: string): Promise<EmbeddedPostgres> => {
  const postgres = await startEmbeddedPostgres(dataDir, logger);
  running.push(postgres);
  return postgres;
};

const ask = async (url: string, text: string): Promise<readonly unknown[]> => {
  const pool = createPool({ connectionString: url, max: 1 });
  try {
    return await sqlOver(pool).query(text);
  } finally {
    await pool.end();
  }
};

const askPatiently = async (url: string, text: string): Promise<readonly unknown[]> => {
  for (let tries = 0; ; tries += 1) {
    try {
      return await ask(url, text);
    } catch (error) {
      if (tries > 200) throw error;
      await delay(100);
    }
  }
};

const pidOf = ({ data }: EmbeddedPostgres): number =>
  Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);

afterEach(async () => {
  for (const postgres of running.splice(0)) await postgres.stop();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}, 60_000);

describe('the embedded Postgres', () => {
  it('keeps what was written over a stop and a start, with fsync on', async () => {
    const dataDir = newFolder();
    const first = await start(dataDir);
    await ask(first.url, 'create table kept as select 42 as n');
    expect(await ask(first.url, 'show fsync')).toEqual([{ fsync: 'on' }]);
    expect(await ask(first.url, 'show data_checksums')).toEqual([{ data_checksums: 'on' }]);
    await first.stop();
    expect(existsSync(join(first.data, 'postmaster.pid'))).toBe(false);
    const second = await start(dataDir);
    expect(await ask(second.url, 'select n from kept')).toEqual([{ n: 42 }]);
  }, 60_000);

  it('lets nobody in without its password, which only its owner can read', async () => {
    const dataDir = newFolder();
    const { url } = await start(dataDir);
    const wrong = new URL(url);
    wrong.password = 'guess';
    await expect(ask(wrong.href, 'select 1')).rejects.toMatchObject({ code: '28P01' });
    expect(statSync(join(dataDir, 'postgres.password')).mode & 0o777).toBe(0o600);
  }, 60_000);

  it('is joined, not started again, while it runs', async () => {
    const dataDir = newFolder();
    const first = await start(dataDir);
    const second = await start(dataDir);
    expect(second.url).toBe(first.url);
    expect(pidOf(second)).toBe(pidOf(first));
  }, 60_000);

  it('comes back at the same address when it is killed', async () => {
    const postgres = await start(newFolder());
    await ask(postgres.url, 'create table kept as select 42 as n');
    const killed = pidOf(postgres);
    process.kill(killed, 'SIGKILL');
    expect(await askPatiently(postgres.url, 'select n from kept')).toEqual([{ n: 42 }]);
    expect(pidOf(postgres)).not.toBe(killed);
  }, 60_000);

  it('starts over the pid file of a server that is gone and whose pid is another program now', async () => {
    const dataDir = newFolder();
    const first = await start(dataDir);
    await ask(first.url, 'create table kept as select 42 as n');
    const pidFile = readFileSync(join(first.data, 'postmaster.pid'), 'utf8');
    await first.stop();
    for (const pid of ['999999999', String(process.pid)]) {
      writeFileSync(join(first.data, 'postmaster.pid'), pidFile.replace(/^\d+/u, pid));
      const again = await start(dataDir);
      expect(await ask(again.url, 'select n from kept')).toEqual([{ n: 42 }]);
      await again.stop();
    }
  }, 60_000);

  it('begins anew where a first start was killed half-way', async () => {
    const dataDir = newFolder();
    mkdirSync(join(dataDir, 'postgres.new-1'), { recursive: true });
    writeFileSync(join(dataDir, 'postgres.new-1', 'PG_VERSION'), '18\n');
    const { url } = await start(dataDir);
    expect(await ask(url, 'select 1 as n')).toEqual([{ n: 1 }]);
    expect(existsSync(join(dataDir, 'postgres.new-1'))).toBe(false);
  }, 60_000);

  it('leaves a folder alone that holds something else', async () => {
    const dataDir = newFolder();
    mkdirSync(join(dataDir, 'postgres'), { recursive: true });
    writeFileSync(join(dataDir, 'postgres', 'thesis.txt'), 'all I have');
    await expect(start(dataDir)).rejects.toThrow(/holds something that is no Postgres data/u);
    expect(readFileSync(join(dataDir, 'postgres', 'thesis.txt'), 'utf8')).toBe('all I have');
  }, 60_000);

  it('is made once when two start at once', async () => {
    const dataDir = newFolder();
    const [one, other] = await Promise.all([start(dataDir), start(dataDir)]);
    expect(one.url).toBe(other.url);
    expect(await ask(other.url, 'select 1 as n')).toEqual([{ n: 1 }]);
  }, 60_000);

  it('refuses data of another major version, says what to do and changes nothing', async () => {
    const dataDir = newFolder();
    const first = await start(dataDir);
    await first.stop();
    const version = join(first.data, 'PG_VERSION');
    writeFileSync(version, '15\n');
    await expect(start(dataDir)).rejects.toThrow(/made by Postgres 15.*is 18.*PG_BIN.*pg_dump/su);
    expect(readFileSync(version, 'utf8')).toBe('15\n');
  }, 60_000);

  it('says so when the password is gone', async () => {
    const dataDir = newFolder();
    await (await start(dataDir)).stop();
    rmSync(join(dataDir, 'postgres.password'));
    await expect(start(dataDir)).rejects.toThrow(/postgres\.password is missing/u);
  }, 60_000);

  asRoot(
    'keeps its files where its user can go, when that is not below the data folder',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'hookledger-embedded-'));
      folders.push(folder);
      chmodSync(folder, 0o700);
      const dataDir = join(folder, 'data');
      const first = await start(dataDir);
      folders.push(join(first.data, '..'));
      expect(first.data.startsWith(folder)).toBe(false);
      await ask(first.url, 'create table kept as select 42 as n');
      await first.stop();
      const second = await start(dataDir);
      expect(second.data).toBe(first.data);
      expect(await ask(second.url, 'select n from kept')).toEqual([{ n: 42 }]);
      await second.stop();
    },
    60_000,
  );
});
