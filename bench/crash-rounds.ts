import { parseArgs } from 'node:util';
import { runCrashRounds } from '../test/support/crash-rounds.js';

/**
 * Rounds of `kill -9` under load, on the server, its Postgres and a worker at random:
 * `npm run crash-rounds -- --rounds 50`. Ends with 1 unless everything that was answered is on record, whole and once.
 */
const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '50' }, clients: { type: 'string', default: '8' } },
});

const figures = await runCrashRounds({
  rounds: Number(values.rounds),
  clients: Number(values.clients),
  onRound: (round, victim, answered) => {
    process.stdout.write(`round ${String(round)}: killed the ${victim}; ${String(answered)} answered so far\n`);
  },
});
process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
const { missing, partial, different, doubled, open, unsearchable, faults } = figures;
const wrong = missing + partial + different + doubled + open + unsearchable + faults.length;
process.stdout.write(wrong === 0 ? 'Nothing was lost.\n' : `${String(wrong)} things are wrong.\n`);
process.exit(wrong === 0 ? 0 : 1);
