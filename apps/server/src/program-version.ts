import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The version in the package file of the folder that the program was started from. */
export const programVersion = (): string => {
  const read = (folder: string): string => {
    try {
      return (JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string }).version;
    } catch (error) {
      if (folder === dirname(folder)) throw error;
      return read(dirname(folder));
    }
  };
  return read(dirname(fileURLToPath(import.meta.url)));
};
