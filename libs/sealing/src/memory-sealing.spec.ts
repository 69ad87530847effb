import { sealingContract } from './contract.js';
import { memorySealing } from './memory-sealing.js';

sealingContract('memory', () =>
  Promise.resolve({ sealing: memorySealing(), store: () => Promise.resolve(), close: () => Promise.resolve() }),
);
