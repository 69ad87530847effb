import { describe, expect, it } from '@jest/globals';
import type { LoadOutcome, Sandbox, SandboxHealth } from '#sandbox';
import { examineNode, examineSandbox } from './program.js';

const options = { jit: false, require: false, shared: false };
const healthy: SandboxHealth = { state: 'ok', missing: [], children: 1 };
const loads: LoadOutcome = { kind: 'loaded', report: '{}', durationMs: 1 };

const sandboxWith = (health: SandboxHealth, outcome: LoadOutcome = loads) => {
  const ended: string[] = [];
  const sandbox: Sandbox = {
    load: () => Promise.resolve(outcome),
    run: () => {
      throw new Error('nothing is run');
    },
    forget: () => undefined,
    health: () => health,
    close: () => {
      ended.push('closed');
      return Promise.resolve();
    },
  };
  return { start: () => Promise.resolve(sandbox), ended };
};

const states = async (start: () => Promise<Sandbox>): Promise<readonly string[]> =>
  (await examineSandbox(options, start)).map(({ check, state }) => `${check} ${state}`);

describe('Node', () => {
  it('must be 24 or newer', () => {
    const state = (version: string): string => examineNode(version).state;
    expect([state('20.19.0'), state('24.0.0'), state('25.1.0')]).toEqual(['problem', 'ok', 'ok']);
  });
});

describe('the sandbox', () => {
  it('is fine when it loads a plugin and nothing is missing, and is ended', async () => {
    const { start, ended } = sandboxWith(healthy);
    expect(await states(start)).toEqual(['isolated-vm ok', 'sandbox ok']);
    expect(ended).toEqual(['closed']);
  });

  it('is a warning for each thing that is missing', async () => {
    const { start } = sandboxWith({ state: 'degraded', missing: ['no namespaces', 'no limits'], children: 1 });
    expect(await states(start)).toEqual(['isolated-vm ok', 'sandbox warning', 'sandbox warning']);
  });

  it('is a problem when no plugin loads, and is ended', async () => {
    const failed: LoadOutcome = { kind: 'failed', cause: 'crashed', message: 'gone', line: null, column: null };
    const { start, ended } = sandboxWith(healthy, failed);
    expect(await states(start)).toEqual(['isolated-vm problem', 'sandbox ok']);
    expect(ended).toEqual(['closed']);
  });

  it('is a problem when it does not start, in its own words', async () => {
    const [finding] = await examineSandbox(options, () => Promise.reject(new Error('cannot harden')));
    expect(finding).toEqual({
      check: 'sandbox',
      state: 'problem',
      words: 'The sandbox does not start: cannot harden',
    });
  });
});
