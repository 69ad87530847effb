import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { authorityOf, brokerUser, startBroker, type BrokerPlan, type StartedBroker } from './broker.js';
import { BrokerUnavailable, ensureJars, findJava, kafkaVersion } from './jars.js';

const help = `npm run kafka -- [--port 9092] [--data FOLDER] [--tls] [--sasl] [--fetch]

Runs one Apache Kafka broker on 127.0.0.1, for development. It is fetched from Maven Central the first time; it needs
Java 17 or newer, and Maven. Ctrl-C stops it; what it stored stays.

  --port N   where it listens; its controller listens on the port after it. Default 9092
  --data     its folder. Default: kafka, below HOOKLEDGER_DATA or .hookledger
  --tls      a TLS listener too, two ports after the first, with an authority of its own
  --sasl     a SASL listener too, three ports after the first; with --tls one over TLS, four after it
  --fetch    fetch it and look whether it can run here; start nothing
`;

const root = process.cwd();

const say = (text: string): void => void process.stdout.write(`${text}\n`);

const readOptions = () =>
  parseArgs({
    options: {
      port: { type: 'string', default: '9092' },
      data: { type: 'string' },
      tls: { type: 'boolean', default: false },
      sasl: { type: 'boolean', default: false },
      fetch: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  }).values;

const planOf = (values: ReturnType<typeof readOptions>): BrokerPlan => {
  const port = Number(values.port);
  if (!/^\d{1,5}$/u.test(values.port) || port < 1 || port > 65_530)
    throw new Error('--port is a number from 1 to 65530');
  const { tls, sasl } = values;
  return {
    root,
    folder: resolve(root, values.data ?? resolve(process.env.HOOKLEDGER_DATA ?? '.hookledger', 'kafka')),
    nodeId: 1,
    ports: {
      plain: port,
      controller: port + 1,
      ...(tls ? { tls: port + 2 } : {}),
      ...(sasl ? { sasl: port + 3 } : {}),
      ...(tls && sasl ? { saslTls: port + 4 } : {}),
    },
    heapMb: 1024,
  };
};

const describe = (plan: BrokerPlan): readonly string[] => {
  const { plain, tls, sasl, saslTls } = plan.ports;
  const at = (port: number): string => `HOOKLEDGER_KAFKA_BROKERS=127.0.0.1:${String(port)}`;
  const trust = `HOOKLEDGER_KAFKA_SSL=true HOOKLEDGER_KAFKA_SSL_CA=${authorityOf(plan)}`;
  const user = `HOOKLEDGER_KAFKA_SASL_USERNAME=${brokerUser.username} HOOKLEDGER_KAFKA_SASL_PASSWORD=${brokerUser.password}`;
  const mechanism = 'HOOKLEDGER_KAFKA_SASL_MECHANISM=scram-sha-512';
  return [
    `${at(plain)} npm start`,
    ...(tls === undefined ? [] : [`${at(tls)} ${trust} npm start`]),
    ...(sasl === undefined ? [] : [`${at(sasl)} ${mechanism} ${user} npm start`]),
    ...(saslTls === undefined ? [] : [`${at(saslTls)} ${trust} ${mechanism} ${user} npm start`]),
  ];
};

const main = async (): Promise<number> => {
  const options = readOptions();
  if (options.help) {
    say(help);
    return 0;
  }
  if (options.fetch) {
    findJava();
    await ensureJars(root);
    return 0;
  }
  const plan = planOf(options);
  say(`Apache Kafka ${kafkaVersion(root)} starts; its files are in ${plan.folder}`);
  const broker = await startBroker(plan);
  stopOnSignals(broker);
  say('It listens. In another terminal:\n');
  for (const line of describe(plan)) say(`  ${line}`);
  const code = await broker.ended;
  say('The broker stopped.');
  return code === 0 || code === 143 ? 0 : 1;
};

const stopOnSignals = (broker: StartedBroker): void => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void broker.stop());
};

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    const known = error instanceof BrokerUnavailable;
    process.stderr.write(
      `\nThe broker did not start.\n${known || error instanceof Error ? error.message : String(error)}\n`,
    );
    process.exit(1);
  },
);
