/** Injection tokens of what the roles share; their types are the libraries' interfaces. */
export const EVENT_STORE = Symbol('EventStore');
export const SEALING = Symbol('Sealing');
export const SQL = Symbol('Sql');
export const SANDBOX = Symbol('Sandbox');
export const CONFIG = Symbol('Config');
export const LOGGER = Symbol('Logger');
export const METRICS = Symbol('Metrics');
