import { afterAll, describe, expect, it } from '@jest/globals';
import { startTestBroker } from './support/kafka-broker.js';

const broker = await startTestBroker({ listeners: ['tls', 'sasl', 'saslTls'] });
afterAll(() => broker.close());

describe('a broker of the tests', () => {
  it('keeps its topics over a kill -9', async () => {
    await broker.createTopic('kept', 3, { 'retention.ms': '-1' });
    await broker.kill();
    await broker.start();
    expect(await broker.topics()).toContain('kept');
    expect(await broker.written('kept')).toBe(0);
  });

  it('is another, empty broker after it was replaced', async () => {
    await broker.createTopic('forgotten', 1);
    await broker.replace();
    expect(await broker.topics()).not.toContain('forgotten');
  });
});
