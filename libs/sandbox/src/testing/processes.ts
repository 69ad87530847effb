import { readFileSync, readdirSync } from 'node:fs';

/** All processes below this one, by what /proc says. */
export const descendants = (pid: number): number[] => {
  const below: number[] = [];
  const queue = [pid];
  for (let of = queue.pop(); of !== undefined; of = queue.pop()) {
    const children = childrenOf(of);
    below.push(...children);
    queue.push(...children);
  }
  return below;
};

const childrenOf = (pid: number): number[] => {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    );
  } catch {
    return [];
  }
};

/** Of those, the sandbox children themselves, not what stands before them in their start line. */
export const sandboxPids = (pid: number): number[] =>
  descendants(pid).filter((below) => {
    const command = read(`/proc/${below}/cmdline`).split('\0');
    return command[0]?.endsWith('node') === true && command[1] === '--no-node-snapshot';
  });

export const read = (path: string): string => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
};

export const isAlive = (pid: number): boolean => {
  const state = /^State:\s+(\S)/m.exec(read(`/proc/${pid}/status`))?.[1];
  return state !== undefined && state !== 'Z';
};

/** Polls until it is so. */
export const until = async (isSo: () => boolean): Promise<void> => {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 10));
};
