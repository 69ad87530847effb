// Runs a command on this machine if the plugins of the account let it, as they left it, and shows what it printed as
// they left that. While the server is away nothing runs; what was refused then is told when it is back.
import { randomUUID } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileOutbox } from '#sdk/node';
import { connect } from './connect.js';

const wanted = process.argv[2];
if (wanted === undefined) throw new Error("give a command: guarded-shell.js 'echo hello'");

const client = connect({
  whenUnreachable: 'closed',
  reachMs: 2000,
  outbox: fileOutbox(join(process.env.HOOKLEDGER_STATE ?? '.hookledger', 'outbox')),
});

const place = { sessionId: 'shell', agentId: 'guarded-shell', sshHostId: 'here', hostDisplayName: 'this machine' };
const operation = { operationId: randomUUID() };

/** What is left over from a time without the server. */
const { told } = await client.tellOutbox();
if (told > 0) console.error(`told the server of ${told} decisions that were made without it`);

const asked = await client.fire('middleware/sshCommandSending', {
  ...operation,
  context: { ...place, kind: 'command', command: wanted, path: null, content: null },
});

if (asked.proceed && asked.value.command !== null) {
  const { command } = asked.value;
  const started = performance.now();
  const ran = spawnSync(command, { shell: true, encoding: 'utf8' });
  await client.reportEffect(asked, { applied: true, value: asked.value }, { keep: true });
  const seen = await client.fire('middleware/sshCommandCompleted', {
    ...operation,
    context: {
      ...place,
      kind: 'command',
      command,
      path: null,
      exitCode: ran.status ?? -1,
      output: ran.stdout,
      errorOutput: ran.stderr,
      isTruncated: false,
      durationMs: performance.now() - started,
    },
  });
  if (seen.proceed) {
    process.stdout.write(seen.value.output ?? '');
    process.stderr.write(seen.value.errorOutput ?? '');
  } else {
    console.error(`the output is withheld: ${seen.cancellation?.reason ?? 'no reason given'}`);
  }
  process.exitCode = ran.status ?? 1;
} else {
  console.error(`refused: ${asked.cancellation?.reason ?? 'no reason given'}`);
  process.exitCode = 126;
}
await client.close();
