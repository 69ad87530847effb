import type { CheckCall, HostView } from '../dialect.js';
import { limits } from './catalogue.js';

/**
 * The host members of a middleware hook as they reach the platform (`GuestCall`). The argument list is JSON text of:
 *
 * | member | arguments |
 * |---|---|
 * | `log` | `[level, message]`, two strings; no answer |
 * | `session.conversation.read` | `[]` |
 * | `session.peer.send` | `[targetSessionId, text]` |
 * | `agents.list` | `[]` |
 * | `fetch` | `[url]` or `[url, options]` |
 * | `llm`, `decide` | whatever JSON the plugin gave, one item per argument |
 * | `ssh.command` | `[command, { "timeoutSeconds": n }]`, 0 < n <= 90, always there (MW-89) |
 *
 * A call that the guest program found wanting comes as the object `{ "refused": code }` instead: what was wrong with
 * it (a number for an id, NaN, a BigInt) would not survive JSON. The codes are those of `refusals`.
 */
export const memberNames = [
  'log',
  'session.conversation.read',
  'session.peer.send',
  'agents.list',
  'fetch',
  'llm',
  'decide',
  'ssh.command',
] as const;

/** The permission that a member needs (MW-72); null: none. */
const permissionOf: { readonly [M in (typeof memberNames)[number]]: string | null } = {
  log: null,
  'session.conversation.read': null,
  'session.peer.send': null,
  'agents.list': 'host:agents:list',
  fetch: 'host:fetch',
  llm: 'host:llm',
  decide: 'host:decide',
  'ssh.command': 'host:ssh:command',
};

/** MW-71, MW-72, MW-87, MW-101: what is granted, where the hook has it and nothing is withheld. */
export const grants = (view: HostView, permissions: readonly string[], member: string): boolean => {
  if (!Object.hasOwn(permissionOf, member)) return false;
  if (member.startsWith('session.') && view.session.state !== 'granted') return false;
  if (member === 'ssh.command' && view.sshHostId === null) return false;
  const permission = permissionOf[member as keyof typeof permissionOf];
  return permission === null || permissions.includes(permission);
};

/** Why a call is refused. The code is also the message that the plugin sees. */
export const refusals = [
  /** MW-11. */
  'id_must_be_string',
  'text_must_be_string',
  'url_must_be_string',
  /** An argument that JSON cannot say, or an argument list that does not fit the member. */
  'bad_argument',
  /** MW-87: empty, or no string. */
  'bad_command',
  /** MW-89. */
  'bad_timeout',
  /** MW-88. */
  'ssh_call_limit',
  'unknown_member',
] as const;

export type Refusal = (typeof refusals)[number];

/**
 * Judges a call again on this side: a realm that was taken over can ask for anything. `accepted` is the number of
 * calls of this member that this handler run already had accepted; without it the count is the guest program's word.
 */
export const checkCall: CheckCall = (member, args, misfit, accepted = 0) => {
  const code = refusalOf(member, args, misfit, accepted);
  return code === null ? null : { code, message: code };
};

const refusalOf = (member: string, args: string | null, misfit: string | null, accepted: number): Refusal | null => {
  if (!(memberNames as readonly string[]).includes(member)) return 'unknown_member';
  if (args === null || misfit !== null) return 'bad_argument';
  const list = parsed(args);
  if (!Array.isArray(list)) return refusedInside(list);
  const fault = faultOf(member, list);
  if (fault !== null) return fault;
  return member === 'ssh.command' && accepted >= limits.ssh.callsPerRun ? 'ssh_call_limit' : null;
};

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

const refusedInside = (value: unknown): Refusal => {
  const code = typeof value === 'object' && value !== null && 'refused' in value ? value.refused : null;
  return refusals.find((known) => known === code) ?? 'bad_argument';
};

const faultOf = (member: string, list: readonly unknown[]): Refusal | null => {
  const [first, second] = list;
  switch (member) {
    case 'log':
      return typeof first === 'string' && typeof second === 'string' && list.length === 2 ? null : 'bad_argument';
    case 'session.conversation.read':
    case 'agents.list':
      return list.length === 0 ? null : 'bad_argument';
    case 'session.peer.send':
      if (list.length !== 2) return 'bad_argument';
      if (!isId(first)) return 'id_must_be_string';
      return typeof second === 'string' ? null : 'text_must_be_string';
    case 'fetch':
      if (list.length > 2) return 'bad_argument';
      return typeof first === 'string' ? null : 'url_must_be_string';
    case 'ssh.command':
      return sshFault(first, second, list.length);
    default:
      return null;
  }
};

const sshFault = (command: unknown, options: unknown, length: number): Refusal | null => {
  if (length !== 2) return 'bad_argument';
  if (typeof command !== 'string' || command === '') return 'bad_command';
  const seconds =
    typeof options === 'object' && options !== null && 'timeoutSeconds' in options ? options.timeoutSeconds : null;
  return typeof seconds === 'number' && seconds > 0 && seconds <= limits.ssh.maxSeconds ? null : 'bad_timeout';
};

/** Any string of 1-200 characters without control characters or lone surrogates (api.md, ids). */
export const isId = (value: unknown): value is string =>
  typeof value === 'string' &&
  value !== '' &&
  value.length <= 400 &&
  // eslint-disable-next-line no-control-regex -- control characters are what it is about
  !/[\u0000-\u001f\u007f-\u009f]/u.test(value) &&
  value.isWellFormed() &&
  charactersIn(value) <= 200;

const charactersIn = (text: string): number => text.length - (text.match(/[\ud800-\udbff]/g)?.length ?? 0);
