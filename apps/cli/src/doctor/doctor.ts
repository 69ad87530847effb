import type { ServerConfig } from '#platform';
import { readConfig, StartFailure } from '#platform';
import { dataFolderOf } from '../data-folder.js';
import { readOptions } from '../options.js';
import { plain } from '../words.js';
import { examineDatabase } from './database.js';
import { examineBinaries, examineCluster } from './embedded.js';
import type { Finding } from './finding.js';
import { fine, problem } from './finding.js';
import { examineFolder } from './folder.js';
import { examineMasterKey } from './master-key.js';
import { examineNode, examineSandbox } from './program.js';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * `hookledger doctor`: checks a data folder and the configuration and says what is fine and what is not. Changes
 * nothing. The exit code is 1 where there is a problem; a warning is none.
 */
export const doctor = async (args: readonly string[]): Promise<number> => {
  const { values } = readOptions(args, { data: { type: 'string' }, json: { type: 'boolean' } });
  const dataDir = dataFolderOf(values.data, process.env, process.cwd());
  const findings = await examine({ ...process.env, HOOKLEDGER_DATA: dataDir });
  const isFine = findings.every(({ state }) => state !== 'problem');
  if (values.json === true) console.log(JSON.stringify({ ok: isFine, dataDir, checks: findings }));
  else for (const line of linesOf(findings)) console.log(line);
  return isFine ? 0 : 1;
};

const examine = async (env: Environment): Promise<readonly Finding[]> => {
  const node = examineNode(process.versions.node);
  const config = configIn(env);
  if (config instanceof StartFailure) return [node, problem('settings', config.message)];
  return [
    node,
    fine('settings', 'The settings in the environment can be used.'),
    ...(await examineSandbox(config.sandbox)),
    ...examineFolder(config.dataDir),
    ...(await examineRecord(config, env)),
    fine('kafka', 'Kafka is not used: everything that is derived follows the log in Postgres.'),
  ];
};

const configIn = (env: Environment): ServerConfig | StartFailure => {
  try {
    return readConfig(env, process.cwd());
  } catch (error) {
    if (error instanceof StartFailure) return error;
    throw error;
  }
};

/** The database, and the key to what is in it. */
const examineRecord = async (config: ServerConfig, env: Environment): Promise<readonly Finding[]> => {
  const { findings, exists, masters } =
    config.databaseUrl === null ? await examineEmbedded(config.dataDir, env) : await examineGiven(config);
  const environment = config.masterKey ?? undefined;
  const nextEnvironment = config.masterKeyNext ?? undefined;
  const question = { dataDir: config.dataDir, environment, nextEnvironment, databaseExists: exists, masters };
  return [...findings, ...examineMasterKey(question)];
};

interface RecordFacts {
  readonly findings: readonly Finding[];
  readonly exists: boolean;
  readonly masters: readonly string[] | null;
}

const examineEmbedded = async (dataDir: string, env: Environment): Promise<RecordFacts> => {
  const binaries = examineBinaries(env);
  const cluster = examineCluster(dataDir, binaries.major);
  const known = [binaries.finding, cluster.finding];
  if (cluster.url === null) return { findings: known, exists: cluster.exists, masters: null };
  const asked = await examineDatabase({ url: cluster.url, from: 'embedded', migrates: true });
  return { findings: [...known, ...asked.findings], exists: true, masters: asked.masters };
};

const examineGiven = async ({ databaseUrl, migrationUrl }: ServerConfig): Promise<RecordFacts> => {
  const asked = await examineDatabase({
    url: databaseUrl ?? '',
    from: 'DATABASE_URL',
    migrates: migrationUrl === null,
  });
  if (migrationUrl === null) return { ...asked, exists: false };
  const other = await examineDatabase({ url: migrationUrl, from: 'HOOKLEDGER_MIGRATION_URL', migrates: true });
  return { findings: [...asked.findings, ...other.findings], exists: false, masters: asked.masters };
};

const linesOf = (findings: readonly Finding[]): readonly string[] => {
  const count = (wanted: Finding['state']): number => findings.filter(({ state }) => state === wanted).length;
  const [problems, warnings] = [count('problem'), count('warning')];
  return [
    ...findings.map(({ state, words }) => `${state.padEnd('problem'.length)}  ${plain(words)}`),
    '',
    problems === 0 && warnings === 0
      ? 'Everything is fine.'
      : `${String(problems)} ${problems === 1 ? 'problem' : 'problems'}, ${String(warnings)} ${warnings === 1 ? 'warning' : 'warnings'}.`,
  ];
};
