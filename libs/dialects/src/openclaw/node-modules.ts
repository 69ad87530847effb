/**
 * Modules that plugins import and that reach nothing: what they do is done with text alone. Each is the body of a
 * function of `other`, which gives the members that are not here: they can be imported, and throw when they are used.
 */
const path = String.raw`
  const cwd = '/';
  const normalizeParts = (text, isAbsolute) => {
    const parts = [];
    for (const part of text.split('/')) {
      if (part === '' || part === '.') continue;
      if (part !== '..') parts.push(part);
      else if (parts.length > 0 && parts[parts.length - 1] !== '..') parts.pop();
      else if (!isAbsolute) parts.push('..');
    }
    return parts.join('/');
  };
  const isAbsolute = (text) => text.startsWith('/');
  const normalize = (text) => {
    if (text === '') return '.';
    const inner = normalizeParts(text, isAbsolute(text));
    const ends = text.endsWith('/');
    if (inner === '') return isAbsolute(text) ? '/' : ends ? './' : '.';
    return (isAbsolute(text) ? '/' : '') + inner + (ends ? '/' : '');
  };
  const join = (...parts) => {
    const given = parts.filter((part) => part !== '');
    return given.length === 0 ? '.' : normalize(given.join('/'));
  };
  const resolve = (...parts) => {
    let whole = '';
    for (let at = parts.length - 1; at >= 0 && !isAbsolute(whole); at -= 1) if (parts[at] !== '') whole = parts[at] + (whole === '' ? '' : '/' + whole);
    if (!isAbsolute(whole)) whole = cwd + whole;
    return '/' + normalizeParts(whole, true);
  };
  const trimmed = (text) => (text.length > 1 ? text.replace(/\/+$/, '') || '/' : text);
  const basename = (text, end = '') => {
    const name = trimmed(text).slice(trimmed(text).lastIndexOf('/') + 1);
    return end !== '' && name !== end && name.endsWith(end) ? name.slice(0, -end.length) : name;
  };
  const dirname = (text) => {
    const at = trimmed(text).lastIndexOf('/');
    return at < 0 ? '.' : at === 0 ? '/' : trimmed(trimmed(text).slice(0, at));
  };
  const extname = (text) => {
    const name = basename(text);
    const at = name.lastIndexOf('.');
    return at <= 0 || name === '..' ? '' : name.slice(at);
  };
  const relative = (from, to) => {
    const a = resolve(from).split('/').filter(Boolean);
    const b = resolve(to).split('/').filter(Boolean);
    let same = 0;
    while (same < a.length && same < b.length && a[same] === b[same]) same += 1;
    return [...a.slice(same).map(() => '..'), ...b.slice(same)].join('/');
  };
  const parse = (text) => {
    const base = basename(text);
    const ext = extname(text);
    const root = isAbsolute(text) ? '/' : '';
    return { root, dir: dirname(text) === '.' && root === '' && !text.startsWith('.') ? '' : dirname(text), base, ext, name: ext === '' ? base : base.slice(0, -ext.length) };
  };
  const format = ({ dir, root = '', base, name = '', ext = '' }) => (dir ? (dir === root ? dir : dir + '/') : root) + (base ?? name + ext);
  const own = { sep: '/', delimiter: ':', isAbsolute, normalize, join, resolve, basename, dirname, extname, relative, parse, format, toNamespacedPath: (text) => text };
  own.posix = own;
  return own;`;

/** A machine that is no machine: every plugin's is the same. */
const os = String.raw`
  return {
    EOL: '\n', arch: () => 'x64', platform: () => 'linux', type: () => 'Linux', release: () => '', endianness: () => 'LE',
    homedir: () => '/home/plugin', tmpdir: () => '/tmp', hostname: () => 'sandbox', cpus: () => [], loadavg: () => [0, 0, 0],
    uptime: () => 0, totalmem: () => 0, freemem: () => 0, networkInterfaces: () => ({}),
  };`;

const url = String.raw`
  const fileURLToPath = (given) => (given === undefined ? '/plugin/index.js' : decodeURIComponent(String(given.href ?? given).replace(/^file:\/\//, '')));
  const pathToFileURL = (path) => ({ href: 'file://' + encodeURI(path), pathname: encodeURI(path), protocol: 'file:', toString: () => 'file://' + encodeURI(path) });
  return { fileURLToPath, pathToFileURL };`;

/** Schemas of tools, which mean nothing here: whatever is called gives one that says nothing. */
const typebox = String.raw`
  const Type = new Proxy({}, { get: (_target, key) => (typeof key === 'string' && key !== 'then' ? () => ({}) : undefined) });
  return { Type };`;

const bodies: { readonly [name: string]: string } = {
  path,
  'path/posix': path,
  os,
  url,
  '@sinclair/typebox': typebox,
  typebox,
};

/** The body of a module; null where none of its members are given. */
export const givenModule = (name: string): string | null => {
  const plain = name.startsWith('node:') ? name.slice('node:'.length) : name;
  return Object.hasOwn(bodies, plain) ? (bodies[plain] ?? null) : null;
};
