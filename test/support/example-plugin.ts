import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { compile, derivePermissions, dialectOf } from '#dialects';
import type { SourceText } from '#dialects';
import type { Json, JsonObject } from '#record';
import type { Sandbox } from '#sandbox';

/** What one handler of a plugin said to one context. */
export interface Heard {
  /** `passed`, `rewrote`, `cancelled`, `skipped`, `observed`. */
  readonly kind: string;
  /** The value that goes on: one text, or the changed fields. */
  readonly value: Json | null;
  readonly reason: string | null;
  readonly warnings: readonly string[];
  /** Lines of `host.log`, `level message`. */
  readonly lines: readonly string[];
}

/** An example plugin in the real sandbox, read by the real dialect. */
export interface RunningPlugin {
  readonly hooks: readonly string[];
  readonly permissions: readonly string[];
  readonly loadWarnings: readonly string[];
  say(hook: string, context: JsonObject): Promise<Heard>;
}

interface InstallBody {
  readonly id: string;
  readonly language: 'javascript' | 'typescript';
  readonly config: Json;
  readonly source?: string;
  readonly files?: { readonly [path: string]: string };
  readonly entry?: string;
}

const folder = join(import.meta.dirname, '../../examples/plugins');

/** The body that the README's tour sends to install a plugin. */
export const installBodyOf = (name: string): InstallBody =>
  JSON.parse(
    execFileSync(process.execPath, [join(folder, 'install-body.js'), name], { encoding: 'utf8' }),
  ) as InstallBody;

const middleware = () => {
  const dialect = dialectOf('middleware');
  if (dialect === undefined) throw new Error('there is no middleware dialect');
  return dialect;
};

/** Loads a plugin of examples/plugins as an installation would. Rejects when it does not load. */
export const runExample = async (sandbox: Sandbox, name: string, config?: Json): Promise<RunningPlugin> => {
  const dialect = middleware();
  const body = installBodyOf(name);
  const source: SourceText =
    body.files === undefined ? { source: body.source ?? '' } : { files: body.files, entry: body.entry ?? '' };
  const compiled = await compile(source, body.language);
  if (compiled.kind === 'failed') throw new Error(compiled.message);
  const permissions = derivePermissions(compiled.code);
  const realm = {
    account: 'examples',
    pluginId: body.id,
    digest: `${body.id} ${JSON.stringify(config ?? body.config)}`,
    code: compiled.code,
    fileName: `${body.id}.js`,
    guest: dialect.guest,
    setup: dialect.setup({ permissions, config: config ?? body.config }),
    isolation: 'warm',
  } as const;
  const loaded = await sandbox.load(realm, 5_000);
  if (loaded.kind === 'failed') throw new Error(`${loaded.cause}: ${loaded.message}`);
  const report = dialect.readReport(loaded.report);
  let count = 0;

  const say = async (hook: string, context: JsonObject): Promise<Heard> => {
    const opening = dialect.open(hook, { context });
    if (opening.kind === 'refused') throw new Error(JSON.stringify(opening.faults));
    const lines: string[] = [];
    count += 1;
    const chain = sandbox.run({
      account: 'examples',
      invocationId: `${body.id}-${count}`,
      input: opening.input,
      handlers: [
        {
          realm,
          handler: hook,
          timeoutMs: 5_000,
          args: dialect.args(hook, dialect.hostView(hook, context, 0)),
          advances: true,
          stopsOn: dialect.stopTags(hook, 'open'),
        },
      ],
      onCall: ({ member, args }) => {
        if (member === 'log') lines.push((JSON.parse(args ?? '[]') as string[]).join(' '));
        return Promise.resolve({ kind: 'value', json: 'null' });
      },
      pausingMembers: dialect.pausingMembers,
    });
    const outcome = await chain.result(0);
    if (outcome.kind !== 'returned') throw new Error(JSON.stringify(outcome));
    const { verdict, warnings } = dialect.read(hook, outcome.raw, opening.value);
    return {
      kind: verdict.kind,
      value: verdict.kind === 'rewrote' ? verdict.value : null,
      reason: verdict.kind === 'cancelled' ? verdict.reason : null,
      warnings: warnings.map(({ code }) => code),
      lines,
    };
  };

  return { hooks: report.hooks, permissions, loadWarnings: report.warnings.map(({ code }) => code), say };
};
