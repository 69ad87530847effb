import { Parser } from '@asyncapi/parser';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { encodeBlob, encodeCheckpoint, encodeDataKey, encodeEvent, encodeLogKey, type OutgoingMessage } from '#kafka';
import type { RecordedEvent } from '#record';
import { eventTypes } from '#record';
import { asyncApi } from './asyncapi.js';

const document = asyncApi({ version: '1.2.3', prefix: 'ledger', accountTopics: ['acme'] });
const ajv = new Ajv2020({ strict: false, formats: { uuid: true, 'date-time': true } });

const golden = join(import.meta.dirname, '../../../../libs/record/golden');
const events = readdirSync(golden)
  .filter((name) => name.endsWith('.json'))
  .map((name) => ({ name: name.replace(/\.json$/u, ''), bytes: readFileSync(join(golden, name)) }));

const fits = (pointer: string, value: unknown): boolean => {
  return ajv.validate({ $ref: `#${pointer}`, components: document.components }, value);
};

const recordOf = (bytes: Uint8Array) => {
  const event = JSON.parse(Buffer.from(bytes).toString('utf8')) as RecordedEvent;
  return {
    globalPosition: 41n,
    position: 4n,
    id: event.id,
    type: event.type,
    account: event.account,
    stream: event.stream,
    sessionId: event.sessionId ?? null,
    occurredAt: new Date(event.occurredAt),
    bytes,
  };
};

describe('the AsyncAPI document', () => {
  it('is one, by the parser of AsyncAPI', async () => {
    const { diagnostics, document: parsed } = await new Parser().parse(JSON.stringify(document));
    const faults = diagnostics
      .filter(({ severity }) => !severity)
      .map(({ message, path }) => `${path.join('/')}: ${message}`);
    expect(faults).toEqual([]);
    expect(parsed?.version()).toBe('3.0.0');
    const topics = parsed
      ?.channels()
      .all()
      .map((channel) => channel.address());
    expect(topics).toEqual([
      'ledger.events',
      'ledger.events.acme',
      'ledger.blobs',
      'ledger.keys',
      'ledger.checkpoints',
    ]);
  }, 60_000);

  it('has a message for every event type', () => {
    const channels = document.channels as { events: { messages: object } };
    const types = Object.keys(channels.events.messages).map((name) => name.replace(/\.v\d+$/u, ''));
    expect(new Set(types)).toEqual(new Set(eventTypes));
  });

  it.each(events)('describes the message of $name as it is sent', ({ name, bytes }) => {
    const sent = encodeEvent(recordOf(bytes), { source: '/hookledger/x', epoch: 3n, replay: 'r' });
    expect(fits(`/components/schemas/${name}`, JSON.parse(Buffer.from(sent.value ?? []).toString('utf8')))).toBe(true);
    expect(fits('/components/messageTraits/cloudEvent/headers', sent.headers)).toBe(true);
    expect(fits(`/components/messages/${name}/headers`, sent.headers)).toBe(true);
    const trait = (document.components as { messageTraits: { cloudEvent: { headers: { properties: object } } } })
      .messageTraits;
    expect(Object.keys(trait.cloudEvent.headers.properties)).toEqual(expect.arrayContaining(Object.keys(sent.headers)));
  });

  it('describes keys, blobs and checkpoints as they are sent', () => {
    const time = '2026-11-30T10:00:00.000Z';
    const bytes = Buffer.alloc(32, 1);
    const sent: readonly (readonly [string, OutgoingMessage])[] = [
      ['DataKey', encodeDataKey({ id: 'k', account: 'a', scope: 's', wrapped: bytes, master: 'm', createdAt: time })],
      [
        'LogKey',
        encodeLogKey({ id: 'k', name: 'n', publicKey: bytes, wrapped: bytes, validFrom: time, validUntil: null }),
      ],
      ['Checkpoint', encodeCheckpoint({ account: 'a', size: 4n, root: bytes, note: 'n', signedAt: time })],
    ];
    for (const [name, { value }] of sent) {
      expect([
        name,
        fits(`/components/messages/${name}/payload`, JSON.parse(Buffer.from(value ?? []).toString('utf8'))),
      ]).toEqual([name, true]);
    }
    for (const part of encodeBlob({ hash: 'ab'.repeat(32), keyId: 'k' }, bytes, 10)) {
      expect(fits('/components/messages/BlobPart/headers', part.headers)).toBe(true);
    }
  });

  it('tells messages that are something else', () => {
    const [one] = events;
    expect(fits(`/components/schemas/${one?.name ?? ''}`, {})).toBe(false);
    expect(fits('/components/messageTraits/cloudEvent/headers', { ce_id: 'x' })).toBe(false);
    expect(fits('/components/messages/Checkpoint/payload', { account: 'a' })).toBe(false);
  });
});
