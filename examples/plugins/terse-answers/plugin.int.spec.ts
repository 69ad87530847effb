import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { startSandbox, type Sandbox } from '#sandbox';
import { runExample, type RunningPlugin } from '../../../test/support/example-plugin.js';

let sandbox: Sandbox;
let terse: RunningPlugin;

beforeAll(async () => {
  sandbox = await startSandbox({});
  terse = await runExample(sandbox, 'terse-answers');
});
afterAll(() => sandbox.close());

const prompt = (systemPrompt: string, plugin = terse, over = {}) =>
  plugin.say('systemPrompt', { sessionId: '1', agentId: '2', sessionKind: 'direct', systemPrompt, ...over });

describe('terse answers', () => {
  it('loads without a warning and asks for no permission', () => {
    expect(terse).toMatchObject({ hooks: ['systemPrompt'], permissions: [], loadWarnings: [] });
  });

  it('adds its guidance after the prompt', async () => {
    const heard = await prompt('You are helpful.\n');
    expect(heard).toMatchObject({ kind: 'rewrote', warnings: [] });
    expect(heard.value).toMatch(/^You are helpful\.\n\nAnswer tersely\.\n- /u);
  });

  it('keeps every word of any prompt, and adds itself once however often it runs', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 60 }), async (text) => {
        const once = (await prompt(text)).value as string;
        expect(once.startsWith(text.trimEnd())).toBe(true);
        expect(await prompt(once)).toMatchObject({ kind: 'passed' });
      }),
      { numRuns: 50 },
    );
  });

  it('leaves out the kinds of session and the agents that the account named', async () => {
    const chosen = await runExample(sandbox, 'terse-answers', { sessionKinds: ['direct'], exceptAgents: ['9'] });
    expect(await prompt('Hi', chosen)).toMatchObject({ kind: 'rewrote' });
    expect(await prompt('Hi', chosen, { sessionKind: 'channel' })).toMatchObject({ kind: 'passed' });
    expect(await prompt('Hi', chosen, { agentId: '9' })).toMatchObject({ kind: 'passed' });
  });
});
