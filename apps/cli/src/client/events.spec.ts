import { describe, expect, it } from '@jest/globals';
import { Failure, Misuse } from '../words.js';
import { readPage, readReading } from './events.js';

const env = { HOOKLEDGER_KEY: 'k' };
const read = (...args: string[]) => readReading(args, env).reading;

describe('the words of events', () => {
  it('ask for everything there is when nothing is said', () => {
    expect(read()).toEqual({ follow: false, after: null, until: null, filter: {} });
  });

  it('filter by types and session, and open content', () => {
    const words = ['--follow', '--after', 'start', '--type', 'handler.*', '--type', 'invocation.closed', '--open'];
    expect(read(...words, '--session', 's')).toEqual({
      follow: true,
      after: 'start',
      until: null,
      filter: { type: 'handler.*,invocation.closed', sessionId: 's', content: 'open' },
    });
  });

  it.each([
    ['a position that is none', ['--after', 'x']],
    ['a position below zero', ['--after=-1']],
    ['an end to what has none', ['--follow', '--until', '5']],
    ['a word too many', ['invocation.closed']],
  ])('are refused with %s', (_what, args) => {
    expect(() => read(...args)).toThrow(Misuse);
  });
});

describe('a page of events', () => {
  it('gives the events as they were written', () => {
    const one = '{"position":"1","data":{"n":9007199254740993,"items":[{"x":"]}"}]}}';
    const other = '{"position":"2"}';
    expect(readPage(`{"items":[${one}, ${other}],"nextCursor":"c","completeUpTo":"9"}`)).toEqual({
      items: [one, other],
      nextCursor: 'c',
      completeUpTo: '9',
    });
  });

  it('may be the last one, of an empty log', () => {
    expect(readPage('{"items":[],"nextCursor":null,"completeUpTo":null}')).toEqual({
      items: [],
      nextCursor: null,
      completeUpTo: null,
    });
  });

  it.each(['', '<html>', '{}', '{"items":5}', '[]'])('is refused as %j', (text) => {
    expect(() => readPage(text)).toThrow(Failure);
  });
});
