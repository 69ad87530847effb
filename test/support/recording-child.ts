import { writeSync } from 'node:fs';
import { appendInvocation, openTestLog } from './tampering.js';

/** Records invocations as a replica does, from several clients and for several accounts at once, until it is killed. */
const [url = '', name = ''] = process.argv.slice(2);
const log = await openTestLog(url);

const client = async (number: number): Promise<never> => {
  for (let n = 0; ; n += 1) {
    await appendInvocation(log, ['acme', 'other', `of-${name}`][n % 3] ?? '', `s-${String((number + n) % 5)}`);
    writeSync(1, `${name} ${String(number)} ${String(n)}\n`);
  }
};

await Promise.all([0, 1, 2, 3].map(client));
