// Clears a session whose messages are in a file. The deletion and the pending completion are one write, so that the
// completion is told however often this dies; the server records `session.cleared` once.
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { connect } from './connect.js';

const [sessionId, file] = process.argv.slice(2);
if (file === undefined) throw new Error('give a session and its file: clear-session.js 42 session-42.json');

const read = () =>
  existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { messages: ['hello', 'world'], pending: [] };
/** All of it or nothing. */
const write = (session) => {
  writeFileSync(`${file}.new`, JSON.stringify(session));
  renameSync(`${file}.new`, file);
};

const client = connect({ reachMs: 5000 });
const completions = {
  list: () => Promise.resolve(read().pending),
  remove: ({ clearId }) => {
    const session = read();
    write({ ...session, pending: session.pending.filter((one) => one.clearId !== clearId) });
    return Promise.resolve();
  },
};

// What an earlier process had no time to tell.
await client.clears.settle(completions);

const clearId = randomUUID();
const { messages } = read();
await client.clears.start(sessionId, {
  clearId,
  agentId: 'clear-session',
  messageCount: messages.length,
  subagentCount: 0,
  peerThreadCount: 0,
});
const completion = { deletedMessageCount: messages.length, deletedSubagentCount: 0, deletedPeerThreadCount: 0 };
write({ messages: [], pending: [{ sessionId, clearId, completion }] });
if (process.env.DIE_BEFORE_COMPLETION === '1') process.kill(process.pid, 'SIGKILL');
await client.clears.settle(completions);
console.log(`cleared ${messages.length} messages of ${sessionId}`);
await client.close();
