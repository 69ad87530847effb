import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startNodeProgram, type RanProgram } from './support/node-program.js';
import { freePort, startServer, until, type RunningServer } from './support/running-server.js';

/** The programs of examples/runtime, each as a person starts it. */

const base = '/v1/accounts/default';
const folder = mkdtempSync(join(tmpdir(), 'hookledger-examples-'));
let server: RunningServer;
let port: number;
const keys = { runtime: '', auditor: '' };

beforeAll(async () => {
  port = await freePort();
  server = await startServer({ port });
  for (const role of ['runtime', 'auditor'] as const) {
    const { body } = await server.call<{ secret: string }>('POST', `${base}/keys`, { body: { role, name: role } });
    keys[role] = body.secret;
  }
  await install('tidy', {
    source: `
      globalThis.middleware.sshCommandSending = (c, { cancel }) =>
        c.command.includes('rm ') ? cancel('nothing is removed here') : { command: c.command.replace('secret', 'public') };
      globalThis.middleware.sshCommandCompleted = (c) => ({ output: c.output.replace('word', 'WORD') });
    `,
  });
}, 120_000);

afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
}, 120_000);

const install = async (id: string, plugin: object): Promise<void> => {
  const body = { id, dialect: 'middleware', language: 'javascript', enabled: true, reason: 'test', ...plugin };
  const answer = await server.call('POST', `${base}/plugins`, { body });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
};

const start = (name: string, role: keyof typeof keys, args: readonly string[] = [], env: Record<string, string> = {}) =>
  startNodeProgram(join('examples/runtime', name), args, {
    HOOKLEDGER_URL: server.url,
    HOOKLEDGER_KEY: keys[role],
    HOOKLEDGER_STATE: folder,
    ...env,
  });

const run = (name: string, args: readonly string[], env: Record<string, string> = {}): Promise<RanProgram> =>
  start(name, 'runtime', args, env).ended;

const typesOnRecord = async (type: string): Promise<number> => {
  const { body } = await server.call<{ items: unknown[] }>('GET', `${base}/events?type=${type}&limit=500`);
  return body.items.length;
};

describe('guarded-shell.js', () => {
  it('runs a command as the plugins left it and shows what they left of its output', async () => {
    expect(await run('guarded-shell.js', ['echo secret word'])).toMatchObject({ code: 0, stdout: 'public WORD\n' });
    expect(await typesOnRecord('effect.reported')).toBe(1);
  });

  it('runs nothing that is vetoed', async () => {
    const ran = await run('guarded-shell.js', ['rm -r /tmp/nothing']);
    expect([ran.code, ran.stderr]).toEqual([126, 'refused: nothing is removed here\n']);
  });

  it('runs nothing while the server is away, and says so when it is back', async () => {
    await server.stop();
    const refused = await run('guarded-shell.js', ['echo hello']);
    expect([refused.code, refused.stdout, refused.stderr]).toEqual([
      126,
      '',
      'refused: Hookledger could not be reached\n',
    ]);
    server = await startServer({ port, dataDir: server.dataDir });
    const ran = await run('guarded-shell.js', ['echo hello']);
    expect(ran).toMatchObject({
      code: 0,
      stdout: 'hello\n',
      stderr: 'told the server of 1 decisions that were made without it\n',
    });
    expect(await typesOnRecord('invocation.missed')).toBe(1);
  }, 60_000);
});

describe('clear-session.js', () => {
  it('has its completion told once, though it died before', async () => {
    const file = join(folder, 'session-42.json');
    const died = await run('clear-session.js', ['42', file], { DIE_BEFORE_COMPLETION: '1' });
    expect(died.code).toBe(null);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ messages: [], pending: [{ sessionId: '42' }] });
    expect(await typesOnRecord('session.cleared')).toBe(0);
    const ran = await run('clear-session.js', ['42', file]);
    expect([ran.code, ran.stdout]).toEqual([0, 'cleared 0 messages of 42\n']);
    expect(await typesOnRecord('session.cleared')).toBe(2);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ pending: [] });
  });
});

describe('follow-log.js', () => {
  it('goes on where it stopped', async () => {
    const first = start('follow-log.js', 'auditor', ['invocation.closed']);
    await until('it told of what there was', () => first.said().includes('sshCommandCompleted'));
    first.stop();
    const { stdout, code } = await first.ended;
    expect(code).toBe(0);
    const second = start('follow-log.js', 'auditor', ['invocation.closed']);
    await run('guarded-shell.js', ['echo again']);
    await until('it told of what came', () => second.said().includes('sshCommandCompleted'));
    second.stop();
    const lines = `${stdout}${(await second.ended).stdout}`.trim().split('\n');
    const positions = lines.map((line) => Number(line.split(' ')[0]));
    expect(positions).toEqual([...new Set(positions)].sort((a, b) => a - b));
    expect(lines).toHaveLength(await typesOnRecord('invocation.closed'));
  }, 60_000);
});

describe('serve-host.js', () => {
  it('runs what plugins ask for, and delivers their messages one hop further', async () => {
    await install('asker', {
      source: `
        globalThis.middleware.userMessageInbound = async (c) => {
          await host.session.peer.send('other', 'a message');
          return c.text;
        };
        globalThis.middleware.sshConnectionOpening = async (c, { cancel }) => {
          const { output, exitCode } = await host.ssh.command('echo served; exit 3', { timeoutSeconds: 5 });
          return cancel(output.trim() + ' ' + exitCode);
        };`,
    });
    const runtime = start('serve-host.js', 'runtime');
    await until('it is connected', () => runtime.said().includes('connected'));
    const opening = {
      sessionId: '42',
      agentId: '7',
      sshHostId: '9',
      hostDisplayName: 'web-1',
      hostname: 'web-1',
      port: null,
      connectionType: 'direct',
      username: 'root',
    };
    const fire = (hook: string, context: object) =>
      server.call<{ cancellation: { reason: string } }>('POST', `${base}/hooks/middleware/${hook}`, {
        key: keys.runtime,
        body: { context },
      });
    expect((await fire('sshConnectionOpening', opening)).body.cancellation.reason).toBe('served 3');
    await fire('userMessageInbound', { sessionId: '42', channelId: null, text: 'hello', mediaIds: [] });
    await until('the message was delivered', () => runtime.said().includes('to other: a message'));
    runtime.stop();
    expect((await runtime.ended).code).toBe(0);
  }, 60_000);
});
