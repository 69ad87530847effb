import { readdirSync, readFileSync } from 'node:fs';

/** A process and all that descend from it. */
export const treeOf = (root: number): readonly number[] => {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    const parent = /^\d+$/u.test(name) ? parentOf(name) : null;
    if (parent !== null) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const below = (pid: number): readonly number[] => [pid, ...(children.get(pid) ?? []).flatMap(below)];
  return below(root);
};

const statOf = (pid: number | string): readonly string[] => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
};

const parentOf = (pid: string): number | null => {
  try {
    return Number(statOf(pid)[1]);
  } catch {
    // It ended meanwhile.
    return null;
  }
};

/** Processor time that a process has used, µs, in steps of 10 ms; null where it ended. */
const cpuUsOf = (pid: number): number | null => {
  try {
    const stat = statOf(pid);
    return (Number(stat[11]) + Number(stat[12])) * 10_000;
  } catch {
    return null;
  }
};

/** Starts to count the processor time of some processes; what it gives says how much it is by then, µs. */
export const cpuUsed = (pids: readonly number[]): (() => number) => {
  const began = pids.map(cpuUsOf);
  return () =>
    pids.reduce((sum, pid, index) => {
      const [from, to] = [began[index] ?? null, cpuUsOf(pid)];
      return from === null || to === null ? sum : sum + to - from;
    }, 0);
};

/** Proportional set size in MB: shared pages count once over all that share them. */
export const pssOf = (pid: number): number => {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Pss: +(\d+) kB/mu.exec(rollup)?.[1] ?? 0) / 1000;
};
