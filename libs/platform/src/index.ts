export type { ActiveClaim, CommandMeta, DoneCommand } from './account-command.js';
export { AccountCommand, AccountCommandHandler } from './account-command.js';
export type { Caller, Role } from './caller.js';
export type { FieldFault } from './problem.js';
export { Problem } from './problem.js';
export { CONFIG, EVENT_STORE, LOGGER, METRICS, SANDBOX, SEALING, SQL } from './tokens.js';
