import { describe, expect, it } from '@jest/globals';
import { memoryEventStore, type EventStore } from '#event-store';
import { inferTurn, Turns } from './turns.js';

const newId = () => 'new';
const at = (startsTurn: 'always' | 'unless-just-started' | 'never') => ({ startsTurn });

describe('an inferred turn', () => {
  it('begins with the first firing of a session', () => {
    expect(inferTurn(at('never'), null, newId)).toEqual({ turnId: 'new', inferred: true, prompted: false });
  });

  it('goes on at hooks that start none', () => {
    const current = { turnId: 't', prompted: false };
    expect(inferTurn(at('never'), current, newId)).toEqual({ turnId: 't', inferred: true, prompted: false });
  });

  it('begins anew at an inbound message', () => {
    expect(inferTurn(at('always'), { turnId: 't', prompted: true }, newId)).toMatchObject({ turnId: 'new' });
  });

  it('takes the system prompt that follows the message that started it', () => {
    const current = { turnId: 't', prompted: false };
    expect(inferTurn(at('unless-just-started'), current, newId)).toMatchObject({ turnId: 't', prompted: true });
  });

  it('begins anew at a second system prompt', () => {
    const current = { turnId: 't', prompted: true };
    expect(inferTurn(at('unless-just-started'), current, newId)).toEqual({
      turnId: 'new',
      inferred: true,
      prompted: true,
    });
  });
});

const record = (store: EventStore, sessionId: string, turnId: string, turnPrompted: boolean) =>
  store.append({
    account: 'a',
    writes: [
      {
        stream: `invocation/${turnId}-${String(turnPrompted)}`,
        expectedVersion: 0,
        events: [{ type: 'invocation.opened', sessionId, turnId, turnInferred: true, data: { turnPrompted } }],
      },
    ],
  });

describe('the turns of a session', () => {
  it('are one for firings that come at once, though none of them is recorded yet', async () => {
    const turns = new Turns(memoryEventStore());
    const all = await Promise.all(Array.from({ length: 20 }, () => turns.infer('a', 's', at('never'))));
    expect(new Set(all.map(({ turnId }) => turnId)).size).toBe(1);
  });

  it('are those of their own session and account', async () => {
    const turns = new Turns(memoryEventStore());
    const places = [
      ['a', 's'],
      ['a', 't'],
      ['b', 's'],
    ] as const;
    const all = await Promise.all(places.map(([account, session]) => turns.infer(account, session, at('never'))));
    expect(new Set(all.map(({ turnId }) => turnId)).size).toBe(3);
  });

  it('go on from the log after a restart', async () => {
    const store = memoryEventStore();
    await record(store, 's', 'before', true);
    const { turnId } = await new Turns(store).infer('a', 's', at('never'));
    expect(turnId).toBe('before');
  });

  it('follow what another replica recorded since', async () => {
    const store = memoryEventStore();
    const turns = new Turns(store);
    await turns.infer('a', 's', at('never'));
    await new Promise((resolve) => setTimeout(resolve, 5));
    await record(store, 's', 'other', false);
    expect((await turns.infer('a', 's', at('never'))).turnId).toBe('other');
  });

  it('are one each without a session', async () => {
    const turns = new Turns(memoryEventStore());
    const [a, b] = [await turns.infer('a', null, at('never')), await turns.infer('a', null, at('never'))];
    expect(a.turnId).not.toBe(b.turnId);
  });
});
