import { describe, expect, it } from '@jest/globals';
import { memoryEventStore, type EventStore } from '#event-store';
import { invocationStream, type NewEvent } from '#record';
import { memorySealing } from '#sealing';
import { Book } from './book.js';

const account = 'a';
const invocationId = 'i';

const event = (type: NewEvent['type'], data: Record<string, string> = {}): NewEvent => ({ type, data });

const openBook = async (store: EventStore, handlers: number, instance?: string): Promise<Book> => {
  const envelope = await memorySealing().envelope(account, { kind: 'account' });
  const book = new Book(store, envelope, account, invocationId, { invocationId, hook: 'h' }, handlers, instance);
  book.open(event('invocation.opened'));
  return book;
};

const types = async (store: EventStore): Promise<readonly string[]> =>
  (await store.readStream(account, invocationStream(invocationId))).map((stored) => stored.event.type);

describe('the book of a firing', () => {
  it('is one commit when no host call has an effect', async () => {
    const store = memoryEventStore();
    let commits = 0;
    store.onAppended(() => (commits += 1));
    const book = await openBook(store, 2);
    book.verdict(0, event('handler.passed'));
    book.verdict(1, event('handler.rewrote'));
    const positions = await book.close(event('invocation.closed'), []);
    expect(await types(store)).toEqual(['invocation.opened', 'handler.passed', 'handler.rewrote', 'invocation.closed']);
    expect(positions).toEqual({ first: 0n, last: 3n });
    expect(commits).toBe(1);
  });

  it('writes the pages in chain order, whoever was noted first', async () => {
    const store = memoryEventStore();
    const book = await openBook(store, 2);
    book.host(1, event('host.called', { member: 'log' }));
    book.host(0, event('host.called', { member: 'log' }));
    book.verdict(1, event('handler.passed'));
    book.verdict(0, event('handler.cancelled'));
    await book.close(event('invocation.closed'), []);
    expect(await types(store)).toEqual([
      'invocation.opened',
      'host.called',
      'handler.cancelled',
      'host.called',
      'handler.passed',
      'invocation.closed',
    ]);
  });

  it('makes the start and the call durable before the effect, and what came before them', async () => {
    const store = memoryEventStore();
    const book = await openBook(store, 2);
    book.verdict(0, event('handler.passed'));
    book.host(1, event('host.called', { member: 'fetch' }));
    await book.keep(1, () => event('handler.started'));
    expect(await types(store)).toEqual(['invocation.opened', 'handler.passed', 'handler.started', 'host.called']);
    book.host(1, event('host.answered'));
    book.verdict(1, event('handler.passed'));
    await book.close(event('invocation.closed'), []);
    expect((await types(store)).slice(4)).toEqual(['host.answered', 'handler.passed', 'invocation.closed']);
  });

  it('names the process that runs the chain where the opening is written before the end, and there only', async () => {
    const instances: unknown[] = [];
    for (const early of [true, false]) {
      const store = memoryEventStore();
      const book = await openBook(store, 1, 'me');
      if (early) await book.keepOpening();
      book.verdict(0, event('handler.passed'));
      await book.close(event('invocation.closed'), []);
      const [opened] = await store.readStream(account, invocationStream(invocationId));
      instances.push(opened?.event.data.instance);
    }
    expect(instances).toEqual(['me', undefined]);
  });

  it('writes what stands before the opening in one commit with it, and nothing where a stream of that has moved', async () => {
    const store = memoryEventStore();
    let commits = 0;
    store.onAppended(() => (commits += 1));
    const closed = { stream: 'cron-run/r', expectedVersion: 0, events: [event('cron.run_closed')] };
    const book = await openBook(store, 0);
    await book.keepOpening([closed]);
    expect(commits).toBe(1);
    const positions = await book.close(event('invocation.closed'), []);
    // Its own: what was written beside it is somebody else's.
    expect(positions).toEqual({ first: 1n, last: 2n });

    const late = new Book(store, await memorySealing().envelope(account, { kind: 'account' }), account, 'j', {}, 0);
    late.open(event('invocation.opened'));
    await expect(late.keepOpening([closed])).rejects.toThrow('conflict');
    expect(await store.readStream(account, invocationStream('j'))).toEqual([]);
    await expect(late.close(event('invocation.closed'), [])).rejects.toThrow('conflict');
  });

  it('asks again what goes in after the end when a stream of that has moved, and closes once', async () => {
    const store = memoryEventStore();
    const book = await openBook(store, 0);
    const asked: number[] = [];
    await book.close(event('invocation.closed'), [], async () => {
      const version = await store.streamVersion(account, 'cron/j');
      asked.push(version);
      // Somebody else is quicker the first time.
      if (asked.length === 1) {
        const writes = [{ stream: 'cron/j', expectedVersion: 'any' as const, events: [event('cron.job_declared')] }];
        await store.append({ account, writes });
      }
      return [{ stream: 'cron/j', expectedVersion: version, events: [event('cron.run_started')] }];
    });
    expect(asked).toEqual([0, 1]);
    const all = await store.readAccount(account, { limit: 10 });
    expect(all.map((stored) => stored.event.type)).toEqual([
      'cron.job_declared',
      'invocation.opened',
      'invocation.closed',
      'cron.run_started',
    ]);
  });

  it('starts a handler once, however many calls it makes', async () => {
    const store = memoryEventStore();
    const book = await openBook(store, 1);
    for (let call = 0; call < 3; call += 1) {
      book.host(0, event('host.called'));
      await book.keep(0, () => event('handler.started'));
    }
    book.verdict(0, event('handler.passed'));
    await book.close(event('invocation.closed'), []);
    expect((await types(store)).filter((type) => type === 'handler.started')).toHaveLength(1);
  });

  it('takes nothing of a handler after its verdict', async () => {
    const store = memoryEventStore();
    const book = await openBook(store, 1);
    book.verdict(0, event('handler.passed'));
    book.host(0, event('host.answered'));
    await book.close(event('invocation.closed'), []);
    expect(await types(store)).not.toContain('host.answered');
  });

  it('writes nothing more after a write that failed', async () => {
    const store = memoryEventStore();
    let failing = true;
    const flaky: EventStore = {
      ...store,
      append: (append) => (failing ? Promise.reject(new Error('away')) : store.append(append)),
    };
    const book = await openBook(flaky, 1);
    await expect(book.keep(0, () => event('handler.started'))).rejects.toThrow('away');
    failing = false;
    book.verdict(0, event('handler.passed'));
    await expect(book.close(event('invocation.closed'), [])).rejects.toThrow('away');
    expect(await types(store)).toEqual([]);
  });
});
