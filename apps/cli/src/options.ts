import type { ParseArgsOptionsConfig } from 'node:util';
import { parseArgs } from 'node:util';
import { Misuse } from './words.js';

/**
 * Reads the words after a command's name: options as declared, and exactly the positionals that `names` lists. Throws
 * `Misuse` for anything else.
 */
export const readOptions = <T extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: T,
  names: readonly string[] = [],
) => {
  const { values, positionals } = parsed(args, options);
  if (positionals.length > names.length)
    throw new Misuse(`"${String(positionals[names.length])}" is one word too many`);
  const missing = names[positionals.length];
  if (missing !== undefined) throw new Misuse(`${missing} is missing`);
  return { values, positionals };
};

const parsed = <T extends ParseArgsOptionsConfig>(args: readonly string[], options: T) => {
  try {
    return parseArgs({ args: [...args], options, strict: true, allowPositionals: true });
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code?.startsWith('ERR_PARSE_ARGS_') !== true) throw error;
    throw new Misuse(message.split('. ')[0]?.split('\n')[0] ?? 'an option is not known');
  }
};

/** A whole number of an option within bounds. */
export const wholeNumber = (name: string, text: string, least: number, most: number): number => {
  const count = Number(text);
  if (/^\d{1,15}$/u.test(text) && count >= least && count <= most) return count;
  throw new Misuse(`--${name} must be a whole number from ${least} to ${most}`);
};
