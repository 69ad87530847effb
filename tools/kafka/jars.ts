import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The machine lacks something that the broker needs; the message says what to install. */
export class BrokerUnavailable extends Error {
  override readonly name = 'BrokerUnavailable';
}

const oldestJava = 17;

/** The Java that runs the broker. Throws `BrokerUnavailable` when there is none, or one that is too old for Kafka 4. */
export const findJava = (env: NodeJS.ProcessEnv = process.env): string => {
  const java = env.JAVA_HOME === undefined ? 'java' : join(env.JAVA_HOME, 'bin', 'java');
  const asked = spawnSync(java, ['-version'], { encoding: 'utf8' });
  if (asked.error !== undefined || asked.status !== 0) {
    throw new BrokerUnavailable(
      `Apache Kafka 4 needs Java ${oldestJava} or newer, and there is no Java that runs (${java}). Install a JRE, for example openjdk-17-jre-headless, or set JAVA_HOME.`,
    );
  }
  const found = Number(/version "(?:1\.)?(\d+)/u.exec(asked.stderr)?.[1]);
  if (found >= oldestJava) return java;
  throw new BrokerUnavailable(
    `Apache Kafka 4 needs Java ${oldestJava} or newer; ${java} is Java ${String(found)}. Install a newer one, or set JAVA_HOME.`,
  );
};

/** Version of Kafka that `pom.xml` names. */
export const kafkaVersion = (root: string): string => {
  const version = /<kafka\.version>([^<]+)</u.exec(readFileSync(pomOf(root), 'utf8'))?.[1];
  if (version === undefined) throw new Error('tools/kafka/pom.xml names no kafka.version');
  return version;
};

const pomOf = (root: string): string => join(root, 'tools', 'kafka', 'pom.xml');

/**
 * Folder with the broker's jars; fetched from Maven Central the first time. Several processes may ask at once: the
 * folder appears whole. Throws `BrokerUnavailable` without Maven, or when the fetch fails.
 */
export const ensureJars = async (root: string): Promise<string> => {
  const folder = join(root, 'node_modules', '.cache', `kafka-${kafkaVersion(root)}`);
  if (existsSync(folder)) return folder;
  mkdirSync(dirname(folder), { recursive: true });
  const fetched = mkdtempSync(`${folder}-`);
  try {
    await fetchJars(pomOf(root), fetched);
    putInPlace(fetched, folder);
  } finally {
    rmSync(fetched, { recursive: true, force: true });
  }
  return folder;
};

const putInPlace = (fetched: string, folder: string): void => {
  try {
    renameSync(fetched, folder);
  } catch (error) {
    // Another process was first, and its jars are the same.
    if (!existsSync(folder)) throw error;
  }
};

const fetchJars = (pom: string, folder: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const goals = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${folder}`];
    const maven = spawn('mvn', ['-B', '-q', '-f', pom, ...goals], {
      stdio: ['ignore', 'pipe', 'pipe'],
      shell: process.platform === 'win32',
    });
    const words: string[] = [];
    for (const stream of [maven.stdout, maven.stderr])
      stream.setEncoding('utf8').on('data', (part: string) => words.push(part));
    maven.once('error', () =>
      reject(
        new BrokerUnavailable(
          'The broker is fetched from Maven Central with Maven, and there is no mvn. Install Maven, for example the package maven.',
        ),
      ),
    );
    maven.once('exit', (code) =>
      code === 0
        ? resolve()
        : reject(new BrokerUnavailable(`Maven could not fetch the broker:\n${words.join('').trim()}`)),
    );
  });
