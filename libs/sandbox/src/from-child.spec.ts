import { describe, expect, it } from '@jest/globals';
import type { Message } from './framing.js';
import { isFromChild } from './from-child.js';

const good: readonly Message[] = [
  ['ready', 4711],
  ['outcomes', 1, true],
  ['outcomes', 1, false, 0, '=', '~{}\n', 0.5, '', 1, '!', '', 300, 'timed_out sync', 2, '-', '', 0, ''],
  ['restarted', 1, 0, 1],
  ['call', 1, 0, 0, 0, true, 'ssh.command', '["ls"]', null],
  ['call', 1, 0, 0, 999, false, 'log', null, 'not JSON'],
  ['loaded', 1, '{}', 3.25],
  ['load-failed', 1, 'syntax', 'Unexpected token', 2, 7],
  ['load-failed', 1, 'timed_out', 'Too long', null, null],
];

describe('a message from a child', () => {
  it.each(good.map((message) => [message] as const))('is one that our program sends: %j', (message) => {
    expect(isFromChild(message)).toBe(true);
  });

  it('has no cell too few, too many, or of another kind', () => {
    for (const message of good) {
      for (let at = 0; at < message.length; at++) {
        const wrong = message.map((cell, index) => (index === at ? [1] : cell));
        expect([message[0], at, isFromChild(wrong)]).toEqual([message[0], at, false]);
      }
      expect(isFromChild([...message, 1])).toBe(false);
      expect(isFromChild(message.slice(0, -1))).toBe(false);
    }
  });

  it.each([
    [['call', 1, 0, 0, 1000, true, 'ask', '[]', null]],
    [['call', 1, 0, 0, 0, true, 'x'.repeat(201), '[]', null]],
    [['call', 1, 0, 0, 0, true, 'ask', `"${'x'.repeat(256 * 1024)}"`, null]],
    [['call', 1, 0.5, 0, 0, true, 'ask', '[]', null]],
    [['outcomes', 1, true, 0, '=', 'raw', Number.NaN, '']],
    [['outcomes', -1, true]],
    [['ready', -1]],
    [['unknown']],
    [[]],
  ] as [Message][])('stays within its bounds: %.60j', (message) => {
    expect(isFromChild(message)).toBe(false);
  });
});
