export type { Caller, Role } from './caller.js';
export type { FieldFault } from './problem.js';
export { Problem } from './problem.js';
