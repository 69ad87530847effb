import { afterEach, describe, expect, it } from '@jest/globals';
import { chmodSync, chownSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { RunningServer, StartOptions } from './support/running-server.js';
import {
  clusterOf,
  freePort,
  postgresPid,
  startExpectingRefusal,
  startServer,
  until,
} from './support/running-server.js';
import { createTestDatabase } from './support/test-postgres.js';

const patience = 180_000;
const nobody = { uid: 65_534, gid: 65_534 };
const isRoot = process.getuid?.() === 0;

/** Whether an ordinary user could run this checkout at all. */
const everybodyMayEnter = (path: string): boolean =>
  dirname(path) === path || ((statSync(path).mode & 0o001) !== 0 && everybodyMayEnter(dirname(path)));

const asNobody = isRoot && everybodyMayEnter(import.meta.dirname) ? it : it.skip;

const servers: RunningServer[] = [];
const folders: string[] = [];

const start = async (options: StartOptions = {}): Promise<RunningServer> => {
  const server = await startServer(options);
  servers.push(server);
  return server;
};

const newFolder = (mode = 0o755): string => {
  const folder = mkdtempSync(join(tmpdir(), 'hookledger-e2e-'));
  chmodSync(folder, mode);
  folders.push(folder);
  return folder;
};

afterEach(async () => {
  for (const server of servers.splice(0).reverse()) await server.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}, patience);

const ready = async (server: RunningServer): Promise<number> =>
  (await server.call('GET', '/health/ready', { key: null })).status;

const makeAccount = (server: RunningServer, id: string) =>
  server.call<unknown>('POST', '/v1/accounts', { body: { id, name: `Account ${id}` } });

const accountIds = async (server: RunningServer): Promise<readonly string[]> => {
  const { body } = await server.call<unknown>('GET', '/v1/accounts?limit=500');
  return (body as { items: { id: string }[] }).items.map(({ id }) => id);
};

describe('the program', () => {
  it(
    'starts on nothing, says where it listens and the operator key once, and keeps only its hash',
    async () => {
      const dataDir = newFolder();
      const first = await start({ dataDir, env: { HOOKLEDGER_OPERATOR_KEY: '' } });
      await until('the operator key is printed', () => /Operator key.*: hlk_/u.test(first.said()));
      const key = /hlk_[\w-]+/u.exec(first.said())?.[0] ?? '';
      expect((await first.call('GET', '/v1/accounts', { key })).status).toBe(200);
      expect(await ready(first)).toBe(200);
      expect(await first.stop()).toBe(0);
      expect(first.said()).toContain('Hookledger stopped.');
      expect(postgresPid(dataDir)).toBeNull();
      expect(first.logged()).not.toContain(key);

      const second = await start({ dataDir, env: { HOOKLEDGER_OPERATOR_KEY: '' } });
      expect((await second.call('GET', '/v1/accounts', { key })).status).toBe(200);
      expect(second.said()).not.toContain('hlk_');
    },
    patience,
  );

  it(
    'puts the operator key of the environment in force, and the one before out of it',
    async () => {
      const dataDir = newFolder();
      const first = await start({ dataDir, env: { HOOKLEDGER_OPERATOR_KEY: 'the-first-operator-key' } });
      expect((await first.call('GET', '/v1/accounts')).status).toBe(200);
      await first.stop();
      const second = await start({ dataDir, env: { HOOKLEDGER_OPERATOR_KEY: 'the-second-operator-key' } });
      expect((await second.call('GET', '/v1/accounts', { key: 'the-second-operator-key' })).status).toBe(200);
      expect((await second.call('GET', '/v1/accounts', { key: 'the-first-operator-key' })).status).toBe(401);
    },
    patience,
  );

  it(
    'goes on where it was after a kill -9 of itself, joining the Postgres that outlived it',
    async () => {
      const dataDir = newFolder();
      const first = await start({ dataDir });
      expect((await makeAccount(first, 'before-the-kill')).status).toBe(201);
      const postgres = postgresPid(dataDir);
      await first.kill();
      expect(postgresPid(dataDir)).toBe(postgres);
      const second = await start({ dataDir });
      expect(await accountIds(second)).toContain('before-the-kill');
      expect(postgresPid(dataDir)).toBe(postgres);
      expect(await second.stop()).toBe(0);
      expect(postgresPid(dataDir)).toBeNull();
    },
    patience,
  );

  it(
    'outlives a kill -9 of its Postgres: 503 meanwhile, then as before without a restart, and nothing answered is lost',
    async () => {
      const dataDir = newFolder();
      const server = await start({ dataDir });
      const killed = postgresPid(dataDir);
      const answered: string[] = [];
      const statuses = new Set<number>();
      for (let n = 0; n < 60; n += 1) {
        if (n === 20) process.kill(killed ?? -1, 'SIGKILL');
        const id = `account-${n}`;
        const { status, body } = await makeAccount(server, id);
        statuses.add(status);
        if (status === 201) answered.push(id);
        else expect(body).toMatchObject({ status: 503 });
      }
      await until('the program is ready again', async () => (await ready(server)) === 200, 60);
      await until(
        'it takes accounts again',
        async () => (await makeAccount(server, `later-${Date.now()}`)).status === 201,
        60,
      );
      expect(postgresPid(dataDir)).not.toBe(killed);
      expect([...statuses].filter((status) => status !== 201 && status !== 503)).toEqual([]);
      expect(await accountIds(server)).toEqual(expect.arrayContaining(answered));
    },
    patience,
  );

  it(
    'stops cleanly on SIGTERM while a request is on its way, and answers it',
    async () => {
      const server = await start();
      const answers = Array.from({ length: 20 }, (_, n) => makeAccount(server, `in-flight-${n}`));
      await answers[0];
      const code = server.stop();
      const statuses = await Promise.all(
        answers.map((answer) =>
          answer.then(
            ({ status }) => status,
            () => 'refused',
          ),
        ),
      );
      expect(await code).toBe(0);
      expect(statuses.filter((status) => ![201, 503, 'refused'].includes(status))).toEqual([]);
    },
    patience,
  );

  it(
    'stops as cleanly when its signal comes twice, as a Ctrl-C under npm does',
    async () => {
      const server = await start();
      process.kill(server.pid, 'SIGINT');
      setTimeout(() => process.kill(server.pid, 'SIGINT'), 5);
      expect(await server.stop()).toBe(0);
      expect(server.said()).toContain('Hookledger stopped.');
      expect(postgresPid(server.dataDir)).toBeNull();
    },
    patience,
  );

  it(
    'says that a port is in use, and leaves the Postgres of the one that uses it alone',
    async () => {
      const dataDir = newFolder();
      const port = await freePort();
      const first = await start({ dataDir, port });
      const { code, words } = await startExpectingRefusal({ dataDir, port });
      expect(code).toBe(1);
      expect(words).toMatch(new RegExp(`Port ${port} on 127\\.0\\.0\\.1 is in use.*set PORT`, 'su'));
      expect(words).not.toContain('    at ');
      expect(postgresPid(dataDir)).not.toBeNull();
      expect((await makeAccount(first, 'still-here')).status).toBe(201);
    },
    patience,
  );

  it(
    'refuses data of another Postgres major, says what to do, and leaves it as it was',
    async () => {
      const dataDir = newFolder();
      await (await start({ dataDir })).stop();
      const version = join(clusterOf(dataDir), 'PG_VERSION');
      const right = readFileSync(version, 'utf8');
      writeFileSync(version, '16\n');
      const { code, words } = await startExpectingRefusal({ dataDir });
      expect(code).toBe(1);
      expect(words).toMatch(/made by Postgres 16.*PG_BIN.*pg_dump.*DATABASE_URL/su);
      writeFileSync(version, right);
      await start({ dataDir });
    },
    patience,
  );

  it.each([
    [{ PORT: 'http' }, /PORT is "http"/u],
    [{ HOST: '192.0.2.1' }, /HOST is 192\.0\.2\.1/u],
    [{ HOOKLEDGER_ROLES: 'boss' }, /HOOKLEDGER_ROLES is "boss"/u],
    [{ HOOKLEDGER_MASTER_KEY: 'short' }, /HOOKLEDGER_MASTER_KEY/u],
    [{ DATABASE_URL: 'postgres://u:hunter2@127.0.0.1:1/d' }, /127\.0\.0\.1:1\/d \(DATABASE_URL\) cannot be used/u],
  ])(
    'does not start with %j and says why, secrets left out',
    async (env, why) => {
      const { code, words } = await startExpectingRefusal({ dataDir: newFolder(), env });
      expect(code).toBe(1);
      expect(words).toMatch(why);
      expect(words).not.toContain('hunter2');
    },
    patience,
  );

  it(
    'uses another Postgres when it is given one, and replicas on it see the same',
    async () => {
      const database = await createTestDatabase();
      const env = { DATABASE_URL: database.url, HOOKLEDGER_MASTER_KEY: '11'.repeat(32) };
      const [one, other] = await Promise.all([start({ env }), start({ env })]);
      expect(existsSync(join(one.dataDir, 'postgres'))).toBe(false);
      expect((await makeAccount(one, 'shared')).status).toBe(201);
      expect(await accountIds(other)).toContain('shared');
      const made = await one.call('POST', '/v1/accounts/shared/keys', { body: { role: 'admin', name: 'a' } });
      const { id, secret } = made.body as { id: string; secret: string };
      // At once on the other one as well: a key that it does not know is looked for.
      expect((await other.call('GET', '/v1/accounts/shared/settings', { key: secret })).status).toBe(200);
      expect((await one.call('DELETE', `/v1/accounts/shared/keys/${id}`)).status).toBe(204);
      expect((await one.call('GET', '/v1/accounts/shared/settings', { key: secret })).status).toBe(401);
      await until(
        'the other replica refuses the key',
        async () => (await other.call('GET', '/v1/accounts/shared/settings', { key: secret })).status === 401,
      );
      for (const server of servers.splice(0)) await server.close();
      await database.drop();
    },
    patience,
  );

  asNobody(
    "runs as an ordinary user, and says so when the data folder is root's",
    async () => {
      const dataDir = newFolder();
      chownSync(dataDir, nobody.uid, nobody.gid);
      const server = await start({ dataDir, user: nobody });
      expect((await makeAccount(server, 'of-nobody')).status).toBe(201);
      await server.stop();
      expect(statSync(join(dataDir, 'postgres')).uid).toBe(nobody.uid);

      const rootsOwn = newFolder();
      await (await start({ dataDir: rootsOwn })).stop();
      const { code, words } = await startExpectingRefusal({ dataDir: rootsOwn, user: nobody });
      expect(code).toBe(1);
      expect(words).toMatch(/cannot be used.*belongs to user 0.*HOOKLEDGER_DATA/su);
    },
    patience,
  );

  asNobody(
    'runs as root on the data of an ordinary user, and leaves it theirs',
    async () => {
      const dataDir = newFolder();
      chownSync(dataDir, nobody.uid, nobody.gid);
      const theirs = await start({ dataDir, user: nobody });
      await makeAccount(theirs, 'of-nobody');
      await theirs.stop();
      const roots = await start({ dataDir });
      expect(await accountIds(roots)).toContain('of-nobody');
      await roots.stop();
      const again = await start({ dataDir, user: nobody });
      expect(await accountIds(again)).toContain('of-nobody');
    },
    patience,
  );
});
