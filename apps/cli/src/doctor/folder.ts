import { accessSync, constants, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Finding } from './finding.js';
import { codeOf, fine, problem } from './finding.js';

const { R_OK, W_OK, X_OK } = constants;

/** Whether the server could keep its keys and its database in this folder, and nobody else could reach them. */
export const examineFolder = (dataDir: string): readonly Finding[] => {
  const stat = statOf(dataDir);
  if (stat === null) return [examineAbsent(dataDir)];
  if (!stat.isDirectory()) return [problem('data', `${dataDir} is a file; the data folder must be a folder.`)];
  const denied = refusal(dataDir, R_OK | W_OK | X_OK);
  if (denied !== null) {
    const us = process.getuid?.() ?? '?';
    return [
      problem(
        'data',
        `The data folder ${dataDir} cannot be used (${denied}). It belongs to user ${stat.uid}; this is user ${us}. ` +
          'Give it to this one (chown -R), or set HOOKLEDGER_DATA to another folder.',
      ),
    ];
  }
  const open = [...examineModes(dataDir, stat.mode), ...examinePassword(dataDir)];
  return open.length > 0 ? open : [fine('data', `The data folder ${dataDir} can be used, and only by its owner.`)];
};

const statOf = (path: string) => {
  try {
    return statSync(path, { throwIfNoEntry: false }) ?? null;
  } catch (error) {
    // A file on the way to it: then nothing is there either, and the way says so.
    if (codeOf(error) === 'ENOTDIR') return null;
    throw error;
  }
};

const examineAbsent = (dataDir: string): Finding => {
  let folder = dirname(dataDir);
  while (statOf(folder) === null && folder !== dirname(folder)) folder = dirname(folder);
  const denied = statOf(folder)?.isDirectory() === true ? refusal(folder, W_OK | X_OK) : 'ENOTDIR';
  return denied === null
    ? fine('data', `The data folder ${dataDir} does not exist yet; the first start makes it.`)
    : problem('data', `The data folder ${dataDir} does not exist and cannot be made in ${folder} (${denied}).`);
};

const refusal = (path: string, mode: number): string | null => {
  try {
    accessSync(path, mode);
    return null;
  } catch (error) {
    return codeOf(error);
  }
};

const examineModes = (dataDir: string, mode: number): readonly Finding[] => {
  if (process.platform === 'win32' || (mode & 0o022) === 0) return [];
  return [
    problem('data', `Others may write in ${dataDir}, and so put another key in its place: run chmod go-w on it.`),
  ];
};

const examinePassword = (dataDir: string): readonly Finding[] => {
  const path = join(dataDir, 'postgres.password');
  const stat = statOf(path);
  if (stat === null || process.platform === 'win32' || (stat.mode & 0o077) === 0) return [];
  return [problem('data', `${path}, the password of the database, can be read by others: run chmod 600 on it.`)];
};
