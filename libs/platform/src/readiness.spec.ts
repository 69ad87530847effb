import { describe, expect, it } from '@jest/globals';
import { Readiness } from './readiness.js';

const ok = () => Promise.resolve({ state: 'ok' } as const);

describe('readiness', () => {
  it('shows every part in one word or number, and the rest as details', async () => {
    const readiness = new Readiness();
    readiness.register('database', ok, 'essential');
    readiness.register('lag', () => Promise.resolve({ state: 'degraded', value: 7, why: 'it is slow' }));
    expect(await readiness.report()).toEqual({
      status: 'ready',
      database: 'ok',
      lag: 7,
      details: { lag: { state: 'degraded', why: 'it is slow' } },
    });
  });

  it('is lost when an essential part is down or cannot be looked at, and for no other reason', async () => {
    const readiness = new Readiness();
    readiness.register('kafka', () => Promise.reject(new Error('away')));
    readiness.register('sandbox', () => Promise.resolve({ state: 'degraded' }), 'essential');
    expect(await readiness.report()).toMatchObject({ status: 'ready', kafka: 'down', sandbox: 'degraded' });
    readiness.register('database', () => Promise.reject(new Error('away')), 'essential');
    expect(await readiness.report()).toMatchObject({ status: 'not_ready', database: 'down' });
    readiness.register('database', ok, 'essential');
    expect(await readiness.report()).toMatchObject({ status: 'ready' });
  });

  it('does not wait for ever for a part', async () => {
    const readiness = new Readiness();
    readiness.register('database', () => new Promise(() => undefined), 'essential');
    expect(await readiness.report()).toMatchObject({ status: 'not_ready', database: 'down' });
  });

  it('is given up when the program stops', async () => {
    const readiness = new Readiness();
    readiness.register('database', ok, 'essential');
    readiness.stop();
    expect(await readiness.report()).toMatchObject({ status: 'not_ready', database: 'ok' });
  });
});
