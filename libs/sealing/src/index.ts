export type { Envelope, KeyErasure, Opened, OpenedText, Scope, Sealing } from './sealing.js';
export { isSealed } from './sealing.js';
export { memorySealing } from './memory-sealing.js';
