import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Writes a file as a whole: after a crash it is there with all of this text, or as it was before. */
export const writeDurably = async (path: string, text: string): Promise<void> => {
  const beside = `${path}.${globalThis.crypto.randomUUID()}.new`;
  try {
    const file = await open(beside, 'w', 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
};

/** Removes a file, for good. */
export const removeDurably = async (path: string): Promise<void> => {
  await rm(path, { force: true });
  await syncFolder(dirname(path));
};

/** A name is in its folder only once that is written; Windows cannot, and need not, be asked. */
const syncFolder = async (folder: string): Promise<void> => {
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};
