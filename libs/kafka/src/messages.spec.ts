import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { canonicalJson } from '#record';
import {
  blobTombstones,
  dataKeyTombstone,
  decodeBlobPart,
  decodeCheckpoint,
  decodeEvent,
  decodeKey,
  encodeBlob,
  encodeCheckpoint,
  encodeDataKey,
  encodeEvent,
  encodeLogKey,
  eventSource,
  messageSize,
  withBytes,
  type EventRecord,
} from './messages.js';
import type { ConsumedMessage, OutgoingMessage } from './port.js';

const source = eventSource('0190a000-0000-7000-8000-00000000c0de');

const recordOf = (fields: { readonly [name: string]: string | number } = {}): EventRecord => {
  const event = {
    id: '0190a000-0000-7000-8000-000000000001',
    type: 'invocation.opened',
    schema: 1,
    account: 'acme',
    stream: 'invocation/i-1',
    streamVersion: 1,
    recordedAt: '2026-11-30T10:00:00.000Z',
    occurredAt: '2026-11-30T09:59:59.125Z',
    sessionId: 's-1',
    data: { hook: 'systemPrompt' },
    ...fields,
  };
  return {
    globalPosition: 42n,
    position: 7n,
    id: event.id,
    type: event.type,
    account: event.account,
    stream: event.stream,
    sessionId: event.sessionId,
    occurredAt: new Date(event.occurredAt),
    bytes: Buffer.from(canonicalJson(event)),
  };
};

/** As a reader gets what was sent. */
const received = ({ key, value, headers }: OutgoingMessage): ConsumedMessage => ({
  topic: 't',
  partition: 0,
  offset: 0n,
  timestamp: 0,
  key,
  value,
  headers,
});

/** A message as the golden file shows it. */
const shown = ({ key, value, headers }: OutgoingMessage): object => ({
  key,
  headers,
  value: value === null ? null : Buffer.from(value).toString('utf8'),
});

describe('messages', () => {
  it('are what they were in the first release: consumers were written for them', () => {
    const record = recordOf();
    const traced = recordOf({ correlationId: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' });
    const bytes = Buffer.from('sealed bytes');
    const hash = createHash('sha256').update(bytes).digest('hex');
    const key = {
      account: 'acme',
      master: 'm-1',
      createdAt: '2026-11-30T10:00:00.000Z',
      wrapped: Buffer.from('wrapped'),
    };
    const messages = {
      event: encodeEvent(record, { source }),
      traced: encodeEvent(traced, { source }),
      relayed: encodeEvent({ ...record, sessionId: null }, { source, epoch: 3n }),
      replayed: encodeEvent(record, { source, replay: 'r-1' }),
      large: encodeEvent(record, { source, maxBytes: 100 }),
      blob: encodeBlob({ hash, keyId: 'k-1' }, bytes, 8),
      blobTombstones: blobTombstones(hash, 2),
      dataKey: encodeDataKey({ id: 'k-1', scope: 'session:s-1', ...key }),
      dataKeyTombstone: dataKeyTombstone('k-1'),
      logKey: encodeLogKey({
        id: 'l-1',
        name: 'hookledger/1',
        publicKey: Buffer.from('public'),
        wrapped: Buffer.from('wrapped'),
        validFrom: '2026-11-30T10:00:00.000Z',
        validUntil: null,
      }),
      checkpoint: encodeCheckpoint({
        account: 'acme',
        size: 8n,
        root: Buffer.alloc(32, 1),
        note: 'origin\n8\nroot\n\n— name sig\n',
        signedAt: '2026-11-30T10:00:01.000Z',
      }),
    };
    const golden = JSON.parse(
      readFileSync(join(import.meta.dirname, '..', 'golden', 'messages.json'), 'utf8'),
    ) as object;
    const told = Object.entries(messages).map(([name, message]) => [
      name,
      Array.isArray(message) ? message.map(shown) : shown(message as OutgoingMessage),
    ]);
    expect(Object.fromEntries(told)).toEqual(golden);
  });

  it('give back the event with its bytes and both positions', () => {
    const record = recordOf();
    const read = decodeEvent(received(encodeEvent(record, { source })));
    expect(read).toMatchObject({
      kind: 'event',
      replay: null,
      stored: { globalPosition: 42n, position: 7n, event: { id: record.id, account: 'acme' }, bytes: record.bytes },
    });
  });

  it.each(['ce_id', 'ce_type', 'ce_account', 'ce_subject'])(
    'are foreign when %s is not what the bytes say',
    (header) => {
      const message = received(encodeEvent(recordOf(), { source }));
      const changed = { ...message, headers: { ...message.headers, [header]: 'other' } };
      expect(decodeEvent(changed)).toMatchObject({ kind: 'foreign', why: `${header} is not what the value says` });
    },
  );

  it('are foreign with another key, without a value, a position, or the header of a CloudEvent', () => {
    const message = received(encodeEvent(recordOf(), { source }));
    const without = (name: string): ConsumedMessage => {
      const { [name]: _, ...headers } = message.headers;
      return { ...message, headers };
    };
    const others = [
      { ...message, key: '["acme","s-2"]' },
      { ...message, value: null },
      { ...message, value: Buffer.from('no JSON') },
      { ...message, value: Buffer.from('null') },
      without('ce_position'),
      without('ce_globalposition'),
      without('ce_specversion'),
    ];
    expect(others.map((other) => decodeEvent(other).kind)).toEqual(others.map(() => 'foreign'));
  });

  it('never throw at a reader, whatever is in a topic', () => {
    const text = fc.string();
    const anything = fc.record({
      key: fc.option(text),
      value: fc.option(
        fc.oneof(
          fc.uint8Array(),
          fc.json().map((json) => Buffer.from(json)),
        ),
      ),
      headers: fc.dictionary(
        fc.constantFrom('ce_specversion', 'ce_dataref', 'part', 'parts', 'size', 'ce_position'),
        text,
      ),
    });
    fc.assert(
      fc.property(anything, (part) => {
        const message = { topic: 't', partition: 0, offset: 0n, timestamp: 0, ...part };
        expect(decodeEvent(message).kind).not.toBe('event');
        decodeBlobPart(message);
        expect(decodeKey(message).kind).toBe('foreign');
        expect(decodeCheckpoint(message).kind).toBe('foreign');
      }),
    );
  });

  it('name the bytes of an event that its topic does not take, and take no others for it', () => {
    const record = recordOf();
    const sent = encodeEvent(record, { source, maxBytes: 100 });
    const read = decodeEvent(received(sent));
    if (read.kind !== 'reference') throw new Error(`it is read as ${read.kind}`);
    expect(sent.value).toHaveLength(0);
    expect(withBytes(read, record.bytes)).toMatchObject({ kind: 'event', stored: { bytes: record.bytes } });
    expect(withBytes(read, Buffer.from('others'))).toMatchObject({ kind: 'foreign' });
  });

  it('take no trace context from what an agent wrote', () => {
    const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const fake = { ...recordOf(), bytes: Buffer.from(`{"account":"a","data":{"correlationId":"${trace}"}}`) };
    expect(encodeEvent(fake, { source }).headers.traceparent).toBeUndefined();
  });

  it('have no session mistaken for another account, stream or session', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), fc.string(), (a, s, b, t) => {
        const keyOf = (account: string, sessionId: string): string =>
          encodeEvent({ ...recordOf(), account, sessionId }, { source }).key;
        expect(keyOf(a, s) === keyOf(b, t)).toBe(a === b && s === t);
      }),
    );
  });

  it('put any blob together again from its parts', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), fc.integer({ min: 1, max: 40 }), (bytes, partBytes) => {
        const hash = createHash('sha256').update(bytes).digest('hex');
        const parts = encodeBlob({ hash, keyId: null }, bytes, partBytes);
        const read = parts.map((part) => decodeBlobPart(received(part)));
        expect(read.every((part) => part.kind === 'part' && part.parts === parts.length)).toBe(true);
        expect(Buffer.concat(read.map((part) => (part.kind === 'part' ? part.bytes : Buffer.alloc(0))))).toEqual(
          Buffer.from(bytes),
        );
        expect(new Set(parts.map(({ key }) => key)).size).toBe(parts.length);
        expect(blobTombstones(hash, parts.length).map(({ key }) => key)).toEqual(parts.map(({ key }) => key));
      }),
    );
  });

  it('are never larger than they say', () => {
    const message = encodeEvent(recordOf(), { source });
    const bare = message.value?.length ?? 0;
    const names = Object.entries(message.headers).reduce((sum, [name, value]) => sum + name.length + value.length, 0);
    expect(messageSize(message)).toBeGreaterThan(bare + names + message.key.length);
  });
});
