import { readFileSync, readlinkSync, statSync } from 'node:fs';

/** True while the process runs. One that ended and was not yet collected by its parent (a zombie) does not. */
export const isAlive = (pid: number): boolean => exists(pid) && !isZombie(pid);

/** True while the pid is taken, be it by a process that has ended. */
export const exists = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { code?: string }).code === 'EPERM';
  }
};

const isZombie = (pid: number): boolean => {
  try {
    // proc(5): the state stands after the name, which is in parentheses and may hold anything.
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
};

/** The folder that a process works in, where the system tells. */
export const workingFolder = (pid: number): string | null => {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return null;
  }
};

/** User id that a process runs as, where the system tells. */
export const ownerOf = (pid: number): number | null => {
  try {
    return statSync(`/proc/${pid}`).uid;
  } catch {
    return null;
  }
};
