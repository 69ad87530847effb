import { closest } from 'fastest-levenshtein';
import type { LoadReport } from '../dialect.js';
import { catalogue } from './catalogue.js';

/**
 * Reads the guest program's report after a source was evaluated (MW-2): which hooks are registered, and the load
 * warnings `unknown_hook` (detail: the name, and the nearest known one) and `handler_not_function` (detail: the hook).
 * Total: what does not fit registers nothing.
 */
export const readLoadReport = (report: string): LoadReport => {
  const said = parsed(report);
  const registered = new Set(namesIn(said, 'hooks'));
  return {
    hooks: [...catalogue.keys()].filter((name) => registered.has(name)),
    gated: [],
    warnings: [
      ...namesIn(said, 'unknown').map((name) => ({
        code: 'unknown_hook',
        detail: `${name}: nearest is ${nearest(name)}`,
      })),
      ...namesIn(said, 'notFunctions').map((name) => ({ code: 'handler_not_function', detail: name })),
    ],
    registrations: {},
  };
};

const nearest = (name: string): string => closest(name, [...catalogue.keys()]);

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

const namesIn = (said: unknown, list: 'hooks' | 'notFunctions' | 'unknown'): readonly string[] => {
  const names = typeof said === 'object' && said !== null ? (said as { readonly [key: string]: unknown })[list] : null;
  return Array.isArray(names) ? names.filter((name): name is string => typeof name === 'string') : [];
};
