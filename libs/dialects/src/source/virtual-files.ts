import type { Loader, OnLoadArgs, OnLoadResult, OnResolveArgs, OnResolveResult, Plugin } from 'esbuild';

/**
 * Lets the bundler see a plugin's own files and the modules that its dialect brings, and nothing else: no disk, no
 * packages, no network.
 */
export const virtualFiles = (
  files: ReadonlyMap<string, string>,
  entry: string,
  module: (name: string) => string | null = noModules,
): Plugin => ({
  name: 'plugin-files',
  setup: (bundler) => {
    // No flags: the bundler reads these as Go's regular expressions, which know no `u`.
    bundler.onResolve({ filter: /.*/ }, (args) => resolve(files, entry, module, args));
    bundler.onLoad({ filter: /.*/, namespace }, (args) => load(files, args));
    bundler.onLoad({ filter: /.*/, namespace: absentNamespace }, ({ path }) => ({
      contents: `throw new Error(${JSON.stringify(`Cannot find package '${path}': plugins have their own files only`)});`,
      loader: 'js',
    }));
    bundler.onLoad({ filter: /.*/, namespace: dialectNamespace }, ({ path }) => ({
      contents: module(path) ?? '',
      loader: 'js',
    }));
  },
});

/** For a dialect that brings no modules. */
export const noModules = (): null => null;

const namespace = 'plugin';
const dialectNamespace = 'dialect';
const absentNamespace = 'absent';

const resolve = (
  files: ReadonlyMap<string, string>,
  entry: string,
  module: (name: string) => string | null,
  args: OnResolveArgs,
): OnResolveResult => {
  // Not the path that the bundler names: it writes `./` before one that is also a file where the program was started.
  if (args.kind === 'entry-point') return { path: entry, namespace };
  const path = wanted(args);
  const found = path === null ? undefined : candidates(path).find((candidate) => files.has(candidate));
  if (found !== undefined) return { path: found, namespace };
  if (path === null && module(args.path) !== null) return { path: args.path, namespace: dialectNamespace };
  // Where a dialect's plugins are programs of Node, one that imports a package only when it needs it fails only then.
  if (path === null && args.kind === 'dynamic-import' && module !== noModules) {
    return { path: args.path, namespace: absentNamespace };
  }
  return {
    errors: [{ text: `${JSON.stringify(args.path)} is not among the plugin's files, where alone imports resolve` }],
  };
};

const load = (files: ReadonlyMap<string, string>, { path }: OnLoadArgs): OnLoadResult => ({
  contents: files.get(path) ?? '',
  loader: loaders.get(path.slice(path.lastIndexOf('.') + 1)) ?? 'text',
});

const loaders: ReadonlyMap<string, Loader> = new Map<string, Loader>([
  ['ts', 'ts'],
  ['mts', 'ts'],
  ['cts', 'ts'],
  ['tsx', 'tsx'],
  ['js', 'js'],
  ['mjs', 'js'],
  ['cjs', 'js'],
  ['jsx', 'jsx'],
  ['json', 'json'],
]);

/** The path that a relative import means, from the files' root; null for a package's name or a way out of the root. */
const wanted = ({ path, importer }: OnResolveArgs): string | null => {
  if (!/^\.{0,2}\//u.test(path) && path !== '.' && path !== '..') return null;
  const from = path.startsWith('/') ? [] : importer.split('/').slice(0, -1);
  const parts: string[] = [];
  for (const part of [...from, ...path.split('/')]) {
    if (part === '' || part === '.') continue;
    if (part !== '..') parts.push(part);
    else if (parts.pop() === undefined) return null;
  }
  return parts.join('/');
};

/** As written, with an extension, as a folder's index; `.js` may stand for the `.ts` it is made of. */
const candidates = (path: string): readonly string[] => [
  path,
  ...['.ts', '.tsx', '.js', '.mjs', '.json'].map((end) => `${path}${end}`),
  ...['.ts', '.js'].map((end) => `${path === '' ? '' : `${path}/`}index${end}`),
  ...(/\.[cm]?js$/u.test(path) ? [path.replace(/js$/u, 'ts')] : []),
];
