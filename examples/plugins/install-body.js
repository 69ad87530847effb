/**
 * Prints the body that installs a plugin of this folder: what its plugin.json says, with its source.
 *
 *   node examples/plugins/install-body.js terse-answers | curl … -d @- …/plugins
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const [name = ''] = process.argv.slice(2);
const folder = join(import.meta.dirname, name);
const { entry, ...plugin } = JSON.parse(readFileSync(join(folder, 'plugin.json'), 'utf8'));

const names = readdirSync(folder).filter((file) => /\.[jt]s$/.test(file) && !/\.(spec|d)\.ts$/.test(file));
const files = Object.fromEntries(names.map((file) => [file, readFileSync(join(folder, file), 'utf8')]));
const source = names.length === 1 ? { source: files[entry] } : { files, entry };

process.stdout.write(JSON.stringify({ ...plugin, ...source }));
