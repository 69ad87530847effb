import { describe, expect, it } from '@jest/globals';
import { backoffMs, pause, readRetryAfter } from './backoff.js';

const backoff = { firstMs: 100, mostMs: 5_000 };

describe('the wait between attempts', () => {
  it('is anything up to a bound that doubles and has an end', () => {
    expect([1, 2, 3, 7, 99].map((attempt) => backoffMs(backoff, attempt, null, () => 1))).toEqual([
      100, 200, 400, 5_000, 5_000,
    ]);
    expect(backoffMs(backoff, 5, null, () => 0)).toBe(0);
  });

  it('is never shorter than the server asked for', () => {
    expect(backoffMs(backoff, 1, 3_000, () => 0)).toBe(3_000);
    expect(backoffMs(backoff, 9, 3_000, () => 1)).toBe(3_100);
  });

  it('reads Retry-After in seconds and as a date, and nothing else', () => {
    const now = Date.parse('2026-11-30T10:00:00Z');
    const headers = ['2', 'Mon, 30 Nov 2026 10:00:05 GMT', 'Mon, 30 Nov 2026 09:00:00 GMT', 'soon', '-1x', null];
    expect(headers.map((header) => readRetryAfter(header, now))).toEqual([2_000, 5_000, 0, null, null, null]);
  });

  it('ends with the reason of the signal', async () => {
    const stop = new AbortController();
    const waiting = pause(60_000, stop.signal);
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(pause(60_000, stop.signal)).rejects.toThrow('enough');
  });
});
