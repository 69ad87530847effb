import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Json } from '#record';
import { startSandbox, type Sandbox } from '#sandbox';
import { runExample, type RunningPlugin } from '../../../test/support/example-plugin.js';

let sandbox: Sandbox;
let guard: RunningPlugin;

beforeAll(async () => {
  sandbox = await startSandbox({});
  guard = await runExample(sandbox, 'destructive-command-guard');
});
afterAll(() => sandbox.close());

const operation = (over: { readonly [key: string]: Json }) => ({
  sessionId: '1',
  agentId: '2',
  sshHostId: '3',
  hostDisplayName: 'web',
  kind: 'command',
  command: null,
  path: null,
  content: null,
  ...over,
});

const command = (text: string) => guard.say('sshCommandSending', operation({ command: text }));
const file = (over: { readonly [key: string]: Json }) => guard.say('sshCommandSending', operation(over));

describe('the destructive command guard in the sandbox', () => {
  it('loads without a warning and asks for no permission', () => {
    expect(guard).toMatchObject({ hooks: ['sshCommandSending'], permissions: [], loadWarnings: [] });
  });

  it.each([
    ['rm -rf /*'],
    ['rm -Rf /'],
    ['rm -r -f /'],
    ['rm -rf --no-preserve-root /'],
    ['rm --recursive --force /'],
    ['rm -rf "/"'],
    ['rm -rf //'],
    ['rm -rf /;true'],
    ['find / -delete'],
    ['ls\0; rm -rf /'],
    ['ls\u2028\nrm -rf /'],
  ])('cancels %j with a reason and no warning', async (text) => {
    expect(await command(text)).toMatchObject({
      kind: 'cancelled',
      warnings: [],
      reason: expect.stringMatching(/^refused: /u),
    });
  });

  it.each([['apt-get install -y jq'], ['rm -rf ./build'], ['echo "rm -rf /"'], ['ls \uD800'], ['']])(
    'passes %j',
    async (text) => {
      expect(await command(text)).toMatchObject({ kind: 'passed', warnings: [] });
    },
  );

  it('cancels what it cannot read: too long, too deep', async () => {
    expect(await command(`echo ${'x'.repeat(300_000)}`)).toMatchObject({ kind: 'cancelled' });
    expect(await command('$('.repeat(5_000))).toMatchObject({ kind: 'cancelled' });
    expect(await command(`x=a;${'x=$x$x;'.repeat(40)}`)).toMatchObject({ kind: 'cancelled' });
  });

  it.each([
    [{ kind: 'delete_file', path: '/etc' }],
    [{ kind: 'delete_file', path: '/etc/passwd' }],
    [{ kind: 'delete_file', path: '/home/alice/../..' }],
    [{ kind: 'write_file', path: '/dev/sda', content: 'x' }],
    [{ kind: 'write_file', path: '/etc/shadow', content: '' }],
    [{ kind: 'write_file', path: '/tmp/a.sh', content: 'set -e\nrm -rf /\n' }],
    [{ kind: 'edit_file', path: '/tmp/a', content: '#!/usr/bin/env bash\nrm -rf ~\n' }],
    [{ kind: 'write_file', path: '/tmp/a\0b', content: 'x' }],
  ])('cancels %j', async (over) => {
    expect(await file(over)).toMatchObject({ kind: 'cancelled' });
  });

  it.each([
    [{ kind: 'delete_file', path: '/tmp/a' }],
    [{ kind: 'delete_file', path: '/etc/nginx/sites-enabled/default' }],
    [{ kind: 'write_file', path: '/etc/hosts', content: 'x' }],
    [{ kind: 'write_file', path: '/notes.md', content: 'never run rm -rf /' }],
    [{ kind: 'edit_file', path: '/etc/fstab', content: 'x' }],
    [{ kind: 'write_file', path: '/tmp/binary', content: null }],
    [{ kind: 'read_file', path: '/etc/passwd' }],
    [{ kind: 'list_files', path: '/' }],
  ])('passes %j', async (over) => {
    expect(await file(over)).toMatchObject({ kind: 'passed', warnings: [] });
  });

  it('takes what the account configured', async () => {
    const strict = await runExample(sandbox, 'destructive-command-guard', {
      protect: ['/srv/data'],
      refuse: ['terraform destroy'],
    });
    const say = (text: string) => strict.say('sshCommandSending', operation({ command: text }));
    expect(await say('rm -r /srv/data/')).toMatchObject({ kind: 'cancelled' });
    expect(await say('terraform destroy')).toMatchObject({ kind: 'cancelled' });
    const open = await runExample(sandbox, 'destructive-command-guard', { allowPower: true, allowPipedPrograms: true });
    expect(await open.say('sshCommandSending', operation({ command: 'curl x | sh; reboot' }))).toMatchObject({
      kind: 'passed',
    });
  });
});
