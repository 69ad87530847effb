import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { BlockReader } from './event-source.js';

const stream = [
  'retry: 1000\n: the log from here on\n\n',
  'id: 7\ndata: {"a":1}\n\n',
  ': quiet\nid: 9\n\n',
  'id: 10\r\ndata: one\r\ndata: two\r\n\r\n',
  'id:11\rdata:x\r\r',
].join('');

const blocks = [
  { id: '7', data: '{"a":1}' },
  { id: '9', data: null },
  { id: '10', data: 'one\ntwo' },
  { id: '11', data: 'x' },
];

describe('a stream of events', () => {
  it('gives the same blocks in whatever pieces it comes', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(stream.length), { maxLength: 12 }), (cuts) => {
        const reader = new BlockReader();
        const places = [0, ...[...cuts].sort((a, b) => a - b), stream.length];
        const pieces = places.slice(1).map((end, index) => stream.slice(places[index], end));
        expect(pieces.flatMap((piece) => reader.read(piece))).toEqual(blocks);
      }),
    );
  });

  it('gives nothing of a block that was not finished', () => {
    expect(new BlockReader().read('id: 1\ndata: {"cut":\n')).toEqual([]);
  });
});
