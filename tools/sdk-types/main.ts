import { writeFileSync } from 'node:fs';
import { hookTypes } from './hook-types.js';

const path = 'libs/sdk/src/generated/hooks.ts';
writeFileSync(path, await hookTypes(path));
