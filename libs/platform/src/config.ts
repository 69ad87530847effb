import { join, resolve } from 'node:path';

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
  /** `HOOKLEDGER_PURGE`: whether what is past its retention is removed by itself, once a day; off unless asked for. */
  readonly purge: 'off' | 'daily';
  /** `HOOKLEDGER_TEXT_SEARCH`: whether the plaintext that `text=` searches is kept; on unless switched off. */
  readonly textSearch: boolean;
  /** `HOOKLEDGER_CHECKPOINT_DIR`, absolute: where signed checkpoints are kept outside the database. */
  readonly checkpointDir: string;
  /** Shortest time between two sealing rounds, ms. */
  readonly sealMs: number;
  /** How often every process records that it is there, and every account's size, ms. */
  readonly heartbeatMs: number;
  /** `HOOKLEDGER_MODEL_HOSTS`: `host:port` of model endpoints that may be at an address that is not public. */
  readonly modelHosts: readonly string[];
  /** Null = no Kafka: `HOOKLEDGER_KAFKA_BROKERS` is not set. */
  readonly kafka: KafkaConfig | null;
  /** `HOOKLEDGER_PROJECT_FROM`: where the read models take their events from. */
  readonly projectFrom: 'postgres' | 'kafka';
}

/** The cluster that the log is relayed to. */
export interface KafkaConfig {
  /** `host:port` of some brokers; they name the rest. */
  readonly brokers: readonly string[];
  /** Null = in the clear. Files of PEM; `ca` null = the authorities that Node trusts. */
  readonly tls: { readonly ca: string | null; readonly cert: string | null; readonly key: string | null } | null;
  readonly sasl: KafkaSasl | null;
  readonly topicPrefix: string;
  /** Of a topic that is made; one that exists keeps its own. */
  readonly partitions: number;
  /** Null = the broker's default. */
  readonly replicas: number | null;
  /** Accounts whose events have a topic of their own. */
  readonly accountTopics: readonly string[];
  /** How long the relay's owner may be silent before another replica takes over, ms. */
  readonly leaseMs: number;
}

/** How the program says to Kafka who it is. */
export interface KafkaSasl {
  readonly mechanism: (typeof saslMechanisms)[number];
  readonly username: string;
  readonly password: string;
}

const saslMechanisms = ['plain', 'scram-sha-256', 'scram-sha-512'] as const;

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
  purge: readPurge(env),
  textSearch: readFlag(env, 'HOOKLEDGER_TEXT_SEARCH', true),
  checkpointDir: resolve(
    cwd,
    setting(env, 'HOOKLEDGER_CHECKPOINT_DIR') ?? join(setting(env, 'HOOKLEDGER_DATA') ?? '.hookledger', 'checkpoints'),
  ),
  sealMs: readCount(env, 'HOOKLEDGER_SEAL_SECONDS', 1, 1, 3600) * 1000,
  heartbeatMs: readCount(env, 'HOOKLEDGER_HEARTBEAT_SECONDS', 60, 1, 86_400) * 1000,
  modelHosts: readModelHosts(env),
  kafka: readKafka(env, cwd),
  projectFrom: readProjectFrom(env),
});

const readProjectFrom = (env: Environment): ServerConfig['projectFrom'] => {
  const text = setting(env, 'HOOKLEDGER_PROJECT_FROM') ?? 'postgres';
  if (text !== 'postgres' && text !== 'kafka') {
    throw new StartFailure(`HOOKLEDGER_PROJECT_FROM is "${text}". It may be postgres or kafka.`);
  }
  if (text === 'kafka' && readList(env, 'HOOKLEDGER_KAFKA_BROKERS').length === 0) {
    throw new StartFailure('HOOKLEDGER_PROJECT_FROM is kafka, so HOOKLEDGER_KAFKA_BROKERS must say where it is.');
  }
  return text;
};

const readModelHosts = (env: Environment): readonly string[] => {
  const hosts = readList(env, 'HOOKLEDGER_MODEL_HOSTS').map((host) => host.toLowerCase());
  const wrong = hosts.find((host) => !/^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\]):\d{1,5}$/u.test(host));
  if (wrong === undefined) return hosts;
  throw new StartFailure(`HOOKLEDGER_MODEL_HOSTS is a list of host:port with commas between them; "${wrong}" is none.`);
};

const readKafka = (env: Environment, cwd: string): KafkaConfig | null => {
  const brokers = readList(env, 'HOOKLEDGER_KAFKA_BROKERS');
  if (brokers.length === 0) return null;
  const wrong = brokers.findIndex((broker) => !/^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}$/u.test(broker));
  if (wrong !== -1) {
    // Not repeated: somebody may have put a name and a password in front.
    throw new StartFailure(
      `HOOKLEDGER_KAFKA_BROKERS is a list of host:port with commas between them; its entry ${wrong + 1} is none.`,
    );
  }
  return {
    brokers,
    tls: readKafkaTls(env, cwd),
    sasl: readKafkaSasl(env),
    topicPrefix: readTopicPrefix(env),
    partitions: readCount(env, 'HOOKLEDGER_KAFKA_PARTITIONS', 12, 1, 10_000),
    replicas:
      setting(env, 'HOOKLEDGER_KAFKA_REPLICAS') === null
        ? null
        : readCount(env, 'HOOKLEDGER_KAFKA_REPLICAS', 1, 1, 100),
    accountTopics: readList(env, 'HOOKLEDGER_KAFKA_ACCOUNT_TOPICS'),
    leaseMs: readCount(env, 'HOOKLEDGER_KAFKA_LEASE_SECONDS', 10, 1, 600) * 1000,
  };
};

const readKafkaTls = (env: Environment, cwd: string): KafkaConfig['tls'] => {
  const file = (name: string): string | null => {
    const path = setting(env, name);
    return path === null ? null : resolve(cwd, path);
  };
  const ca = file('HOOKLEDGER_KAFKA_SSL_CA');
  const cert = file('HOOKLEDGER_KAFKA_SSL_CERT');
  const key = file('HOOKLEDGER_KAFKA_SSL_KEY');
  const named = ca ?? cert ?? key;
  if (!readFlag(env, 'HOOKLEDGER_KAFKA_SSL', named !== null)) {
    if (named === null) return null;
    throw new StartFailure('HOOKLEDGER_KAFKA_SSL is off, and HOOKLEDGER_KAFKA_SSL_CA, _CERT or _KEY is set.');
  }
  if ((cert === null) !== (key === null)) {
    throw new StartFailure('HOOKLEDGER_KAFKA_SSL_CERT and HOOKLEDGER_KAFKA_SSL_KEY are set both or neither.');
  }
  return { ca, cert, key };
};

const readKafkaSasl = (env: Environment): KafkaSasl | null => {
  const text = setting(env, 'HOOKLEDGER_KAFKA_SASL_MECHANISM')?.toLowerCase() ?? null;
  const username = setting(env, 'HOOKLEDGER_KAFKA_SASL_USERNAME');
  const password = setting(env, 'HOOKLEDGER_KAFKA_SASL_PASSWORD');
  if (text === null) {
    if (username === null && password === null) return null;
    throw new StartFailure(
      `HOOKLEDGER_KAFKA_SASL_MECHANISM is not set, and a name or password is. It may be ${saslMechanisms.join(', ')}.`,
    );
  }
  const mechanism = saslMechanisms.find((known) => known === text);
  if (mechanism === undefined) {
    throw new StartFailure(`HOOKLEDGER_KAFKA_SASL_MECHANISM is "${text}". It may be ${saslMechanisms.join(', ')}.`);
  }
  if (username === null || password === null) {
    throw new StartFailure(
      'HOOKLEDGER_KAFKA_SASL_MECHANISM needs HOOKLEDGER_KAFKA_SASL_USERNAME and HOOKLEDGER_KAFKA_SASL_PASSWORD.',
    );
  }
  return { mechanism, username, password };
};

const readTopicPrefix = (env: Environment): string => {
  const prefix = setting(env, 'HOOKLEDGER_KAFKA_TOPIC_PREFIX') ?? 'hookledger';
  if (/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/u.test(prefix)) return prefix;
  throw new StartFailure(
    `HOOKLEDGER_KAFKA_TOPIC_PREFIX is "${prefix}". It is 1 to 100 letters, digits, dots, dashes and underscores.`,
  );
};

const readList = (env: Environment, name: string): readonly string[] => [
  ...new Set(
    (setting(env, name) ?? '')
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  ),
];

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

const readPurge = (env: Environment): ServerConfig['purge'] => {
  const text = setting(env, 'HOOKLEDGER_PURGE') ?? 'off';
  if (text === 'off' || text === 'daily') return text;
  throw new StartFailure(`HOOKLEDGER_PURGE is "${text}". It may be off or daily.`);
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
