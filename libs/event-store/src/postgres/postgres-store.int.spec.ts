import { randomBytes } from 'node:crypto';
import { rowTagKey } from '#proof';
import { createLedgerDatabase } from '../../../../test/support/test-postgres.js';
import { eventStoreContract } from '../contract.js';
import { postgresEventStore } from './postgres-store.js';

const tagKey = rowTagKey(randomBytes(32));
const database = createLedgerDatabase();

let open = 0;

// The suite opens a second store beside the first: they share one log, as replicas do.
eventStoreContract('Postgres', async (options) => {
  const { url } = await database;
  const store = postgresEventStore({ connectionString: url, tagKey, ...options });
  open += 1;
  return {
    store,
    close: async () => {
      await store.close();
      open -= 1;
      if (open === 0) await (await database).drop();
    },
  };
});
