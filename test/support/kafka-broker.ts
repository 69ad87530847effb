import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import {
  authorityOf,
  brokerUser,
  freePort,
  runTool,
  startBroker,
  wipeBroker,
  type BrokerPlan,
  type Listener,
  type StartedBroker,
} from '../../tools/kafka/broker.js';

/** A real Apache Kafka broker of a test's own, on loopback. Its ports stay the same over restarts. */
export interface TestBroker {
  /** `host:port` of a listener, as HOOKLEDGER_KAFKA_BROKERS takes it. Default: `plain`. */
  address(listener?: Listener): string;
  /** Path of the PEM that clients of the TLS listeners trust. */
  readonly authority: string;
  /** Who the SASL listeners let in, by PLAIN and by SCRAM. */
  readonly user: { readonly username: string; readonly password: string };
  /** Starts it again after a `stop` or `kill`. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** SIGSTOP: it stands still, and its connections stay open. */
  pause(): void;
  resume(): void;
  /** An empty broker with another node id and another cluster id in its place, at the same address. */
  replace(): Promise<void>;
  /** Makes a topic with Kafka's own tool, not with the client under test. */
  createTopic(name: string, partitions: number, settings?: Readonly<Record<string, string>>): Promise<void>;
  deleteTopic(name: string): Promise<void>;
  /** Names of all topics, by Kafka's own tool. */
  topics(): Promise<readonly string[]>;
  /** Sum of the end offsets of a topic's partitions: how many records were ever written to it. */
  written(topic: string): Promise<number>;
  /** One of Kafka's own tools (`org.apache.kafka.tools.…`) with arguments of the test's; `--bootstrap-server` is added. */
  tool(name: string, args: readonly string[]): Promise<string>;
  /** Stops it and removes its files. */
  close(): Promise<void>;
}

/** What a test wants of its broker. */
export interface TestBrokerOptions {
  /** Listeners beside `plain`. */
  readonly listeners?: readonly Exclude<Listener, 'plain'>[];
  /** Lines of server.properties, for example `message.max.bytes`. */
  readonly properties?: Readonly<Record<string, string>>;
  /** Leave it stopped: its address is known, and nobody listens there. Default: started. */
  readonly started?: boolean;
}

/** The project's folder, wherever this file was compiled to. */
const root = ((): string => {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'nest-cli.json'))) folder = dirname(folder);
  return folder;
})();

/** A broker of the caller's own; reaped when this process dies without closing it. */
export const startTestBroker = async (options: TestBrokerOptions = {}): Promise<TestBroker> => {
  const folder = mkdtempSync(join(tmpdir(), 'hookledger-test-kafka-'));
  reapWithThisProcess(folder);
  let plan = await planFor(folder, options);
  let running: StartedBroker | null = null;
  const address = (listener: Listener = 'plain'): string => {
    const port = plan.ports[listener];
    if (port === undefined) throw new Error(`the test asked for no listener "${listener}"`);
    return `127.0.0.1:${String(port)}`;
  };
  const tool = (name: string, args: readonly string[]): Promise<string> =>
    runTool(root, name, ['--bootstrap-server', address(), ...args]);
  const broker: TestBroker = {
    address,
    authority: authorityOf(plan),
    user: brokerUser,
    start: async () => {
      running ??= await startBroker(plan);
      writeFileSync(join(folder, 'pid'), String(running.pid));
    },
    stop: async () => {
      await running?.stop();
      running = null;
    },
    kill: async () => {
      await running?.kill();
      running = null;
    },
    pause: () => running?.pause(),
    resume: () => running?.resume(),
    replace: async () => {
      await broker.kill();
      wipeBroker(plan);
      plan = { ...plan, nodeId: plan.nodeId + 1 };
      await broker.start();
    },
    createTopic: async (name, partitions, settings = {}) => {
      const configs = Object.entries(settings).flatMap(([key, value]) => ['--config', `${key}=${value}`]);
      const size = ['--partitions', String(partitions), '--replication-factor', '1'];
      await tool(topicTool, ['--create', '--topic', name, ...size, ...configs]);
    },
    deleteTopic: async (name) => {
      await tool(topicTool, ['--delete', '--topic', name]);
    },
    topics: async () => (await tool(topicTool, ['--list'])).split('\n').filter((line) => line !== ''),
    written: async (topic) => {
      const said = await tool('org.apache.kafka.tools.GetOffsetShell', ['--topic', topic]);
      return said.split('\n').reduce((sum, line) => sum + Number(/:(\d+)$/u.exec(line.trim())?.[1] ?? 0), 0);
    },
    tool,
    close: async () => {
      await broker.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  if (options.started !== false) await broker.start();
  return broker;
};

const topicTool = 'org.apache.kafka.tools.TopicCommand';

const planFor = async (folder: string, options: TestBrokerOptions): Promise<BrokerPlan> => {
  const ports: Partial<Record<Listener, number>> = {};
  for (const listener of options.listeners ?? []) ports[listener] = await freePort();
  return {
    root,
    folder,
    nodeId: 1,
    ports: { ...ports, plain: await freePort(), controller: await freePort() },
    properties: { ...options.properties },
    heapMb: 384,
  };
};

/** A test run that is killed leaves no broker behind. */
const reapWithThisProcess = (folder: string): void => {
  const script = `
    while kill -0 "$1" 2>/dev/null && [ -d "$2" ]; do sleep 0.5; done
    [ -f "$2/pid" ] && kill -KILL "$(cat "$2/pid")" 2>/dev/null && sleep 1
    rm -rf "$2"`;
  const child = spawn('/bin/sh', ['-c', script, 'reaper', String(process.pid), folder], {
    detached: true,
    stdio: 'ignore',
    cwd: tmpdir(),
  });
  child.unref();
};
