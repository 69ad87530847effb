import { parse } from 'acorn';
import { build, stop, transform, version } from 'esbuild';
import type { BuildFailure, BuildOptions, Message } from 'esbuild';
import { noModules, virtualFiles } from './virtual-files.js';

/** A plugin's source as it was sent: one file, or several with the one that is evaluated first. */
export type SourceText =
  { readonly source: string } | { readonly files: { readonly [path: string]: string }; readonly entry: string };

export type Compiled =
  /** `compiler` is null when the code is the source, byte for byte. */
  | { readonly kind: 'compiled'; readonly code: string; readonly compiler: string | null }
  | {
      readonly kind: 'failed';
      readonly message: string;
      /** From 1. */
      readonly line: number | null;
      /** From 1. */
      readonly column: number | null;
      readonly file: string | null;
    };

type Failed = Extract<Compiled, { kind: 'failed' }>;

/** Name and version of what compiles, as recorded with a version of a plugin (MW-6). */
export const compilerName = `esbuild@${version}`;

/** How a dialect has a source made into one script: what is evaluated first, and modules beside the plugin's files. */
export interface Bundling {
  /** Text of the module that is evaluated: it imports the entry, whose path it is given. */
  wrap(entry: string, files: ReadonlyMap<string, string>): string;
  /** Text of a module that is no file of the plugin's; null where there is none of that name. */
  module(name: string): string | null;
}

/**
 * Makes one script of a plugin's source (MW-6). Types are stripped, not checked. One file of JavaScript without imports
 * and exports is taken as it is; everything else becomes one script whose imports resolve only among the plugin's own
 * files, never on a disk. Total: a source that does not parse is a value, with file, line and column.
 */
export const compile = async (
  source: SourceText,
  language: 'javascript' | 'typescript' | 'python',
  bundling?: Bundling,
): Promise<Compiled> => {
  if (language === 'python') return packed(source);
  if (bundling !== undefined) return bundleWith(bundling, source, language);
  if ('files' in source) return bundle(source.files, source.entry);
  const name = language === 'typescript' ? 'plugin.ts' : 'plugin.js';
  return language === 'typescript' ? strip(source.source, name) : take(source.source, name);
};

/** First line of several files of Python that are kept as one text; JSON of `{ files, entry }` follows. */
export const packedFiles = '#!hookledger-files';

/** Python is not compiled: one file is taken as it is, several are kept together. Whether it parses, its load says. */
const packed = (source: SourceText): Compiled => {
  if ('source' in source) return { kind: 'compiled', code: source.source, compiler: null };
  const { files, entry } = source;
  if (!Object.hasOwn(files, entry)) return failed(`entry ${JSON.stringify(entry)} is not among the files`);
  return { kind: 'compiled', code: `${packedFiles}\n${JSON.stringify({ files, entry })}`, compiler: null };
};

/** JavaScript as it is, where it is a script. */
const take = async (source: string, name: string): Promise<Compiled> => {
  const fault = scriptFault(source, name);
  if (fault === null) return { kind: 'compiled', code: source, compiler: null };
  return isModule(source) ? bundle({ [name]: source }, name) : fault;
};

const strip = async (source: string, name: string): Promise<Compiled> => {
  if (!source.isWellFormed()) return loneSurrogate(name);
  const stripped = await withEsbuild(async () => {
    const { code } = await transform(source, { ...common, loader: 'ts', sourcefile: name });
    return code;
  });
  if (typeof stripped !== 'string') return stripped;
  if (scriptFault(stripped, name) !== null && isModule(stripped)) return bundle({ [name]: source }, name);
  return { kind: 'compiled', code: stripped, compiler: compilerName };
};

/** Absolute, as no file of a plugin's is. */
const wrapper = '/entry.js';

const bundleWith = (
  bundling: Bundling,
  source: SourceText,
  language: 'javascript' | 'typescript',
): Promise<Compiled> => {
  const name = language === 'typescript' ? 'plugin.ts' : 'plugin.js';
  const { files, entry } = 'files' in source ? source : { files: { [name]: source.source }, entry: name };
  if (!Object.hasOwn(files, entry)) return bundle(files, entry);
  const wrapped = { ...files, [wrapper]: bundling.wrap(entry, new Map(Object.entries(files))) };
  return bundle(wrapped, wrapper, (path) => bundling.module(path));
};

const bundle = async (
  files: { readonly [path: string]: string },
  entry: string,
  module: (name: string) => string | null = noModules,
): Promise<Compiled> => {
  const known = new Map(Object.entries(files));
  if (!known.has(entry)) return failed(`entry ${JSON.stringify(entry)} is not among the files`);
  const broken = [...known].find(([, text]) => !text.isWellFormed());
  if (broken !== undefined) return loneSurrogate(broken[0]);
  const bundled = await withEsbuild(async () => {
    const { outputFiles } = await build({
      ...bundling,
      entryPoints: [entry],
      plugins: [virtualFiles(known, entry, module)],
    });
    return outputFiles[0]?.text ?? '';
  });
  return typeof bundled === 'string' ? { kind: 'compiled', code: bundled, compiler: compilerName } : bundled;
};

const common = {
  target: 'es2024',
  charset: 'utf8',
  logLevel: 'silent',
  // Nothing of the server's own settings gets in.
  tsconfigRaw: '{}',
} as const;

const bundling = {
  ...common,
  bundle: true,
  write: false,
  format: 'iife',
  platform: 'neutral',
  outdir: '/',
} as const satisfies BuildOptions;

let compiling = 0;

/** Runs one compilation; the compiler's process is ended when nobody needs it, since it is needed rarely. */
const withEsbuild = async (work: () => Promise<string>): Promise<string | Failed> => {
  compiling += 1;
  try {
    return await work();
  } catch (thrown) {
    return fromEsbuild(thrown);
  } finally {
    compiling -= 1;
    if (compiling === 0) await stop();
  }
};

const fromEsbuild = (thrown: unknown): Failed => {
  const [first] = (thrown as Partial<BuildFailure>).errors ?? [];
  if (first === undefined) throw thrown;
  return { kind: 'failed', message: first.text, ...placeOf(first) };
};

const placeOf = ({ location }: Message): Pick<Failed, 'line' | 'column' | 'file'> => ({
  line: location?.line ?? null,
  column: location === null ? null : location.column + 1,
  file: location === null ? null : location.file.replace(/^plugin:/u, ''),
});

/** Null when the text is a script; else why not, with its place. */
const scriptFault = (source: string, file: string): Failed | null => {
  try {
    parse(source, { ecmaVersion: 'latest', sourceType: 'script' });
    return null;
  } catch (thrown) {
    return { kind: 'failed', file, ...acornFault(thrown) };
  }
};

const isModule = (source: string): boolean => {
  try {
    parse(source, { ecmaVersion: 'latest', sourceType: 'module' });
    return true;
  } catch {
    return false;
  }
};

/** What acorn threw: a SyntaxError with `loc`; without it where a source nests deeper than the stack. */
const acornFault = (thrown: unknown): Pick<Failed, 'message' | 'line' | 'column'> => {
  const { message, loc } = thrown as SyntaxError & {
    readonly loc?: { readonly line: number; readonly column: number };
  };
  return {
    message: message.replace(/ \(\d+:\d+\)$/u, ''),
    line: loc?.line ?? null,
    column: loc === undefined ? null : loc.column + 1,
  };
};

const failed = (message: string): Failed => ({ kind: 'failed', message, line: null, column: null, file: null });

const loneSurrogate = (file: string): Failed => ({
  ...failed('holds a lone surrogate, which would not survive compiling: write it as an escape'),
  file,
});
