import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { SseReader, type SseBlock } from './sse.js';

const text = [
  'retry: 1000\n: the log from here on\n\n',
  'id: 5\ndata: {"a":1}\n\n',
  ': quiet\nid: 7\n\n',
  'event: purged\r\nid: 9\r\ndata: {"purged":\r\ndata: {}}\r\n\r\n',
  'data:no space\rid\r\r',
  ': the end\n\n',
].join('');

const blocks: readonly SseBlock[] = [
  { event: 'message', id: null, data: null, retryMs: 1000 },
  { event: 'message', id: '5', data: '{"a":1}', retryMs: null },
  { event: 'message', id: '7', data: null, retryMs: null },
  { event: 'purged', id: '9', data: '{"purged":\n{}}', retryMs: null },
  { event: 'message', id: '', data: 'no space', retryMs: null },
  { event: 'message', id: null, data: null, retryMs: null },
];

const readIn = (pieces: readonly string[]): readonly SseBlock[] => {
  const reader = new SseReader();
  return pieces.flatMap((piece) => reader.read(piece));
};

describe('a reader of server-sent events', () => {
  it('gives the same blocks wherever the text is cut into pieces', () => {
    expect(readIn([text])).toEqual(blocks);
    for (let cut = 0; cut <= text.length; cut += 1) {
      expect(readIn([text.slice(0, cut), text.slice(cut)])).toEqual(blocks);
    }
    const cuts = fc.array(fc.nat(text.length), { maxLength: 20 }).map((places) => [...places].sort((a, b) => a - b));
    fc.assert(
      fc.property(cuts, (places) => {
        const ends = [...places, text.length];
        const pieces = ends.map((end, index) => text.slice(ends[index - 1] ?? 0, end));
        expect(readIn(pieces)).toEqual(blocks);
      }),
    );
  });

  it('never gives a block that was cut off', () => {
    const block = 'id: 5\ndata: {"a":1}\n\n';
    for (let cut = 0; cut < block.length; cut += 1) expect(readIn([block.slice(0, cut)])).toEqual([]);
  });
});
