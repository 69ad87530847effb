import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startSandbox, type Sandbox } from '#sandbox';
import { runExample, type RunningPlugin } from '../../../test/support/example-plugin.js';

let sandbox: Sandbox;
let redactor: RunningPlugin;

beforeAll(async () => {
  sandbox = await startSandbox({});
  redactor = await runExample(sandbox, 'key-redactor');
});
afterAll(() => sandbox.close());

const awsKey = `AKIA${'Q7'.repeat(8)}`;

const completed = (output: string | null, errorOutput: string | null, isTruncated = false) =>
  redactor.say('sshCommandCompleted', {
    sessionId: '1',
    agentId: '2',
    sshHostId: '3',
    hostDisplayName: 'web',
    kind: 'command',
    command: 'env',
    path: null,
    exitCode: 0,
    output,
    errorOutput,
    isTruncated,
    durationMs: 5,
  });

describe('the key redactor in the sandbox', () => {
  it('loads without a warning and asks for no permission', () => {
    expect([...redactor.hooks].sort()).toEqual([
      'assistantMessageOutbound',
      'interAgentMessage',
      'sshCommandCompleted',
    ]);
    expect(redactor).toMatchObject({ permissions: [], loadWarnings: [] });
  });

  it('redacts output and error output, and names in the log what it took, never the value', async () => {
    const heard = await completed(`id ${awsKey}\nok`, `PASSWORD=hunter22`);
    expect(heard).toMatchObject({
      kind: 'rewrote',
      value: { output: 'id [redacted AWS access key]\nok', errorOutput: 'PASSWORD=[redacted secret]' },
      warnings: [],
    });
    expect(heard.lines).toEqual(['warn redacted 1 × AWS access key, 1 × secret']);
  });

  it('passes output without secrets, and the absence of output', async () => {
    expect(await completed('total 12', '')).toMatchObject({ kind: 'passed', warnings: [], lines: [] });
    expect(await completed(null, null)).toMatchObject({ kind: 'passed', warnings: [] });
    expect(await completed(null, 'x')).toMatchObject({ kind: 'passed', warnings: [] });
  });

  it('redacts what agents tell each other and what people are told', async () => {
    const text = `use ${awsKey}.`;
    const message = { senderSessionId: '1', senderAgentId: '2', targetSessionId: '3', isSubagentReport: false, text };
    expect(await redactor.say('interAgentMessage', message)).toMatchObject({
      kind: 'rewrote',
      value: 'use [redacted AWS access key].',
    });
    const reply = { sessionId: '1', channelId: null, text };
    expect(await redactor.say('assistantMessageOutbound', reply)).toMatchObject({
      kind: 'rewrote',
      value: 'use [redacted AWS access key].',
    });
  });

  // The time limit is the sandbox's own five seconds for one handler: a text that took more would fail the run.
  const size = 500_000;
  it.each([
    ['eyJ-'], ['eyJ.'], ['eyJaaaaaaaa.'], ['sk-'], ['sk-a-'], ['-----BEGIN PRIVATE KEY-----'], ['-----BEGIN PRIVATE KEY-----\nAAAA\n'], ['://a:'], ['://a:b'], ['password='], ['password="'], ['"password": '], ['Authorization: Bearer '], ['Bearer '], ['a'], ['AKIA'], ['='], [' : '], ['glpat-'], ['xoxb-'], ['ya29.'], ['SG.a.'], ['token:\n'], ['ghp_'], ['\n'], ['tokentoken'], ['secret '],
  ])('reads half a megabyte of %j in its time', async (piece) => {
    const heard = await completed(piece.repeat(Math.floor(size / piece.length)), null, true);
    expect(heard.warnings).toEqual([]);
  }, 60_000); // prettier-ignore
});
