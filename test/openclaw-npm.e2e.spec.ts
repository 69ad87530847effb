import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { isOffline, npmPlugin } from './support/npm-plugin.js';
import { startServer, type RunningServer } from './support/running-server.js';

let server: RunningServer;
beforeAll(async () => {
  server = await startServer();
}, 120_000);
afterAll(() => server.close());

interface Body {
  readonly code: string;
  readonly hooks: readonly string[];
  readonly outcome: string;
  readonly value: unknown;
  readonly errors: readonly { readonly reason: string }[];
  readonly handlers: readonly { readonly outcome: string; readonly warnings: readonly unknown[] }[];
}

let accounts = 0;
const newAccount = async (): Promise<string> => {
  const id = `npm-${String((accounts += 1))}`;
  expect((await server.call('POST', '/v1/accounts', { body: { id, name: id } })).status).toBe(201);
  return `/v1/accounts/${id}`;
};

/** Installs a published plugin as it is. */
const install = async (base: string, name: string, version: string, config: object) => {
  const { id, entry, files, version: published } = await npmPlugin(name, version);
  const language = entry.endsWith('ts') ? 'typescript' : 'javascript';
  const body = { id, dialect: 'openclaw', language, version: published, files, entry, config };
  return server.call<Body>('POST', `${base}/plugins`, { body });
};

const context = { agentId: 'main', sessionKey: 'agent:main:main', sessionId: 's-1', runId: 'r-1' };
const call = { toolName: 'exec', params: { command: 'ls' }, runId: 'r-1', toolCallId: 't-1' };
const prompt = { prompt: 'What is on my list?', messages: [{ role: 'user', content: 'hello' }] };

interface Runs {
  readonly name: string;
  readonly version: string;
  readonly config?: object;
  /** What its handler makes of an event of each hook. */
  readonly fired: readonly (readonly [hook: string, event: object, handler: string, value: unknown])[];
}

const running: readonly Runs[] = [
  {
    name: '@projectavatar/openclaw-avatar',
    version: '2.2.0',
    fired: [
      [
        'before_prompt_build',
        prompt,
        'rewrote',
        { prependContext: expect.stringContaining('Call avatar_signal before each reply') },
      ],
      ['before_tool_call', call, 'passed', null],
      ['after_tool_call', { ...call, result: { content: [] } }, 'observed', null],
      ['message_received', { from: 'u', content: 'hello', metadata: {} }, 'observed', null],
      ['session_end', { sessionId: 's-1', messageCount: 0, reason: 'reset' }, 'observed', null],
    ],
  },
  {
    name: 'simmer-automaton',
    version: '0.7.2',
    config: { apiKey: 'a key' },
    fired: [
      ['before_prompt_build', prompt, 'rewrote', { prependContext: expect.stringContaining('[Simmer Automaton]') }],
    ],
  },
  {
    name: 'jasper-context-compactor',
    version: '0.4.1',
    fired: [['before_agent_start', prompt, 'passed', null]],
  },
];

/** Why each is not installed: exactly what the answer says. */
const refused: readonly (readonly [name: string, version: string, code: string, reason: RegExp])[] = [
  ['@calltelemetry/openclaw-linear', '0.9.29', 'does_not_parse', /"cockatiel" is not among the plugin's files/u],
  ['@happycastle/oh-my-openclaw', '0.21.3', 'does_not_parse', /"json5" is not among the plugin's files/u],
  ['@mindfoldhq/oh-my-openclaw', '0.1.11', 'does_not_parse', /"yaml" is not among the plugin's files/u],
  ['@aiassesstech/grillo', '0.1.43', 'does_not_parse', /"zod" is not among the plugin's files/u],
  ['@mem0/openclaw-mem0', '1.0.16', 'throws_at_load', /fs\.existsSync is not available to plugins here/u],
  ['@robertogongora/graphiti', '0.6.2', 'throws_at_load', /node:module\.createRequire is not available/u],
  ['@laurentenhoor/devclaw', '1.6.10', 'bad_fields', /must be at most 1048576 bytes/u],
];

(isOffline ? describe.skip : describe)('a plugin that was published for OpenClaw', () => {
  it.each(running)(
    'is installed and runs as it is: $name',
    async ({ name, version, config = {}, fired }) => {
      const base = await newAccount();
      const installed = await install(base, name, version, config);
      expect([installed.status, installed.text]).toEqual([201, installed.text]);
      expect(installed.body.hooks).toEqual(expect.arrayContaining(fired.map(([hook]) => hook)));
      for (const [hook, event, handler, value] of fired) {
        const body = { event, context };
        const answer = await server.call<Body>('POST', `${base}/hooks/openclaw/${hook}`, { body });
        expect([hook, answer.status]).toEqual([hook, 200]);
        expect([hook, answer.body.handlers]).toMatchObject([hook, [{ outcome: handler, warnings: [] }]]);
        expect(answer.body.value).toEqual(value);
      }
    },
    120_000,
  );

  it.each(refused)(
    'that needs what is not here is refused with the reason, and nothing is stored: %s',
    async (name, version, code, reason) => {
      const base = await newAccount();
      const answer = await install(base, name, version, {});
      expect([answer.status, answer.body.code]).toEqual([422, code]);
      expect(answer.body.errors[0]?.reason).toMatch(reason);
      expect((await server.call('GET', `${base}/plugins`)).body).toMatchObject({ items: [] });
    },
    120_000,
  );
});
