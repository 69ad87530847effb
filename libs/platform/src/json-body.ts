import { isUtf8 } from 'node:buffer';
import jsonc from 'jsonc-parser';
import { parseJson } from '#record';
import type { FieldFault } from './problem.js';
import { escapePointer, Problem } from './problem.js';

/** Most bytes of a body (api.md, JSON in). */
export const maxBodyBytes = 8 * 1024 * 1024;

/** Most levels of nesting (api.md, JSON in). */
export const maxDepth = 200;

/** A hostile body may hold a million faults; the answer names the first ones. */
const maxFaults = 20;

/**
 * The value of a body that is evidence: valid UTF-8, JSON, no key twice, no deeper than 200, no number that a double
 * would round (api.md, JSON in). `__proto__` and `constructor` come out as plain own keys, as `JSON.parse` makes them.
 * Throws `Problem` 400 where it is no JSON and 422 where it is JSON that could not be kept as it came.
 */
export const readJsonBody = (bytes: Buffer): unknown => {
  if (!isUtf8(bytes)) throw new Problem(400, 'not_utf8', 'The body is not valid UTF-8.');
  const text = bytes.toString('utf8');
  const value = parse(text);
  const faults = scan(text);
  // A key that is written with an escape is one that V8 may mistake for another; not before the depth is known.
  if (faults.length === 0) return text.includes('\\') ? parseJson(text) : value;
  const [first] = faults;
  throw new Problem(
    422,
    first?.code ?? 'bad_json',
    'The body is JSON that cannot be kept as it came.',
    faults.map(bare),
  );
};

const bare = ({ pointer, reason }: JsonFault): FieldFault => ({ pointer, reason });

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    // V8's message quotes the body, which is content: only the place is taken from it.
    const found = /at position (\d+)/u.exec(error instanceof Error ? error.message : '');
    const position = found === null ? text.length : Number(found[1]);
    const before = text.slice(0, position).split('\n');
    const line = before.length;
    const column = (before.at(-1)?.length ?? 0) + 1;
    const reason = `not JSON at line ${line}, column ${column} (position ${position})`;
    throw new Problem(400, 'not_json', `The body is ${reason}.`, [{ pointer: '', reason }]);
  }
};

interface JsonFault extends FieldFault {
  readonly code: 'duplicate_key' | 'too_deep' | 'inexact_number';
}

interface Frame {
  /** Keys seen in this object; null = an array. */
  readonly keys: Set<string> | null;
  key: string;
  index: number;
  expectsKey: boolean;
}

// jsonc-parser's SyntaxKind is a const enum, which isolated modules cannot read.
const open = { brace: 1, bracket: 3 } as const;
const close = { brace: 2, bracket: 4 } as const;
const [comma, text_, number_, end] = [5, 10, 11, 17] as const;

/** What `JSON.parse` hides: keys it dropped, digits it rounded, levels it does not count. The text is known to be JSON. */
const scan = (text: string): readonly JsonFault[] => {
  const scanner = jsonc.createScanner(text, true);
  const frames: Frame[] = [];
  const faults: JsonFault[] = [];
  for (;;) {
    const token = scanner.scan() as number;
    if (token === end || faults.length >= maxFaults) return faults;
    const frame = frames.at(-1);
    if (token === open.brace || token === open.bracket) {
      frames.push({
        keys: token === open.brace ? new Set() : null,
        key: '',
        index: 0,
        expectsKey: token === open.brace,
      });
      if (frames.length > maxDepth) {
        const reason = `nested deeper than ${maxDepth}`;
        return [...faults, { code: 'too_deep', pointer: pointerTo(frames.slice(0, -1)), reason }];
      }
    } else if (token === close.brace || token === close.bracket) {
      frames.pop();
    } else if (token === comma && frame !== undefined) {
      frame.index += 1;
      frame.expectsKey = frame.keys !== null;
    } else if (token === text_ && frame?.expectsKey === true) {
      frame.key = scanner.getTokenValue();
      frame.expectsKey = false;
      if (frame.keys?.has(frame.key) === true) {
        faults.push({
          code: 'duplicate_key',
          pointer: pointerTo(frames),
          reason: 'this key stands here more than once',
        });
      }
      frame.keys?.add(frame.key);
    } else if (token === number_ && !isExact(scanner.getTokenValue())) {
      faults.push({
        code: 'inexact_number',
        pointer: pointerTo(frames),
        reason: 'a double cannot hold this number exactly; send it as a string',
      });
    }
  }
};

const pointerTo = (frames: readonly Frame[]): string =>
  frames.map((frame) => `/${frame.keys === null ? String(frame.index) : escapePointer(frame.key)}`).join('');

/** True when the literal's digits survive a double: what is printed again is the same number. */
const isExact = (literal: string): boolean => {
  // Fifteen significant digits always survive, and most numbers are short.
  if (literal.length <= 15 && !/[eE]/u.test(literal)) return true;
  const number = Number(literal);
  return Number.isFinite(number) && decimalOf(literal) === decimalOf(String(number));
};

/** A decimal literal as significant digits and exponent, so that 1.0, 1 and 10e-1 are the same text. */
const decimalOf = (literal: string): string => {
  const parts = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/u.exec(literal);
  if (parts === null) return literal;
  const fraction = parts[2] ?? '';
  const digits = `${parts[1] ?? ''}${fraction}`.replace(/^0+/u, '');
  const significant = digits.replace(/0+$/u, '');
  if (significant === '') return '0';
  const exponent = Number(parts[3] ?? '0') - fraction.length + (digits.length - significant.length);
  return `${significant}e${exponent}`;
};
