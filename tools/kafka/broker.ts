import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeCertificates } from './certificates.js';
import { ensureJars, findJava } from './jars.js';

/** Ways to reach the broker. `sasl` takes PLAIN and SCRAM, `saslTls` the same over TLS. */
export type Listener = 'plain' | 'tls' | 'sasl' | 'saslTls';

/** A broker: where its files are, and how it is reached. It plays the controller too. */
export interface BrokerPlan {
  /** The project's folder, which has tools/kafka and node_modules. */
  readonly root: string;
  /** Its data, its settings, its log. */
  readonly folder: string;
  readonly nodeId: number;
  /** By listener; `plain` is always there, for the broker's own tools. */
  readonly ports: { readonly plain: number; readonly controller: number } & { readonly [L in Listener]?: number };
  /** Lines of server.properties, over the ones that are given. */
  readonly properties?: Readonly<Record<string, string>>;
  /** Heap, MB. */
  readonly heapMb?: number;
}

/** A broker that runs. */
export interface StartedBroker {
  readonly pid: number;
  /** Resolves when its process has ended. */
  readonly ended: Promise<number | null>;
  /** Ends it in order. */
  stop(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** It stands still and its connections stay open, as on a machine that is out of breath. */
  pause(): void;
  resume(): void;
}

/** Name and password that the `sasl` listeners know. */
export const brokerUser = { username: 'hookledger', password: 'secret-of-the-broker' } as const;

const heapMb = 512;
const startMs = 90_000;

const protocols = { plain: 'PLAINTEXT', tls: 'SSL', sasl: 'SASL_PLAINTEXT', saslTls: 'SASL_SSL' } as const;

/** PEM of the authority that signs for the listeners that speak TLS. */
export const authorityOf = (plan: Pick<BrokerPlan, 'folder'>): string =>
  join(plan.folder, 'certificates', 'authority.pem');

/** Starts it; a folder that holds no data yet is formatted first. Rejects with the end of its log when it cannot. */
export const startBroker = async (plan: BrokerPlan): Promise<StartedBroker> => {
  const java = findJava();
  const jars = await ensureJars(plan.root);
  mkdirSync(plan.folder, { recursive: true });
  const settings = join(plan.folder, 'server.properties');
  writeFileSync(settings, linesOf({ ...propertiesOf(plan, java), ...plan.properties }), { mode: 0o600 });
  if (!existsSync(join(dataOf(plan), 'meta.properties'))) format(java, jars, settings);
  return run(plan, java, jars, settings);
};

/** Forgets all that it stored; the next start makes an empty broker of another cluster. */
export const wipeBroker = (plan: Pick<BrokerPlan, 'folder'>): void =>
  rmSync(dataOf(plan), { recursive: true, force: true });

/** Runs one of Kafka's own tools, by class name; answers with what it printed. */
export const runTool = async (root: string, tool: string, args: readonly string[]): Promise<string> => {
  const java = findJava();
  const jars = await ensureJars(root);
  const ran = spawnSync(java, ['-Xmx256m', '-cp', join(jars, '*'), tool, ...args], { encoding: 'utf8' });
  if (ran.error !== undefined) throw ran.error;
  if (ran.status !== 0) throw new Error(`${tool} failed:\n${ran.stdout}${ran.stderr}`);
  return ran.stdout;
};

/** A port of 127.0.0.1 that is free now. */
export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });

const dataOf = ({ folder }: Pick<BrokerPlan, 'folder'>): string => join(folder, 'data');

const linesOf = (properties: Readonly<Record<string, string>>): string =>
  Object.entries(properties)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');

const propertiesOf = (plan: BrokerPlan, java: string): Readonly<Record<string, string>> => {
  const { ports, nodeId } = plan;
  const listeners = (Object.keys(protocols) as Listener[]).flatMap((listener) => {
    const port = ports[listener];
    return port === undefined ? [] : [{ listener, at: `${protocols[listener]}://127.0.0.1:${String(port)}` }];
  });
  const addresses = listeners.map(({ at }) => at).join(',');
  const controller = `127.0.0.1:${String(ports.controller)}`;
  const names = new Set(listeners.map(({ listener }) => listener));
  return {
    'process.roles': 'broker,controller',
    'node.id': String(nodeId),
    'controller.quorum.voters': `${String(nodeId)}@${controller}`,
    listeners: `${addresses},CONTROLLER://${controller}`,
    'advertised.listeners': addresses,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'listener.security.protocol.map': `CONTROLLER:PLAINTEXT,${Object.values(protocols)
      .map((name) => `${name}:${name}`)
      .join(',')}`,
    // In a properties file a backslash is an escape.
    'log.dirs': dataOf(plan).replaceAll('\\', '/'),
    'num.partitions': '6',
    'offsets.topic.num.partitions': '4',
    'offsets.topic.replication.factor': '1',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'transaction.state.log.num.partitions': '4',
    'share.coordinator.state.topic.replication.factor': '1',
    'share.coordinator.state.topic.min.isr': '1',
    'group.initial.rebalance.delay.ms': '0',
    'auto.create.topics.enable': 'false',
    ...(names.has('tls') || names.has('saslTls') ? tlsOf(plan, java) : {}),
    ...(names.has('sasl') || names.has('saslTls') ? saslOf() : {}),
  };
};

const tlsOf = (plan: BrokerPlan, java: string): Readonly<Record<string, string>> => {
  const { keystore, password } = makeCertificates(java, join(plan.folder, 'certificates'));
  return {
    'ssl.keystore.type': 'PKCS12',
    'ssl.keystore.location': keystore.replaceAll('\\', '/'),
    'ssl.keystore.password': password,
    'ssl.key.password': password,
  };
};

const saslOf = (): Readonly<Record<string, string>> => {
  const { username, password } = brokerUser;
  const plain = `org.apache.kafka.common.security.plain.PlainLoginModule required user_${username}="${password}";`;
  const scram = 'org.apache.kafka.common.security.scram.ScramLoginModule required;';
  const perListener = (['sasl_plaintext', 'sasl_ssl'] as const).flatMap((listener) => [
    [`listener.name.${listener}.plain.sasl.jaas.config`, plain],
    [`listener.name.${listener}.scram-sha-256.sasl.jaas.config`, scram],
    [`listener.name.${listener}.scram-sha-512.sasl.jaas.config`, scram],
  ]);
  return {
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512',
    ...(Object.fromEntries(perListener) as Record<string, string>),
  };
};

/** Kafka keeps what SCRAM needs among its metadata, so the user is made with them. */
const format = (java: string, jars: string, settings: string): void => {
  const { username, password } = brokerUser;
  const users = ['SCRAM-SHA-256', 'SCRAM-SHA-512'].flatMap((mechanism) => [
    '--add-scram',
    `${mechanism}=[name=${username},password=${password}]`,
  ]);
  const args = ['format', '-t', newClusterId(), '-c', settings, ...users];
  const ran = spawnSync(java, ['-Xmx256m', '-cp', join(jars, '*'), 'kafka.tools.StorageTool', ...args], {
    encoding: 'utf8',
  });
  if (ran.error !== undefined) throw ran.error;
  if (ran.status !== 0) throw new Error(`the broker's folder could not be formatted:\n${ran.stdout}${ran.stderr}`);
};

/** A UUID as Kafka writes them; one that began with a dash would be taken for an option. */
const newClusterId = (): string => {
  for (;;) {
    const id = randomBytes(16).toString('base64url');
    if (!id.startsWith('-')) return id;
  }
};

const run = async (plan: BrokerPlan, java: string, jars: string, settings: string): Promise<StartedBroker> => {
  const log = join(plan.folder, 'broker.log');
  const out = openSync(log, 'w', 0o600);
  const heap = String(plan.heapMb ?? heapMb);
  const options = [`-Xms${heap}m`, `-Xmx${heap}m`, '-XX:+UseG1GC', '-Djava.awt.headless=true'];
  const logging = `-Dlog4j2.configurationFile=${join(plan.root, 'tools', 'kafka', 'log4j2.properties')}`;
  // In a group of its own, so that the Ctrl-C of a terminal reaches the program that runs it, and that one only.
  const child = spawn(java, [...options, logging, '-cp', join(jars, '*'), 'kafka.Kafka', settings], {
    stdio: ['ignore', out, out],
    detached: true,
    cwd: plan.folder,
  });
  closeSync(out);
  const broker = brokerOver(child);
  await untilStarted(broker, log);
  return broker;
};

const brokerOver = (child: ChildProcess): StartedBroker => {
  const ended = new Promise<number | null>((resolve) => {
    child.once('exit', (code) => resolve(code));
    child.once('error', () => resolve(null));
  });
  return {
    pid: child.pid ?? -1,
    ended,
    stop: async () => {
      // A broker that stands still hears no other signal.
      child.kill('SIGCONT');
      child.kill('SIGTERM');
      await ended;
    },
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
  };
};

const untilStarted = async (broker: StartedBroker, log: string): Promise<void> => {
  const over = broker.ended.then(() => true);
  const deadline = Date.now() + startMs;
  for (;;) {
    if (readFileSync(log, 'utf8').includes('Kafka Server started')) return;
    const ended = await Promise.race([over, delay(50, false)]);
    if (!ended && Date.now() < deadline) continue;
    await broker.kill();
    const what = ended ? 'ended' : `did not start in ${startMs / 1000} s`;
    throw new Error(`the broker ${what}:\n${readFileSync(log, 'utf8').slice(-4000)}`);
  }
};
