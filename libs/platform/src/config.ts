import { resolve } from 'node:path';

/** A part of the program; one process may play several (architecture.md). */
export type ServerRole = 'gateway' | 'control' | 'worker';

/** What the environment says, read once at start. */
export interface ServerConfig {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  readonly roles: ReadonlySet<ServerRole>;
  /** Absolute. Keys, and the embedded database where one is used. */
  readonly dataDir: string;
  /** Another Postgres than the embedded one; null = embedded. */
  readonly databaseUrl: string | null;
  /** `HOOKLEDGER_MIGRATION_URL`: the same database as a user that may change its tables; null = `databaseUrl`'s may. */
  readonly migrationUrl: string | null;
  /** Connections for read models and keys; the log has its own beside them. */
  readonly databasePool: number;
  /** `HOOKLEDGER_OPERATOR_KEY`; null = made at the first start. */
  readonly operatorKey: string | null;
  /** `HOOKLEDGER_MASTER_KEY`; null = made at the first start and kept in `dataDir`. */
  readonly masterKey: string | null;
  /** `HOOKLEDGER_MASTER_KEY_NEXT`: the key that a rotation goes over to; null outside of one. */
  readonly masterKeyNext: string | null;
  readonly logLevel: LogLevel;
  readonly sandbox: { readonly jit: boolean; readonly require: boolean; readonly shared: boolean };
  /** How long a stop waits for requests that run, ms. */
  readonly drainMs: number;
  /** `HOOKLEDGER_TEXT_SEARCH`: whether the plaintext that `text=` searches is kept; on unless switched off. */
  readonly textSearch: boolean;
}

const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

const serverRoles: readonly ServerRole[] = ['gateway', 'control', 'worker'];

/** The program cannot start as it was asked to. The message is for the person who started it. */
export class StartFailure extends Error {
  override readonly name = 'StartFailure';
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads and checks the environment. Throws `StartFailure` that names the variable and what it may be. */
export const readConfig = (env: Environment, cwd: string): ServerConfig => ({
  host: setting(env, 'HOST') ?? '127.0.0.1',
  port: readPort(env),
  roles: readRoles(env),
  dataDir: resolve(cwd, setting(env, 'HOOKLEDGER_DATA') ?? '.hookledger'),
  databaseUrl: readDatabaseUrl(env, 'DATABASE_URL'),
  migrationUrl: readDatabaseUrl(env, 'HOOKLEDGER_MIGRATION_URL'),
  databasePool: readCount(env, 'HOOKLEDGER_DB_POOL', 8, 2, 200),
  operatorKey: readOperatorKey(env),
  masterKey: setting(env, 'HOOKLEDGER_MASTER_KEY'),
  masterKeyNext: setting(env, 'HOOKLEDGER_MASTER_KEY_NEXT'),
  logLevel: readLogLevel(env),
  sandbox: {
    jit: readFlag(env, 'HOOKLEDGER_SANDBOX_JIT'),
    require: setting(env, 'HOOKLEDGER_SANDBOX') === 'require',
    shared: readFlag(env, 'HOOKLEDGER_SANDBOX_SHARED'),
  },
  drainMs: readCount(env, 'HOOKLEDGER_DRAIN_SECONDS', 10, 0, 600) * 1000,
  textSearch: readFlag(env, 'HOOKLEDGER_TEXT_SEARCH', true),
});

const setting = (env: Environment, name: string): string | null => {
  const value = env[name]?.trim();
  return value === undefined || value === '' ? null : value;
};

const readPort = (env: Environment): number => {
  const text = setting(env, 'PORT') ?? '3000';
  const port = Number(text);
  if (/^\d{1,5}$/u.test(text) && port <= 65_535) return port;
  throw new StartFailure(`PORT is "${text}". It must be a number from 0 (any free port) to 65535.`);
};

const readRoles = (env: Environment): ReadonlySet<ServerRole> => {
  const text = setting(env, 'HOOKLEDGER_ROLES') ?? serverRoles.join(',');
  const named = text.split(',').map((role) => role.trim());
  const unknown = named.filter((role) => !(serverRoles as readonly string[]).includes(role));
  if (unknown.length > 0) {
    throw new StartFailure(`HOOKLEDGER_ROLES is "${text}". It is a list of ${serverRoles.join(', ')}.`);
  }
  return new Set(named as ServerRole[]);
};

const readDatabaseUrl = (env: Environment, name: string): string | null => {
  const text = setting(env, name);
  if (text === null || /^postgres(?:ql)?:\/\//u.test(text)) return text;
  // The value holds a password: it is not shown.
  throw new StartFailure(`${name} must start with postgres:// or postgresql://.`);
};

const readOperatorKey = (env: Environment): string | null => {
  const key = setting(env, 'HOOKLEDGER_OPERATOR_KEY');
  if (key === null || /^[\x21-\x7e]{8,200}$/u.test(key)) return key;
  throw new StartFailure('HOOKLEDGER_OPERATOR_KEY must be 8 to 200 visible ASCII characters without spaces.');
};

const readLogLevel = (env: Environment): LogLevel => {
  const text = setting(env, 'HOOKLEDGER_LOG_LEVEL') ?? 'info';
  const level = logLevels.find((candidate) => candidate === text);
  if (level !== undefined) return level;
  throw new StartFailure(`HOOKLEDGER_LOG_LEVEL is "${text}". It may be ${logLevels.join(', ')}.`);
};

const readFlag = (env: Environment, name: string, absent = false): boolean => {
  const text = setting(env, name)?.toLowerCase() ?? String(absent);
  if (['1', 'true', 'yes', 'on'].includes(text)) return true;
  if (['0', 'false', 'no', 'off'].includes(text)) return false;
  throw new StartFailure(`${name} is "${text}". It may be true or false.`);
};

const readCount = (env: Environment, name: string, fallback: number, least: number, most: number): number => {
  const text = setting(env, name) ?? String(fallback);
  const count = Number(text);
  if (/^\d+$/u.test(text) && count >= least && count <= most) return count;
  throw new StartFailure(`${name} is "${text}". It must be a whole number from ${least} to ${most}.`);
};
