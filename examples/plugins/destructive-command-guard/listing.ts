import { mark, marked, unmarked } from './shell.js';

/** What `ls` and `find` name, as far as their own words say it. */

/** Tests of `find` that make it touch a chosen few. */
const narrowing =
  /^-(?:i?name|i?path|i?wholename|i?regex|i?lname|newer.*|[acm](?:time|min)|size|user|group|[ug]id|inum|empty|perm|samefile|nouser|nogroup)$/u;

/** `find`: where it starts, and its expression. */
export interface Search {
  readonly starts: readonly string[];
  readonly tests: readonly string[];
}

/** Reads the arguments of `find`. */
export const readSearch = (args: readonly string[]): Search => {
  const from = Math.max(
    args.findIndex((arg) => !/^-(?:[HLPX]|O\d)$/u.test(arg)),
    0,
  );
  const end = args.findIndex((arg, index) => index >= from && /^(?:-.|[(!]$)/u.test(unmarked(arg)));
  const paths = args.slice(from, end < 0 ? undefined : end);
  return { starts: paths.length === 0 ? ['.'] : paths, tests: end < 0 ? [] : args.slice(end) };
};

/**
 * The paths that `find` hands on, as far as they matter: whole trees where no test chooses, else what a name test
 * could choose just below the start.
 */
export const targetsOf = ({ starts, tests }: Search): readonly string[] => {
  const words = tests.map(unmarked);
  const turned = words.some((word) => ['!', '-not', '-o', '-or', ','].includes(word));
  const choices = words.flatMap((word, at) => (narrowing.test(word) ? [{ word, value: words[at + 1] ?? '' }] : []));
  const chooses = choices.some(
    ({ word, value }) => !/^-i?(?:name|path|wholename|regex)$/u.test(word) || /[\p{L}\p{N}]/u.test(value),
  );
  if (turned || !chooses) return starts;
  const names = choices.filter(({ word }) => /^-i?name$/u.test(word));
  return names.flatMap(({ value }) => starts.map((start) => `${start}/${marked(value)}`));
};

/** The paths that a listing program prints; null for other programs. `ls` prints names, taken with their folder. */
export const listed = (program: string, args: readonly string[]): readonly string[] | null => {
  if (program === 'find') return targetsOf(readSearch(args));
  if (program !== 'ls') return null;
  const operands = args.filter((arg) => !arg.startsWith('-'));
  if (args.some((arg) => /^-[a-zA-Z]*d/u.test(arg))) return operands;
  return (operands.length === 0 ? ['.'] : operands).map((path) => `${path}/${mark.star}`);
};
