import type { ServerConfig } from '#platform';
import { dialectOf } from '#dialects';
import { startSandbox } from '#sandbox';
import type { Sandbox } from '#sandbox';
import type { Finding } from './finding.js';
import { fine, problem, warning } from './finding.js';

const neededMajor = 24;

/** The Node that runs this, which is the one that would run the server. */
export const examineNode = (version: string): Finding =>
  Number(version.split('.')[0]) >= neededMajor
    ? fine('node', `Node is ${version}.`)
    : problem('node', `Node is ${version}; ${neededMajor} is needed. npm start and bin/hookledger.js bring their own.`);

/** How long the trial plugin may take to load, ms. */
const trialMs = 5_000;

/** Starts the sandbox as the server would and lets it load a plugin, which takes isolated-vm and a hardened process. */
export const examineSandbox = async (
  options: ServerConfig['sandbox'],
  start: typeof startSandbox = startSandbox,
): Promise<readonly Finding[]> => {
  let sandbox: Sandbox;
  try {
    sandbox = await start({ ...options, maxChildren: 1 });
  } catch (error) {
    return [problem('sandbox', `The sandbox does not start: ${error instanceof Error ? error.message : 'unknown'}`)];
  }
  try {
    return [await examineLoading(sandbox), ...examineHardening(sandbox)];
  } finally {
    await sandbox.close();
  }
};

const examineLoading = async (sandbox: Sandbox): Promise<Finding> => {
  const dialect = dialectOf('middleware');
  if (dialect === undefined) return problem('isolated-vm', 'The middleware dialect is missing from this build.');
  const loaded = await sandbox.load(
    {
      account: 'doctor',
      pluginId: 'doctor',
      digest: 'doctor',
      code: 'globalThis.middleware.systemPrompt = (context) => context.systemPrompt;',
      fileName: 'doctor.js',
      guest: dialect.guest,
      setup: dialect.setup({ permissions: [], config: {} }),
      isolation: 'fresh',
    },
    trialMs,
  );
  return loaded.kind === 'loaded'
    ? fine('isolated-vm', 'isolated-vm loads, and a plugin runs in it.')
    : problem('isolated-vm', `A plugin cannot be loaded in the sandbox (${loaded.cause}): ${loaded.message}`);
};

const examineHardening = (sandbox: Sandbox): readonly Finding[] => {
  const { state, missing } = sandbox.health();
  if (state === 'ok') return [fine('sandbox', 'Plugins run in processes that are hardened fully.')];
  return missing.map((words) => warning('sandbox', `Plugins are contained less than they could be: ${words}.`));
};
