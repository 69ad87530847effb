// Serves what plugins ask of their runtime: commands (on this machine), messages between sessions, the list of agents.
// A message that a plugin sends is asked about like any other, one hop further on.
import { spawn } from 'node:child_process';
import { connect } from './connect.js';

const client = connect();

/** Runs a command with the caller's time; killed when the answer is not wanted any more. */
const run = (command, seconds, signal) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, { shell: true, signal, timeout: seconds * 1000, killSignal: 'SIGKILL' });
    const output = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr']) {
      child[name].setEncoding('utf8').on('data', (text) => (output[name] += text));
    }
    child.once('error', reject);
    child.once('close', (exitCode, killed) => {
      if (killed !== null) reject(new Error('timeout'));
      else resolve({ exitCode, output: output.stdout, errorOutput: output.stderr, isTruncated: false });
    });
  });

let deliveries = Promise.resolve();

const link = client.serveHost(
  {
    'ssh.command': (call, command, { timeoutSeconds }) => run(command, timeoutSeconds, call.signal),
    'agents.list': () => [{ id: 'serve-host', name: 'The example' }],
    'session.conversation.read': () => [],
    'session.peer.send': (call, targetSessionId, text) => {
      // Accepted first, and delivered when the invocation that sends has closed: it does not wait for the reaction.
      deliveries = deliveries.then(() => call.invocationClosed()).then(() => deliver(call, targetSessionId, text));
      deliveries = deliveries.catch((error) => console.error(`not delivered: ${error.message}`));
      return null;
    },
  },
  { onConnected: () => console.log('connected') },
);

const deliver = async ({ cause, scope }, targetSessionId, text) => {
  const answer = await client.descending({ cause }).fire('middleware/interAgentMessage', {
    context: {
      senderSessionId: scope.sessionId ?? 'unknown',
      senderAgentId: scope.agentId ?? 'unknown',
      targetSessionId,
      isSubagentReport: false,
      text,
    },
  });
  console.log(answer.proceed ? `to ${targetSessionId}: ${answer.value}` : `to ${targetSessionId}: withheld`);
};

process.once('SIGINT', () => void client.close());
process.once('SIGTERM', () => void client.close());
await link.connected;
