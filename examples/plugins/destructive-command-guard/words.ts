import { listed } from './listing.js';
import type { Piece, Script, SimpleCommand, Word } from './shell.js';
import { mark, marked, readQuoted, TooDeep, unescaped, unmarked } from './shell.js';

/**
 * What words come to, as far as that can be known without running anything: variables that the command itself set,
 * braces, and a few substitutions whose output stands in their own text (`$(echo …)`, `$(which rm)`, `$(pwd)`).
 */

/** What is known while a script is read from top to bottom. */
export interface Scope {
  readonly variables: Map<string, string>;
  /** Where relative paths start; null = where the session stands, unknown. */
  cwd: string | null;
  /** `set -u`: a variable that was never set ends the script instead of being empty. */
  strict: boolean;
}

/** More words than any honest command has in a pair of braces. */
const mostWords = 2_000;

/** Characters: `x=$x$x` doubles with every step. */
const longestText = 512 * 1024;

/** Thrown when a word comes to more texts than can be judged. */
export class TooMany extends Error {}

/** The texts that a word comes to: usually one, several with braces, none when it is empty and not quoted. */
export const expand = (word: Word, scope: Scope): readonly string[] => {
  const text = expandWhole(word, scope);
  const texts = braces(text).flatMap((one) => fields(one));
  if (texts.length > mostWords) throw new TooMany();
  return texts.length === 0 && word.some((piece) => piece.kind === 'text') ? [''] : texts;
};

/** The same without splitting: what an assignment or a redirection takes. */
export const expandWhole = (word: Word, scope: Scope): string => {
  let text = '';
  for (const piece of word) {
    text += pieceText(piece, scope);
    if (text.length > longestText) throw new TooMany();
  }
  return text;
};

const fields = (text: string): readonly string[] => text.split(mark.split).filter((part) => part !== '');

const pieceText = (piece: Piece, scope: Scope): string => {
  switch (piece.kind) {
    case 'text':
      return piece.text;
    case 'variable':
      return variableText(piece, scope);
    case 'output':
      return inPlace(outputOf(piece.script, scope) ?? mark.unknown, piece.quoted, scope);
    case 'pipe':
      return '/dev/fd/63';
  }
};

const inPlace = (value: string, quoted: boolean, scope: Scope): string => {
  if (quoted) return value;
  const separators = new Set([' ', '\t', '\n', ...Array.from(scope.variables.get('IFS') ?? '')]);
  return Array.from(marked(value), (char) => (separators.has(char) ? mark.split : char)).join('');
};

/** `${x//a/b}`, `${x:1:2}` of a known text; null for other changes. */
const changedText = (value: string, rest: string): string | null => {
  const swap = /^\/(\/?)([^/*?[\]]+)(?:\/([\s\S]*))?$/u.exec(rest);
  if (swap !== null) {
    const [, all = '', from = '', to = ''] = swap;
    return all === '' ? value.replace(from, () => to) : value.replaceAll(from, to);
  }
  const cut = /^: ?(-?\d+)(?::(\d+))?$/u.exec(rest);
  if (cut === null) return null;
  const start = Number(cut[1]);
  const from = start < 0 ? value.length + start : start;
  return value.slice(from, cut[2] === undefined ? undefined : from + Number(cut[2]));
};

const variableText = (piece: Piece & { kind: 'variable' }, scope: Scope): string => {
  const { name, rest, quoted } = piece;
  if (name === 'IFS' && rest === '') return quoted ? ' ' : mark.split;
  // `${PATH:0:1}`, `${HOME::1}`: a slash in disguise. `${HOME%/*}`: what lies above.
  if (/^:0?:1$/u.test(rest) && ['PATH', 'HOME', 'PWD', 'SHELL', 'OLDPWD'].includes(name)) return '/';
  if (rest.startsWith('%') && ['HOME', 'PWD', 'OLDPWD'].includes(name)) return '/';
  const value = known(name, scope);
  const changed = value === undefined ? null : changedText(value, rest);
  if (changed !== null) return inPlace(changed, quoted, scope);
  const turn = /^:?([-=?+])([\s\S]*)$/u.exec(rest);
  if (turn === null) {
    if (rest !== '' || value === undefined) return scope.strict && rest === '' ? mark.something : mark.unknown;
    return inPlace(value, quoted, scope);
  }
  const [, how, words = ''] = turn;
  if (how === '?') return value === undefined || value === '' ? mark.something : inPlace(value, quoted, scope);
  if (how !== '+' && value !== undefined && value !== '') return inPlace(value, quoted, scope);
  // Nobody knows whether it is set: the words given for the other case may be what runs.
  return inPlace(expandWhole(readQuoted(words), scope).replace(/^~/u, mark.home), quoted, scope);
};

const known = (name: string, scope: Scope): string | undefined => {
  const own = scope.variables.get(name);
  if (own !== undefined) return own;
  if (name === 'HOME') return mark.home;
  if (name === 'PWD') return scope.cwd ?? '.';
  if (
    ['USER', 'LOGNAME', 'UID', 'EUID', 'HOSTNAME', '$', '#', '?', '!', '-', 'RANDOM', 'TMPDIR', 'SHELL'].includes(name)
  ) {
    return mark.something;
  }
  return undefined;
};

/** What a substitution prints where its own text says so; null otherwise. */
export const outputOf = (script: Script, scope: Scope): string | null => {
  const [pipeline, ...more] = script;
  const [stage, ...others] = pipeline?.stages ?? [];
  if (stage?.kind !== 'command' || more.length > 0 || others.length > 0) return null;
  return printed(stage, scope) ?? listedText(stage, scope);
};

const listedText = ({ words }: SimpleCommand, scope: Scope): string | null => {
  const [name = '', ...args] = words.flatMap((word) => expand(word, scope));
  const paths = listed(name.slice(name.lastIndexOf('/') + 1), args);
  return paths?.map((path) => unmarkedButUnknown(path)).join(' ') ?? null;
};

/** What `echo`, `printf`, `pwd`, `which` print; null for every other command. */
export const printed = (command: SimpleCommand, scope: Scope): string | null => {
  const [name, ...args] = command.words.flatMap((word) => expand(word, scope)).map(unmarkedButUnknown);
  if (name === undefined) return null;
  switch (name.slice(name.lastIndexOf('/') + 1)) {
    case 'echo': {
      const words = args.filter((arg, index) => !(index === 0 && /^-[neE]+$/u.test(arg)));
      const text = words.join(' ');
      return /^-[nE]*e/u.test(args[0] ?? '') ? unescaped(text) : text;
    }
    case 'printf':
      return formatted(args);
    case 'pwd':
      return scope.cwd ?? '.';
    case 'which':
    case 'realpath':
    case 'readlink':
      return args.at(-1) ?? null;
    case 'dirname':
      return (args.at(-1) ?? '').replace(/\/*[^/]*\/*$/u, '') || '/';
    case 'command':
    case 'type':
      return /^-[vVp]$/u.test(args[0] ?? '') ? (args.at(-1) ?? null) : null;
    default:
      return null;
  }
};

/** Printed text has no active patterns; what is unknown in it stays so, and so does the home directory. */
const unmarkedButUnknown = (text: string): string => text.replace(/[\uE000-\uE006\uE00A]/gu, (sign) => unmarked(sign));

/** `printf`: every `%…` takes the next argument; what is left over goes round again in the shell, and is added here. */
export const formatted = (args: readonly string[]): string => {
  const [format = '', ...values] = args[0] === '--' ? args.slice(1) : args;
  let next = 0;
  const text = unescaped(format).replace(/%(?:%|[-+ #0-9.*]{0,8}[a-zA-Z])/gu, (token) => {
    if (token === '%%') return '%';
    const value = values[next] ?? '';
    next += 1;
    return token.endsWith('b') ? unescaped(value) : value;
  });
  const rest = values.slice(Math.max(next, 1));
  return rest.length === 0 || next === 0 ? text : [text.trimEnd(), ...rest].join('\n');
};

/** `a{b,c}d` → `abd`, `acd`. */
const braces = (text: string, depth = 0): readonly string[] => {
  if (depth > 12) throw new TooDeep();
  const open = text.indexOf(mark.braceOpen);
  if (open < 0) return [text];
  let level = 0;
  let from = open + 1;
  const items: string[] = [];
  for (let at = open; at < text.length; at += 1) {
    const char = text[at];
    if (char === mark.braceOpen) level += 1;
    else if (char === mark.comma && level === 1) {
      items.push(text.slice(from, at));
      from = at + 1;
    } else if (char === mark.braceClose) {
      level -= 1;
      if (level > 0) continue;
      items.push(text.slice(from, at));
      const before = text.slice(0, open);
      // A pair without a comma is two ordinary characters (a range of letters or numbers is one of many names).
      if (items.length === 1) {
        const range = /^(?:\w\.\.\w|\d+\.\.\d+)$/u.test(items[0] ?? '');
        const inside = range ? mark.one : `{${items[0] ?? ''}}`;
        return braces(text.slice(at + 1), depth + 1).map((after) => before + inside + after);
      }
      const texts = items.flatMap((item) => braces(item, depth + 1));
      const afters = braces(text.slice(at + 1), depth + 1);
      if (texts.length * afters.length > mostWords) throw new TooMany();
      return texts.flatMap((item) => afters.map((after) => before + item + after));
    }
  }
  return [text.replaceAll(mark.braceOpen, '{')];
};
