import { describe, expect, it } from '@jest/globals';
import { Cursors } from './cursor.js';

const cursors = new Cursors(Buffer.alloc(32, 7));

describe('a cursor', () => {
  it('gives back its position to the filter it was made for, on every replica', () => {
    const cursor = cursors.encode('invocations of acme', ['17', null, 3, true]);
    expect(new Cursors(Buffer.alloc(32, 7)).decode('invocations of acme', cursor)).toEqual(['17', null, 3, true]);
  });

  it('is refused with 400 when any one of its characters is another', () => {
    const cursor = cursors.encode('f', ['12345', 'ä']);
    for (let place = 0; place < cursor.length; place += 1) {
      for (const other of ['A', 'B', '-', '_', '9', '=', ' ', '%']) {
        if (cursor[place] === other) continue;
        const changed = `${cursor.slice(0, place)}${other}${cursor.slice(place + 1)}`;
        expect(() => cursors.decode('f', changed)).toThrow(
          expect.objectContaining({ status: 400, code: 'bad_cursor' }),
        );
      }
    }
  });

  it.each(['', 'x', 'AAAAAAAAAAAAAAAAAAAAAA', 'null', '../../etc'])('is refused when nobody made it: %j', (text) => {
    expect(() => cursors.decode('f', text)).toThrow(expect.objectContaining({ status: 400 }));
  });

  it('is refused for another filter and under another master key', () => {
    const cursor = cursors.encode('f', ['1']);
    expect(() => cursors.decode('g', cursor)).toThrow(expect.objectContaining({ status: 400 }));
    expect(() => new Cursors(Buffer.alloc(32, 8)).decode('f', cursor)).toThrow(
      expect.objectContaining({ status: 400 }),
    );
  });

  it('does not let filter and position run into each other', () => {
    expect(cursors.encode('ab', ['c'])).not.toBe(cursors.encode('a', ['bc']));
  });
});
