import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/** A user that Postgres may run as, which is never root. */
export interface ServerUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/**
 * Whom to run Postgres as: null = as we are. Root hands over to the owner of the data where there already is some,
 * else to `postgres`, else to `nobody`.
 */
export const serverUser = (dataOwner: number | null): ServerUser | null => {
  if (process.getuid?.() !== 0) return null;
  const users = knownUsers();
  if (dataOwner !== null && dataOwner !== 0) {
    return users.find(({ uid }) => uid === dataOwner) ?? { name: `user ${dataOwner}`, uid: dataOwner, gid: dataOwner };
  }
  const nobody: ServerUser = { name: 'nobody', uid: 65_534, gid: 65_534 };
  return users.find(({ name }) => name === 'postgres') ?? users.find(({ name }) => name === 'nobody') ?? nobody;
};

const knownUsers = (): readonly ServerUser[] => {
  const lines = (existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8') : '').split('\n');
  return lines.flatMap((line) => {
    const [name = '', , uid = '', gid = ''] = line.split(':');
    return /^\d+$/u.test(uid) && /^\d+$/u.test(gid) && uid !== '0'
      ? [{ name, uid: Number(uid), gid: Number(gid) }]
      : [];
  });
};

/** The first folder on the way to `path` that the user may not pass through; null when the way is free. */
export const closedFolder = (path: string, user: ServerUser): string | null => {
  const closed: string[] = [];
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (!mayEnter(folder, user)) closed.push(folder);
    if (folder === dirname(folder)) return closed.at(-1) ?? null;
  }
};

const mayEnter = (folder: string, { uid, gid }: ServerUser): boolean => {
  const stat = statSync(folder);
  if (stat.uid === uid) return (stat.mode & 0o100) !== 0;
  return (stat.mode & (stat.gid === gid ? 0o010 : 0o001)) !== 0;
};
