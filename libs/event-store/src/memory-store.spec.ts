import { eventStoreContract } from './contract.js';
import { memoryEventStore } from './memory-store.js';

eventStoreContract('memory', async (options) => {
  await Promise.resolve();
  const store = memoryEventStore(options);
  return { store, close: () => store.close() };
});
