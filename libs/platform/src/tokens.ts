/** Injection tokens of what the roles share; their types are the libraries' interfaces. */
export const EVENT_STORE = Symbol('EventStore');
export const SEALING = Symbol('Sealing');
export const SQL = Symbol('Sql');
export const SANDBOX = Symbol('Sandbox');
export const CONFIG = Symbol('Config');
export const LOGGER = Symbol('Logger');
export const METRICS = Symbol('Metrics');
/** `KeyRing`: keys and accounts as the guard asks for them. */
export const KEY_RING = Symbol('KeyRing');
/** `Buffer`: the root secret under the master key, for keys derived from it (`hkdf` with an own label each). */
export const MASTER_KEY = Symbol('MasterKey');
/** `AbortSignal`: fires when the program begins to stop, so that streams and long waits end. */
export const STOPPING = Symbol('Stopping');
/** `Buffer`: signs cause and lineage tokens; derived from the master key, so equal on all replicas. */
export const TOKEN_KEY = Symbol('TokenKey');
/** `Listen`: hears what other replicas say through the database. */
export const LISTEN = Symbol('Listen');
/** `string`: names this process in the record, for as long as it runs. */
export const INSTANCE = Symbol('Instance');
