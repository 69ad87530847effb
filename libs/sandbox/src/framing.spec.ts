import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Incoming, Outgoing } from './framing.js';
import type { Cell, Message } from './framing.js';

const wholeUnicode = fc.string({
  unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
  maxLength: 50,
});
const long = fc.tuple(wholeUnicode, fc.integer({ min: 1, max: 400 })).map(([text, times]) => text.repeat(times));
const cell: fc.Arbitrary<Cell> = fc.oneof(
  wholeUnicode,
  long,
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.array(fc.oneof(wholeUnicode, fc.integer()), { maxLength: 3 }),
);
const message: fc.Arbitrary<Message> = fc.array(cell, { minLength: 1, maxLength: 6 });

/** The bytes in chunks that end anywhere, each in memory that is overwritten afterwards. */
const receive = (bytes: Buffer, cuts: readonly number[]): Message[] => {
  const received: Message[] = [];
  const incoming = new Incoming((each) => received.push(each));
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  let from = 0;
  for (const end of ends) {
    const chunk = Buffer.from(bytes.subarray(from, end));
    incoming.push(chunk);
    chunk.fill(0);
    from = end;
  }
  return received;
};

const bytesOf = (taken: string | Buffer): Buffer => (typeof taken === 'string' ? Buffer.from(taken) : taken);

describe('framing', () => {
  it('gives back every message as it was, whatever is in it and however the bytes arrive', () => {
    fc.assert(
      fc.property(
        fc.array(message, { minLength: 1, maxLength: 5 }),
        fc.array(fc.nat(), { maxLength: 8 }),
        (messages, cuts) => {
          const outgoing = new Outgoing();
          for (const each of messages) outgoing.push(each);
          expect(receive(bytesOf(outgoing.take()), cuts)).toEqual(messages);
          expect(outgoing.isEmpty).toBe(true);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('takes a message byte by byte', () => {
    const outgoing = new Outgoing();
    const sent: Message = ['word', 'ü\ud800'.repeat(1000), 1, '漢'.repeat(2000), null];
    outgoing.push(sent);
    const bytes = bytesOf(outgoing.take());
    expect(
      receive(
        bytes,
        Array.from({ length: bytes.length }, (_, at) => at),
      ),
    ).toEqual([sent]);
  });

  it('refuses what no peer of ours would send', () => {
    const incoming = new Incoming(() => undefined);
    expect(() => incoming.push(Buffer.from('not ours\n'))).toThrow();
    expect(() => incoming.push(Buffer.from(`[[[0,1000000000000,"utf8"]],[null]]\n`))).toThrow(RangeError);
    const endless = new Incoming(() => undefined);
    const chunk = Buffer.alloc(16 * 1024 * 1024, 'x');
    expect(() => {
      for (let i = 0; i < 6; i++) endless.push(chunk);
    }).toThrow(RangeError);
  });
});
