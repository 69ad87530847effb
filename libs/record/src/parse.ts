import jsonc from 'jsonc-parser';
import type { Json } from './json.js';

/**
 * `JSON.parse` that gives the keys which stand in the text. V8 13 (Node 24) compares a key's source text, not the key,
 * with the key it expects from objects that it has seen: after an object with the key `\\` (one backslash),
 * `{"b":{"\u0000":2}}` may come out as `{"b":{"\\":2}}`, in another text and another request too. Only keys that are
 * written with an escape are mistaken; a text that has one is read by a second reader, once `JSON.parse` has found it
 * to be JSON. Throws `SyntaxError` as `JSON.parse` does.
 */
export const parseJson = (text: string): Json => {
  const value = JSON.parse(text) as Json;
  return hasEscapedKey(text) ? reread(text) : value;
};

/** The text is JSON. Goes from quote to quote and from backslash to backslash, never from character to character. */
const hasEscapedKey = (text: string): boolean => {
  let backslash = text.indexOf('\\');
  for (let start = text.indexOf('"'); start !== -1 && backslash !== -1;) {
    let end = text.indexOf('"', start + 1);
    let escaped = false;
    while (backslash !== -1 && backslash < end) {
      escaped = true;
      const after = backslash + 2;
      if (end < after) end = text.indexOf('"', after);
      backslash = text.indexOf('\\', after);
    }
    if (escaped && isKey(text, end + 1)) return true;
    start = text.indexOf('"', end + 1);
  }
  return false;
};

const isKey = (text: string, afterString: number): boolean => {
  colonNext.lastIndex = afterString;
  return colonNext.test(text);
};

const colonNext = /[ \t\n\r]*:/y;

const reread = (text: string): Json => {
  let root: Json = null;
  const open: { readonly container: Json[] | { [key: string]: Json }; key: string }[] = [];
  const put = (value: Json): void => {
    const frame = open.at(-1);
    if (frame === undefined) root = value;
    else if (Array.isArray(frame.container)) frame.container.push(value);
    // Assigning `__proto__` would set the prototype.
    else Object.defineProperty(frame.container, frame.key, { ...plainMember, value });
  };
  const begin = (container: Json[] | { [key: string]: Json }): void => {
    put(container);
    open.push({ container, key: '' });
  };
  jsonc.visit(text, {
    onObjectBegin: () => begin({}),
    onArrayBegin: () => begin([]),
    onObjectEnd: () => open.pop(),
    onArrayEnd: () => open.pop(),
    onObjectProperty: (key) => {
      const frame = open.at(-1);
      if (frame !== undefined) frame.key = key;
    },
    onLiteralValue: (value: Json) => put(value),
  });
  return root;
};

const plainMember = { configurable: true, enumerable: true, writable: true };
