import { PassThrough } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { paceOf, showProgress } from './progress.js';

const stream = (isTTY: boolean) => {
  const out = Object.assign(new PassThrough(), {
    isTTY,
    columns: 100,
    rows: 10,
    cursorTo: () => true,
    clearLine: () => true,
  });
  return { out, said: () => String(out.read() ?? '') };
};

describe('progress', () => {
  it('is plain lines where nobody watches: not more than one in five seconds, and the last one', () => {
    const { out, said } = stream(false);
    let now = 0;
    const progress = showProgress({ unit: 'events', stream: out, now: () => now });
    for (; now < 12_000; now += 100) progress.update(now, 20_000);
    progress.stop();
    progress.stop();
    expect(said().split('\n')).toEqual([
      '5,000 of 20,000 events, 1,000 events/s, 15 s left',
      '10,000 of 20,000 events, 1,000 events/s, 10 s left',
      '11,900 of 20,000 events, 1,000 events/s, 9 s left',
      '',
    ]);
  });

  it('says what is being done', () => {
    const { out, said } = stream(false);
    const progress = showProgress({ unit: 'keys', stream: out, now: () => 0 });
    progress.say('making the indexes');
    progress.stop();
    expect(said()).toBe('making the indexes\n');
  });

  it('is a bar on a terminal', () => {
    const { out, said } = stream(true);
    const progress = showProgress({ unit: 'events', stream: out, now: () => 0 });
    progress.update(50, 100);
    progress.stop();
    expect(said()).toMatch(/50% \| 50\/100 events/u);
  });

  it('is nothing where only JSON is wanted', () => {
    const { out, said } = stream(false);
    const progress = showProgress({ unit: 'events', show: 'none', stream: out });
    progress.update(1, 2);
    progress.say('x');
    progress.stop();
    expect(said()).toBe('');
  });
});

describe('a pace', () => {
  it.each([
    [0, 100, 0, '0 keys/s'],
    [50, 100, 5, '10 keys/s, 5 s left'],
    [1, 1_000, 1, '1 keys/s, 16 min 39 s left'],
    [1, 10_000, 1, '1 keys/s, 2 h 46 min left'],
    [100, 100, 10, '10 keys/s'],
  ])('of %d of %d in %d s is %s', (done, total, seconds, words) => {
    expect(paceOf(done, total, seconds, 'keys')).toBe(words);
  });
});
