import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { readFrame } from './frames.js';

const read = (text: string) => readFrame(Buffer.from(text));

describe('a frame', () => {
  it.each([
    ['not_json', ['', '{', 'undefined', '{"a":1,"a":2}', '1e999', '[1234567890123456789012]', 'null']],
    [
      'bad_frame',
      ['[]', '"hello"', '5', '{"type":"result"}', '{"type":"result","callId":5}', '{"type":"error","callId":"x"}'],
    ],
    ['unknown_type', ['{}', '{"type":"call"}', '{"type":null}', '{"__proto__":{"type":"hello"}}']],
  ])('that is none is told what it is: %s', (code, texts) => {
    expect(texts.map(read)).toEqual(texts.map(() => expect.objectContaining({ kind: 'fault', code })));
  });

  it.each([
    '{"type":"hello"}',
    '{"type":"hello","runtimeId":""}',
    '{"type":"hello","runtimeId":"r","protocol":2}',
    '{"type":"hello","runtimeId":"r","members":"ssh"}',
    '{"type":"hello","runtimeId":"r","sessionIds":[1]}',
    '{"type":"hello","runtimeId":"r","more":true}',
  ])('of a hello that does not fit is refused: %s', (text) => {
    expect(read(text)).toMatchObject({ kind: 'fault', code: 'bad_frame' });
  });

  it('that cannot be kept names the call that it was to answer', () => {
    expect(read('{"type":"result","callId":"c","value":{"a":1,"a":2}}')).toMatchObject({ kind: 'fault', callId: 'c' });
    expect(read('{"type":"error","callId":"c","message":5}')).toMatchObject({ kind: 'fault', callId: 'c' });
  });

  it('keeps every value as it came', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string({ unit: 'binary', minLength: 1, maxLength: 50 }), (value, callId) => {
        const text = JSON.stringify({ type: 'result', callId, value });
        expect(read(text)).toEqual({
          kind: 'frame',
          frame: { type: 'result', callId, value: JSON.parse(JSON.stringify(value)) as unknown },
        });
      }),
    );
  });

  it('never throws, whatever comes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(['frame', 'fault']).toContain(readFrame(Buffer.from(bytes)).kind);
      }),
    );
  });

  it('cuts a long error without leaving half a character', () => {
    const message = `${'x'.repeat(1_999)}\u{1F40C}`;
    const frame = read(JSON.stringify({ type: 'error', callId: 'c', message }));
    expect(frame).toMatchObject({ kind: 'frame', frame: { message: 'x'.repeat(1_999) } });
  });
});
