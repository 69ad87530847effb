import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

/** The version whose runner is measured beside ours. */
export const openclawVersion = '2026.9.6';

type Handler = (event: unknown, context: unknown) => unknown;

/** OpenClaw's own runner of `before_tool_call`, with some handlers. */
export interface RealRunner {
  readonly call: (event: object, context: object) => Promise<unknown>;
  close(): void;
}

const run = promisify(execFile);

/** What the runner's files import from other packages. */
const needed = ['@openclaw/fs-safe', 'chalk', 'tslog'];

/** Fetches the package into a temporary folder and loads its runner; rejects where the registry cannot be reached. */
export const realRunner = async (handlers: readonly Handler[]): Promise<RealRunner> => {
  const folder = mkdtempSync(join(tmpdir(), 'hookledger-openclaw-'));
  const close = (): void => {
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const { stdout } = await run('npm', ['pack', `openclaw@${openclawVersion}`, '--silent'], { cwd: folder });
    const archive = join(folder, stdout.trim().split('\n').at(-1) ?? '');
    const wanted = ['package/package.json', 'package/dist/*.mjs', 'package/dist/*.js'];
    const unpack = ['-xzf', archive, '-C', folder, '--no-wildcards-match-slash', '--wildcards', ...wanted];
    await run('tar', unpack);
    const manifest = JSON.parse(readFileSync(join(folder, 'package/package.json'), 'utf8')) as Manifest;
    // Its own manifest would bring everything that the gateway needs.
    writeFileSync(join(folder, 'package/package.json'), JSON.stringify({ name: 'runner', type: 'module' }));
    mkdirSync(join(folder, 'package/node_modules'));
    const versions = needed.map((name) => `${name}@${manifest.dependencies[name] ?? 'latest'}`);
    const install = ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund', ...versions];
    await run('npm', install, { cwd: join(folder, 'package') });
    const { createHookRunner } = (await import(pathToFileURL(runnerIn(join(folder, 'package/dist'))).href)) as Module;
    const runner = createHookRunner(registryOf(handlers), {
      failurePolicyByHook: { before_tool_call: 'fail-closed' },
    });
    return { call: (event, context) => runner.runBeforeToolCall(event, context), close };
  } catch (error) {
    close();
    throw error;
  }
};

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
}

interface Module {
  readonly createHookRunner: (registry: object, options: object) => Runner;
}

interface Runner {
  readonly runBeforeToolCall: (event: object, context: object) => Promise<unknown>;
}

const registryOf = (handlers: readonly Handler[]): object => ({
  hooks: [],
  plugins: [],
  typedHooks: handlers.map((handler, index) => ({
    pluginId: `plugin-${index}`,
    hookName: 'before_tool_call',
    handler,
    priority: 0,
    source: 'bench',
  })),
});

/** Its files are named by their content; this one exports the runner by its name and nothing else. */
const runnerIn = (dist: string): string => {
  const small = readdirSync(dist).filter((name) => name.startsWith('hooks-') && statSync(join(dist, name)).size < 1000);
  const found = small.find((name) => readFileSync(join(dist, name), 'utf8').includes('export { createHookRunner }'));
  if (found === undefined) throw new Error(`openclaw@${openclawVersion} exports its runner from no file of its own`);
  return join(dist, found);
};
