// Makes the folder that is published as @hookledger/sdk: dist/sdk, with `npm pack` or `npm publish` from there.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, 'libs/sdk');
const target = join(root, 'dist/sdk');

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const built = spawnSync(process.execPath, [tsc, '-p', join(source, 'tsconfig.json')], { stdio: 'inherit' });
if (built.status !== 0) process.exit(built.status ?? 1);
for (const file of ['package.json', 'README.md']) copyFileSync(join(source, file), join(target, file));
copyFileSync(join(root, 'LICENSE'), join(target, 'LICENSE'));
