import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import type { Figure } from './figures.js';
import { between, tableOf } from './figures.js';
import { measureFollowers } from './followers.js';
import { measureHostLink } from './host-link.js';
import { measureMemory } from './memory.js';
import { measureNeighbours } from './neighbours.js';
import { measureOpenClaw } from './openclaw.js';
import { measureReading } from './reads.js';
import { measureRebuilding } from './rebuild.js';
import { measureRecording } from './recording.js';
import { measureRelay } from './relay.js';
import { measureSandbox } from './sandbox-chain.js';
import { measureVerifying } from './verify.js';

/**
 * `npm run bench` measures everything, `npm run bench -- sandbox memory` some; `--write` puts the figures into
 * docs/benchmarks.md, `--quick` runs each once and short, to see that it runs.
 */

const args = process.argv.slice(2);
const quick = args.includes('--quick');
const rounds = quick ? 1 : 5;
const second = quick ? 200 : 1_000;

const measures: Readonly<Record<string, () => Promise<readonly Figure[]>>> = {
  recording: () => measureRecording(rounds, 4 * second),
  sandbox: () => measureSandbox(),
  link: () => measureHostLink(rounds, 2 * second),
  openclaw: () => measureOpenClaw(rounds, quick ? 500 : 2_000, quick ? 500 : 10_000),
  neighbours: () => measureNeighbours(rounds, 10 * second),
  followers: () => measureFollowers(rounds, 8 * second),
  relay: () => measureRelay(rounds, quick ? 20_000 : 200_000),
  rebuild: () => measureRebuilding(quick ? 20_000 : 500_000),
  verify: () => measureVerifying(quick ? 20_000 : 500_000, rounds),
  memory: () => measureMemory(),
  reads: () => measureReading(quick ? 20_000 : 1_000_000),
};

const chosen = args.filter((arg) => !arg.startsWith('--'));
const unknown = chosen.filter((name) => !(name in measures));
if (unknown.length > 0) {
  console.error(`There is no measure ${unknown.join(', ')}. There are ${Object.keys(measures).join(', ')}.`);
  process.exit(2);
}

const machine = (): string => {
  const [cpu] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} × ${cpu?.model ?? 'unknown processor'}, ${memory} GiB, ${process.platform}, Node ${process.versions.node}`;
};

const figures: Figure[] = [];
for (const [name, measure] of Object.entries(measures)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue;
  console.log(`measuring ${name} …`);
  const some = await measure();
  for (const { measure: what, goal, reached, holds, from } of some) {
    const mark = goal === '' ? '      ' : holds ? '  ok  ' : '  NO  ';
    console.log(`${mark}${what}: ${reached}${goal === '' ? '' : ` (${goal})`}; ${from}`);
  }
  figures.push(...some);
}

if (args.includes('--write')) {
  const file = join(process.cwd(), 'docs/benchmarks.md');
  const command = `npm run bench${chosen.map((name) => ` ${name}`).join('')}`;
  const text = `Measured with \`${command}\` on ${machine()}.\n\n${tableOf(figures)}`;
  writeFileSync(file, between(readFileSync(file, 'utf8'), 'figures', text));
}
