export type { Envelope, KeyErasure, Opened, OpenedText, Scope, Sealing } from './sealing.js';
export { isSealed } from './sealing.js';
export { memorySealing } from './memory-sealing.js';
export type { MasterKey, MasterKeyPlaces } from './master-key.js';
export { loadMasterKey, masterKeyFrom, MasterKeyProblem } from './master-key.js';
export { rewrapDataKeys } from './data-keys.js';
export type { PostgresSealingOptions } from './postgres-sealing.js';
export { postgresSealing } from './postgres-sealing.js';
