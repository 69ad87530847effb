import { conformance } from './conformance/conformance.js';

/** What the program can do; each takes the words after its name and gives the exit code. */
const commands: ReadonlyMap<string, (args: readonly string[]) => Promise<number>> = new Map([
  ['conformance', conformance],
]);

const [name = '', ...args] = process.argv.slice(2);
const command = commands.get(name);
if (command === undefined) {
  console.error(`hookledger: say what to do: ${[...commands.keys()].join(', ')}`);
  process.exitCode = 2;
} else {
  process.exitCode = await command(args);
}
