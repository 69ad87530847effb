import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Json, NewEvent } from '#record';
import { canonicalJson, leafHash, readEvent } from '#record';
import type { AppendResult, Claim, ClaimRequest, EventStore, StoredEvent } from './event-store.js';
import { LogBusy, LogRefused } from './event-store.js';

/** A store for one run of the contract; `now` is the clock it was made with. */
export interface ContractSubject {
  readonly store: EventStore;
  /** How many events the suite may assume were there before, through other stores on the same log. */
  close(): Promise<void>;
}

/** What opens a store: the clock and the time `claim` may wait are the suite's. */
export type OpenSubject = (options: {
  readonly now: () => Date;
  readonly claimWaitMs: number;
}) => Promise<ContractSubject>;

type Appended = Extract<AppendResult, { kind: 'appended' }>;
type Claimed = Extract<Claim, { kind: 'claimed' }>;

const event = (n: number, more: Partial<NewEvent> = {}): NewEvent => ({ type: 'plugin.tried', data: { n }, ...more });

const appended = (result: AppendResult): Appended => {
  if (result.kind !== 'appended') throw new Error(`not appended: ${result.kind}`);
  return result;
};

const claimed = (claim: Claim): Claimed => {
  if (claim.kind !== 'claimed') throw new Error(`not claimed: ${claim.kind}`);
  return claim;
};

const numbers = (events: readonly StoredEvent[]): readonly (Json | undefined)[] => events.map((e) => e.event.data.n);

/** The rules that every event store keeps. Each test works in an account of its own. */
export const eventStoreContract = (name: string, openSubject: OpenSubject): void => {
  describe(`${name} as an event store`, () => {
    let time = new Date('2026-03-01T10:00:00.123Z');
    let subject: ContractSubject;
    let store: EventStore;

    beforeAll(async () => {
      subject = await openSubject({ now: () => time, claimWaitMs: 5_000 });
      store = subject.store;
    }, 60_000);

    afterAll(() => subject.close());

    const account = (): string => `a-${randomUUID()}`;
    const put = async (of: string, stream: string, ...events: NewEvent[]): Promise<Appended> =>
      appended(await store.append({ account: of, writes: [{ stream, expectedVersion: 'any', events }] }));

    describe('appending', () => {
      it('gives positions that are dense from 0 within an account, whatever other accounts do', async () => {
        const [one, other] = [account(), account()];
        const results = [];
        for (let n = 0; n < 6; n += 1)
          results.push(await put(n % 2 === 0 ? one : other, `s/${n % 3}`, event(n), event(n)));
        expect(results.map((r) => [r.first, r.last])).toEqual([[0n, 1n], [0n, 1n], [2n, 3n], [2n, 3n], [4n, 5n], [4n, 5n]]); // prettier-ignore
        expect(await store.accountSize(one)).toBe(6n);
        expect(await store.accountSize(account())).toBe(0n);
      });

      it('gives global positions that are dense over all accounts', async () => {
        const before = await store.head();
        await Promise.all(Array.from({ length: 40 }, (_, n) => put(account(), 's', event(n), event(n))));
        const all = await store.readAll(before, 1_000);
        expect(all.map((e) => e.globalPosition)).toEqual(Array.from({ length: 80 }, (_, n) => before + 1n + BigInt(n)));
        expect(await store.head()).toBe(before + 80n);
      });

      it('numbers the events of a stream from 1 and keeps streams of equal name in two accounts apart', async () => {
        const [one, other] = [account(), account()];
        await put(one, 'plugins', event(1), event(2));
        await put(other, 'plugins', event(9));
        const { events } = await put(one, 'plugins', event(3));
        expect(events[0]?.event.streamVersion).toBe(3);
        expect(numbers(await store.readStream(one, 'plugins'))).toEqual([1, 2, 3]);
        expect(numbers(await store.readStream(one, 'plugins', 3))).toEqual([3]);
        expect(numbers(await store.readStream(other, 'plugins'))).toEqual([9]);
        const versions = [store.streamVersion(one, 'plugins'), store.streamVersion(one, 'none')];
        expect(await Promise.all(versions)).toEqual([3, 0]);
      });

      it('refuses a stream that has moved on, and says where it is', async () => {
        const of = account();
        await put(of, 's', event(1), event(2));
        const writes = [{ stream: 's', expectedVersion: 1, events: [event(3)] }];
        expect(await store.append({ account: of, writes })).toEqual({ kind: 'conflict', stream: 's', version: 2 });
        expect(numbers(await store.readStream(of, 's'))).toEqual([1, 2]);
      });

      it('lets one of many writers that decided on the same version win', async () => {
        const of = account();
        const write = (n: number): Promise<AppendResult> =>
          store.append({ account: of, writes: [{ stream: 's', expectedVersion: 0, events: [event(n)] }] });
        const results = await Promise.all(Array.from({ length: 20 }, (_, n) => write(n)));
        expect(results.filter((r) => r.kind === 'appended')).toHaveLength(1);
        expect(results.filter((r) => r.kind === 'conflict')).toHaveLength(19);
        expect(await store.accountSize(of)).toBe(1n);
      });

      it('takes every writer that does not care about the version', async () => {
        const of = account();
        await Promise.all(Array.from({ length: 30 }, (_, n) => put(of, 's', event(n), event(n))));
        const events = await store.readStream(of, 's');
        expect(events.map((e) => e.event.streamVersion)).toEqual(Array.from({ length: 60 }, (_, n) => n + 1));
        expect(events.filter((e, at) => at % 2 === 1 && e.event.data.n !== events[at - 1]?.event.data.n)).toEqual([]);
      });

      it('writes all streams of an append or none', async () => {
        const of = account();
        await put(of, 'b', event(0));
        const writes = [
          { stream: 'a', expectedVersion: 0, events: [event(1)] },
          { stream: 'b', expectedVersion: 0, events: [event(2)] },
        ];
        expect(await store.append({ account: of, writes })).toEqual({ kind: 'conflict', stream: 'b', version: 1 });
        expect(await store.readStream(of, 'a')).toEqual([]);
        const mended = writes.map((write, n) => ({ ...write, expectedVersion: n }));
        const { first, last } = appended(await store.append({ account: of, writes: mended }));
        expect([first, last]).toEqual([1n, 2n]);
      });

      it('answers with the events as they can be read afterwards', async () => {
        const of = account();
        const { events } = await put(of, 's', event(1, { sessionId: 'x' }), event(2));
        const fresh = events.map(({ bytes, ...rest }) => ({ ...rest, bytes: Buffer.from(bytes) }));
        const read = (await store.readStream(of, 's')).map(({ bytes, ...rest }) => ({
          ...rest,
          bytes: Buffer.from(bytes),
        }));
        expect(fresh).toEqual(read);
      });

      it('takes its time from the clock it was given, to the millisecond, and the caller’s where there is one', async () => {
        const of = account();
        time = new Date('2026-03-01T10:00:00.456Z');
        const { events } = await put(of, 's', event(1), event(2, { occurredAt: '2020-02-29T23:59:59.001Z' }));
        expect(events.map((e) => [e.event.recordedAt, e.event.occurredAt])).toEqual([
          ['2026-03-01T10:00:00.456Z', '2026-03-01T10:00:00.456Z'],
          ['2026-03-01T10:00:00.456Z', '2020-02-29T23:59:59.001Z'],
        ]);
      });

      it('stores canonical bytes, and gives events ids of their own', async () => {
        const of = account();
        const data = { z: 1, a: { y: null, b: [true, 'ü'] } };
        const { events } = await put(of, 's', event(0, { data }), event(0, { data }));
        for (const { bytes, event: told } of events) {
          const text = Buffer.from(bytes).toString('utf8');
          expect(text).toBe(canonicalJson(JSON.parse(text) as Json));
          expect(readEvent(bytes)).toEqual(told);
          expect(leafHash(bytes)).toHaveLength(32);
        }
        expect(events.map((e) => /^[\da-f]{8}-[\da-f]{4}-7/u.test(e.event.id))).toEqual([true, true]);
        expect(events[0]?.event.id).not.toBe(events[1]?.event.id);
      });

      it('keeps any text: NUL, lone surrogates, line separators, in keys and values', async () => {
        const of = account();
        const text = 'a\u0000b\ud83d c\udc00 \u2028 \u202e 😀';
        await put(of, 's', event(0, { data: { text, [text]: [text] } }));
        const [stored] = await store.readStream(of, 's');
        expect(stored?.event.data).toEqual({ text, [text]: [text] });
      });

      it('refuses ids and times that no log can hold, without harm to others', async () => {
        const of = account();
        const bad = [
          () => put(of, 'nul\0', event(0)),
          () => put(of, '\ud800', event(0)),
          () => put(of, 's', event(0, { sessionId: 'x\0' })),
          () => put(of, 's', event(0, { occurredAt: '2026-02-30T00:00:00.000Z' })),
          () => put(of, 's', event(0, { occurredAt: '2026-03-01T00:00:00+01:00' })),
          () => store.append({ account: of, writes: [] }),
        ];
        const good = put(of, 'good', event(1));
        const refused = await Promise.allSettled(bad.map((attempt) => attempt()));
        expect(refused.map((r) => r.status === 'rejected' && r.reason instanceof LogRefused)).toEqual(
          bad.map(() => true),
        );
        await good;
        expect(await store.accountSize(of)).toBe(1n);
      });

      it('tells listeners what it stored, as it is read, until they stop listening', async () => {
        const told: StoredEvent[] = [];
        const of = account();
        const stop = store.onAppended((events) => told.push(...events));
        await put(of, 's', event(0), event(1, { sessionId: 'x' }));
        expect(told).toEqual(await store.readAccount(of, { limit: 10 }));
        stop();
        await put(account(), 's', event(0));
        expect(told).toHaveLength(2);
      });
    });

    describe('reading an account', () => {
      const of = account();
      beforeAll(async () => {
        for (let n = 0; n < 12; n += 1) {
          const session = n % 3 === 0 ? { sessionId: 'third' } : {};
          await put(of, `s/${n % 2}`, event(n, { type: n % 4 === 0 ? 'plugin.tripped' : 'plugin.tried', ...session }));
        }
      });

      it.each<[string, Parameters<EventStore['readAccount']>[1], number[]]>([
        ['from the beginning', { limit: 3 }, [0, 1, 2]],
        ['after a position, without it', { after: 8n, limit: 50 }, [9, 10, 11]],
        ['until a position, with it', { after: 2n, until: 4n, limit: 50 }, [3, 4]],
        ['from the newest', { limit: 2, order: 'newest' }, [11, 10]],
        ['from the newest before a position', { until: 4n, limit: 2, order: 'newest' }, [4, 3]],
        ['one stream', { stream: 's/1', limit: 3 }, [1, 3, 5]],
        ['one session', { sessionId: 'third', limit: 50 }, [0, 3, 6, 9]],
        ['some types', { types: ['plugin.tripped'], limit: 50 }, [0, 4, 8]],
        ['all together', { types: ['plugin.tripped'], sessionId: 'third', stream: 's/0', after: -1n, limit: 50 }, [0]],
        ['no types', { types: [], limit: 50 }, []],
      ])('gives %s', async (_what, range, expected) => {
        expect(numbers(await store.readAccount(of, range))).toEqual(expected);
      });

      it('gives nothing of an account that has nothing', async () => {
        expect(await store.readAccount(account(), { limit: 10 })).toEqual([]);
      });
    });

    describe('reading the whole log', () => {
      it('gives what follows a position, oldest first, of the types asked for', async () => {
        const before = await store.head();
        const of = account();
        await put(of, 's', event(1), event(2, { type: 'plugin.tripped' }), event(3));
        expect(numbers(await store.readAll(before, 10))).toEqual([1, 2, 3]);
        expect(numbers(await store.readAll(before + 1n, 1))).toEqual([2]);
        expect(numbers(await store.readAll(before, 10, ['plugin.tripped']))).toEqual([2]);
        expect(await store.readAll(before + 3n, 10)).toEqual([]);
      });
    });

    describe('blobs', () => {
      const blob = (text: string): { hash: string; bytes: Buffer } => ({
        hash: Buffer.from(text.padEnd(32, '.')).toString('hex'),
        bytes: Buffer.from(text),
      });

      it('are there once the events that name them are', async () => {
        const [one, other] = [blob(randomUUID().slice(0, 30)), blob(randomUUID().slice(0, 30))];
        const writes = [{ stream: 's', expectedVersion: 'any' as const, events: [event(0)] }];
        await store.append({ account: account(), writes, blobs: [one, other] });
        await store.append({ account: account(), writes, blobs: [one] });
        expect(Buffer.from((await store.blob(one.hash)) ?? [])).toEqual(one.bytes);
        expect(Buffer.from((await store.blob(other.hash)) ?? [])).toEqual(other.bytes);
        expect(await store.blob('00'.repeat(32))).toBeNull();
      });

      it('come in any order from many writers at once', async () => {
        const blobs = Array.from({ length: 20 }, () => blob(randomUUID().slice(0, 30)));
        const shuffled = (n: number): typeof blobs => [...blobs.slice(n), ...blobs.slice(0, n)];
        const writes = [{ stream: 's', expectedVersion: 'any' as const, events: [event(0)] }];
        await Promise.all(blobs.map((_, n) => store.append({ account: account(), writes, blobs: shuffled(n) })));
        expect(await Promise.all(blobs.map(async (b) => (await store.blob(b.hash)) !== null))).toEqual(
          blobs.map(() => true),
        );
      });
    });

    describe('claims', () => {
      const request = (of: string, more: Partial<ClaimRequest> = {}): ClaimRequest => {
        return { account: of, key: 'k', requestDigest: 'd', invocationId: 'i-1', leaseMs: 60_000, ...more };
      };
      const done = { stream: 's', status: 201, note: { text: 'nul \0', n: 1, none: null } };
      const complete = (of: string, token: string, key = 'k'): Promise<AppendResult> => {
        const writes = [{ stream: 's', expectedVersion: 'any' as const, events: [event(1), event(2)] }];
        return store.append({ account: of, writes, commands: [{ key, token, result: done }] });
      };

      it('are given to one of fifty, and the others get what it did', async () => {
        const of = account();
        let ours = 0;
        const run = async (): Promise<Claim> => {
          const claim = await store.claim(request(of));
          if (claim.kind === 'claimed') {
            ours += 1;
            await complete(of, claim.token);
          }
          return claim;
        };
        const claims = await Promise.all(Array.from({ length: 50 }, run));
        expect(ours).toBe(1);
        expect(claims.filter((c) => c.kind === 'done')).toHaveLength(49);
        expect(claims.find((c) => c.kind === 'done')).toEqual({ kind: 'done', result: done, first: 0n, last: 1n });
        expect(await store.accountSize(of)).toBe(2n);
      });

      it('are of one account and one key', async () => {
        const [one, other] = [account(), account()];
        expect((await store.claim(request(one))).kind).toBe('claimed');
        expect((await store.claim(request(other))).kind).toBe('claimed');
        expect((await store.claim(request(one, { key: 'other' }))).kind).toBe('claimed');
      });

      it('say mismatch for another request, before and after it is done', async () => {
        const of = account();
        const { token } = claimed(await store.claim(request(of)));
        expect(await store.claim(request(of, { requestDigest: 'x' }))).toEqual({ kind: 'mismatch' });
        await complete(of, token);
        expect(await store.claim(request(of, { requestDigest: 'x' }))).toEqual({ kind: 'mismatch' });
      });

      it('go to the next one when the lease has run out, which learns what was lost', async () => {
        const of = account();
        const lost = claimed(await store.claim(request(of, { leaseMs: 0 })));
        expect([lost.attempt, lost.previousInvocationId]).toEqual([1, null]);
        const next = claimed(await store.claim(request(of, { invocationId: 'i-2' })));
        expect([next.attempt, next.previousInvocationId]).toEqual([2, 'i-1']);
        expect(await complete(of, lost.token)).toEqual({ kind: 'claim-lost' });
        expect(await store.accountSize(of)).toBe(0n);
        expect((await complete(of, next.token)).kind).toBe('appended');
        expect(await complete(of, next.token)).toEqual({ kind: 'claim-lost' });
      });

      it('may be completed late as long as nobody took over', async () => {
        const of = account();
        const { token } = claimed(await store.claim(request(of, { leaseMs: 0 })));
        expect((await complete(of, token)).kind).toBe('appended');
      });

      it('are prolonged by their holder only', async () => {
        const of = account();
        const { token } = claimed(await store.claim(request(of, { leaseMs: 0 })));
        expect(await store.renewClaim(of, 'k', 'not-the-token', 60_000)).toBe(false);
        expect(await store.renewClaim(of, 'k', token, 60_000)).toBe(true);
        const second = store.claim(request(of));
        await complete(of, token);
        expect((await second).kind).toBe('done');
        expect(await store.renewClaim(of, 'k', token, 60_000)).toBe(false);
      });

      it('can be given back, so that a corrected request may use the key', async () => {
        const of = account();
        const { token } = claimed(await store.claim(request(of)));
        await store.releaseClaim(of, 'k', 'not-the-token');
        expect(await store.claim(request(of, { requestDigest: 'x' }))).toEqual({ kind: 'mismatch' });
        await store.releaseClaim(of, 'k', token);
        const again = claimed(await store.claim(request(of, { requestDigest: 'x' })));
        expect([again.attempt, again.previousInvocationId]).toEqual([1, null]);
        await complete(of, again.token);
        await store.releaseClaim(of, 'k', again.token);
        expect((await store.claim(request(of, { requestDigest: 'x' }))).kind).toBe('done');
      });

      it('end together with one append, or none of them', async () => {
        const of = account();
        const [a, b] = [await store.claim(request(of, { key: 'a' })), await store.claim(request(of, { key: 'b' }))];
        const commands = (tokens: string[]): { key: string; token: string; result: typeof done }[] =>
          ['a', 'b'].map((key, n) => ({ key, token: tokens[n] ?? '', result: done }));
        const writes = [{ stream: 's', expectedVersion: 'any' as const, events: [event(1)] }];
        const wrong = commands([claimed(a).token, 'not-the-token']);
        expect(await store.append({ account: of, writes, commands: wrong })).toEqual({ kind: 'claim-lost' });
        const right = commands([claimed(a).token, claimed(b).token]);
        expect((await store.append({ account: of, writes, commands: right })).kind).toBe('appended');
        expect((await store.claim(request(of, { key: 'a' }))).kind).toBe('done');
        expect((await store.claim(request(of, { key: 'b' }))).kind).toBe('done');
      });

      it('can end with an append that records nothing', async () => {
        const of = account();
        await put(of, 's', event(0));
        const { token } = claimed(await store.claim(request(of)));
        const result = await store.append({ account: of, writes: [], commands: [{ key: 'k', token, result: done }] });
        expect(result).toEqual({ kind: 'appended', first: 1n, last: 0n, events: [] });
        expect(await store.claim(request(of))).toEqual({ kind: 'done', result: done, first: 1n, last: 0n });
      });

      it('make a second one give up when the first does not end', async () => {
        const impatient = await openSubject({ now: () => time, claimWaitMs: 50 });
        const of = account();
        await impatient.store.claim(request(of));
        await expect(impatient.store.claim(request(of))).rejects.toBeInstanceOf(LogBusy);
        await impatient.close();
      });

      it('make a second one give up as soon as it says itself', async () => {
        const of = account();
        await store.claim(request(of));
        await expect(store.claim({ ...request(of), waitMs: 0 })).rejects.toBeInstanceOf(LogBusy);
      });
    });
  });
};
