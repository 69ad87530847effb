import { MAX_ARGS, MAX_CALLS } from './child/bootstrap.js';
import type { Message } from './framing.js';
import { OUTCOME_CELLS } from './wire.js';
import type { ToParent } from './wire.js';

const isCount = (cell: unknown): cell is number => typeof cell === 'number' && Number.isSafeInteger(cell) && cell >= 0;
const isTime = (cell: unknown): cell is number => typeof cell === 'number' && Number.isFinite(cell) && cell >= 0;
const isText = (cell: unknown): cell is string => typeof cell === 'string';
const isTextOrNull = (cell: unknown): boolean => cell === null || typeof cell === 'string';
const isCountOrNull = (cell: unknown): boolean => cell === null || isCount(cell);

/** Longest name of a member and longest text about a fault, UTF-16 code units. */
const MAX_NAME = 200;
const MAX_FAULT = 1000;

/**
 * Whether a message is one that our program would send. A child in which plugin code got out of V8 can send anything;
 * what it says about its own account is all that it may get through with.
 */
export const isFromChild = (message: Message): message is ToParent => {
  switch (message[0]) {
    case 'ready':
      return message.length === 2 && isCount(message[1]);
    case 'outcomes':
      return isCount(message[1]) && typeof message[2] === 'boolean' && areOutcomes(message);
    case 'restarted':
      return message.length === 4 && isCount(message[1]) && isCount(message[2]) && isCount(message[3]);
    case 'call':
      return message.length === 9 && isCall(message);
    case 'loaded':
      return message.length === 4 && isCount(message[1]) && isText(message[2]) && isTime(message[3]);
    case 'load-failed':
      return message.length === 6 && isLoadFault(message);
    default:
      return false;
  }
};

const areOutcomes = (message: Message): boolean => {
  if ((message.length - 3) % OUTCOME_CELLS !== 0) return false;
  for (let at = 3; at < message.length; at += OUTCOME_CELLS) {
    const kind = message[at + 1];
    if (kind !== '=' && kind !== '!' && kind !== '?' && kind !== '-') return false;
    if (!isCount(message[at]) || !isText(message[at + 2]) || !isTime(message[at + 3])) return false;
    const detail = message[at + 4];
    if (!isText(detail) || detail.length > MAX_NAME) return false;
  }
  return true;
};

const isCall = ([, chain, handler, start, number, answered, member, args, misfit]: Message): boolean => {
  if (!isCount(chain) || !isCount(handler) || !isCount(start) || !isCount(number) || number >= MAX_CALLS) return false;
  if (typeof answered !== 'boolean' || !isText(member) || member.length > MAX_NAME) return false;
  if (!isTextOrNull(args) || !isTextOrNull(misfit)) return false;
  return (
    (args === null || (args as string).length <= MAX_ARGS) &&
    (misfit === null || (misfit as string).length <= MAX_FAULT)
  );
};

const isLoadFault = ([, load, cause, text, line, column]: Message): boolean =>
  isCount(load) &&
  isText(cause) &&
  isText(text) &&
  text.length <= MAX_FAULT &&
  isCountOrNull(line) &&
  isCountOrNull(column);
