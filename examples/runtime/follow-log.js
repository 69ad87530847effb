// Prints the record as it grows, a line for each event, and goes on where it stopped when it is started again.
import { join } from 'node:path';
import { fileCheckpoints } from '#sdk/node';
import { connect } from './connect.js';

const client = connect({
  checkpoints: fileCheckpoints(join(process.env.HOOKLEDGER_STATE ?? '.hookledger', 'positions')),
});
const types = process.argv.slice(2);
const subscription = client.follow('follow-log', {
  ...(types.length === 0 ? {} : { types }),
  onEvent: ({ position, type, hook, outcome }) => {
    console.log([position, type, hook, outcome].filter((word) => word !== undefined).join(' '));
  },
  onInterrupted: (cause) => console.error(`interrupted: ${cause?.message ?? cause}`),
});
process.once('SIGINT', () => void subscription.stop());
process.once('SIGTERM', () => void subscription.stop());
await subscription.done;
await client.close();
