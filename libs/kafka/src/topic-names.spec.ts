import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { topicNames } from './topic-names.js';

describe('names of topics', () => {
  it('give an account its own topic only where it is listed', () => {
    const names = topicNames('hl', ['acme/eu']);
    expect(names.eventsOf('acme/eu')).toBe('hl.events.acme_2feu');
    expect(names.eventsOf('globex')).toBe('hl.events');
    expect(names.allEvents).toEqual(['hl.events', 'hl.events.acme_2feu']);
  });

  it('never give two accounts one topic, and are names that Kafka takes', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (one, other) => {
        const names = topicNames('hl', [one, other]);
        expect(names.eventsOf(one) === names.eventsOf(other)).toBe(Buffer.from(one).equals(Buffer.from(other)));
        expect(names.eventsOf(one)).toMatch(/^[A-Za-z0-9._-]+$/u);
      }),
    );
  });
});
