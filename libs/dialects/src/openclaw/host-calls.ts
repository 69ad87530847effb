import type { CheckCall } from '../dialect.js';

/**
 * Members that an OpenClaw handler asks for: `log` `[level, text]` · `timer` `[ms]`, served by the platform and not
 * recorded · `cron.*` and `injections.enqueue`, each a list of JSON.
 */
export const isMember = (member: string): boolean =>
  member === 'log' || member === 'timer' || member === 'injections.enqueue' || cronMembers.includes(member);

const cronMembers: readonly string[] = ['list', 'get', 'add', 'update', 'remove', 'run'].map((name) => `cron.${name}`);

/** Judges a call before it is recorded: null when it may be made. */
export const checkCall: CheckCall = (member, args, misfit) => {
  if (!isMember(member)) return refusal('unknown_member');
  const list = args === null || misfit !== null ? null : parsed(args);
  if (!Array.isArray(list)) return refusal('bad_argument');
  if (member === 'log' && !(list.length === 2 && list.every((item) => typeof item === 'string')))
    return refusal('bad_argument');
  return null;
};

const refusal = (code: string): { readonly code: string; readonly message: string } => ({ code, message: code });

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};
