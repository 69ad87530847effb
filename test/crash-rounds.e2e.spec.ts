import { expect, it } from '@jest/globals';
import { runCrashRounds } from './support/crash-rounds.js';

it('loses, halves and doubles nothing that was answered, whoever is killed under load, and the log verifies', async () => {
  const figures = await runCrashRounds({ rounds: 3, victims: ['server', 'postgres', 'worker'] });
  expect(figures.answered).toBeGreaterThan(80);
  expect(figures).toMatchObject({
    kills: { server: 1, postgres: 1, worker: 1 },
    missing: 0,
    partial: 0,
    different: 0,
    doubled: 0,
    open: 0,
    unsearchable: 0,
    faults: [],
  });
}, 300_000);
