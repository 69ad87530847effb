import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { commandHelp, generalHelp } from './help.js';
import { Failure, Misuse } from './words.js';

type Command = (args: readonly string[]) => Promise<number>;

/**
 * What the program can do; each takes the words after its name and gives the exit code. Loaded when it is wanted, so
 * that asking for help does not load the sandbox.
 */
const commands: ReadonlyMap<string, () => Promise<Command>> = new Map([
  ['doctor', async () => (await import('./doctor/doctor.js')).doctor],
  ['keys', async () => (await import('./keys/keys.js')).keys],
  ['replay', async () => (await import('./replay/replay.js')).replay],
  ['export', async () => (await import('./export/export.js')).exportRecord],
  ['fire', async () => (await import('./client/fire.js')).fire],
  ['events', async () => (await import('./client/events.js')).events],
  ['verify', async () => (await import('./verify/verify.js')).verify],
  ['refill', async () => (await import('./refill/refill.js')).refill],
  ['conformance', async () => (await import('./conformance/conformance.js')).conformance],
]);

const version = (): string => {
  const path = findPackageJSON('.', import.meta.url);
  if (path === undefined) return 'unknown';
  return (JSON.parse(readFileSync(path, 'utf8')) as { readonly version: string }).version;
};

const asksForHelp = (args: readonly string[]): boolean => {
  const end = args.indexOf('--');
  return args.slice(0, end < 0 ? undefined : end).some((word) => word === '--help' || word === '-h');
};

const run = async ([name = '', ...args]: readonly string[]): Promise<number> => {
  if (name === '--help' || name === '-h' || name === 'help') return say(generalHelp);
  if (name === '--version' || name === '-v') return say(version());
  const load = commands.get(name);
  if (load === undefined) {
    const words = name === '' ? 'say what to do' : `there is no command "${name}"`;
    console.error(`hookledger: ${words}\n\n${generalHelp}`);
    return 2;
  }
  if (asksForHelp(args)) return say(commandHelp(name));
  try {
    return await (
      await load()
    )(args);
  } catch (error) {
    return explain(name, error);
  }
};

const say = (text: string): number => {
  console.log(text);
  return 0;
};

const explain = (name: string, error: unknown): number => {
  if (error instanceof Misuse) {
    console.error(`hookledger ${name}: ${error.message}\n\n${commandHelp(name)}`);
    return 2;
  }
  // What is not foreseen says where it happened, and not with what.
  const words = error instanceof Failure ? error.message : `it failed${placeOf(error)}`;
  console.error(`hookledger ${name}: ${words}`);
  return 1;
};

const placeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return '';
  const { code } = error as { code?: unknown };
  const frame = (error.stack ?? '').split('\n').find((line) => /^\s+at /u.test(line)) ?? '';
  return `: ${error.name}${typeof code === 'string' ? ` ${code}` : ''} ${frame.trim()}`;
};

// Whoever reads may stop reading (`| head`): that is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

process.exitCode = await run(process.argv.slice(2));
