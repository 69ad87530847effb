export type { Envelope, Opened, Scope, Sealing } from './sealing.js';
export { isSealed } from './sealing.js';
