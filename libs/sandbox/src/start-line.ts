import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** An unprivileged user that owns nothing: `nobody` on every Linux. */
const NOBODY = 65534;

/** The kernel's limit on writable memory counts what is reserved and never used, so it is above the limit on resident memory. */
const DATA_SLACK = 256 * 1024 * 1024;

/** How a child is started: what stands before `node`, and what is missing in it, in words for an operator. */
export interface StartLine {
  readonly name: string;
  readonly before: readonly string[];
  /** The user that the child itself has to become, since the start line cannot. */
  readonly becomes: number | null;
  readonly missing: readonly string[];
}

const tool = (name: string): string | null =>
  ['/usr/bin', '/bin', '/usr/sbin', '/sbin'].map((folder) => join(folder, name)).find((path) => existsSync(path)) ??
  null;

const NO_NAMESPACES = 'no namespaces of its own (network, processes, mounts): needs root or user namespaces';
const SAME_USER =
  'runs as the same user as the server: start the server as root to give the children a user without rights';
const NO_LIMITS = 'no limits on open files and core dumps: needs prlimit';
const MAY_GAIN = 'may gain privileges: needs setpriv (--no-new-privs)';

/**
 * Start lines from the hardest to none. The first that works on this machine is taken. A child dies with the server in
 * all of them that have setpriv: the death signal is set before `unshare`, and kept over the change of user.
 */
export const startLines = (isRoot: boolean, maxBytes: number, jit: boolean): readonly StartLine[] => {
  const [unshare, prlimit, setpriv] = ['unshare', 'prlimit', 'setpriv'].map(tool);
  const lines: StartLine[] = [];
  // The JIT reserves half a gigabyte for code in each isolate and counts it as data: there the limit would hit everybody.
  const data = jit ? [] : [`--data=${maxBytes + DATA_SLACK}`];
  const limits = prlimit ? [prlimit, '--nofile=64', '--core=0', '--fsize=65536', ...data] : [];
  if (setpriv && prlimit) {
    const dying = [setpriv, '--pdeathsig', 'KILL'];
    const bare = [setpriv, '--no-new-privs', '--pdeathsig', 'keep'];
    const spaces = ['--net', '--ipc', '--uts', '--mount', '--pid', '--fork', '--kill-child'];
    const asNobody = [setpriv, `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups', ...bare.slice(1)];
    const dropped = [...bare, '--inh-caps=-all', '--bounding-set=-all'];
    if (isRoot && unshare) {
      const apart = [...dying, unshare, ...spaces, ...limits];
      lines.push({ name: 'namespaces, nobody', before: [...apart, ...asNobody], becomes: null, missing: [] });
      // Where nobody may not read the program's folder, the child becomes nobody once it has loaded itself.
      // Changing user clears the death signal, so a shell stays behind as the first process of the namespace: when it
      // dies with the server, the kernel ends everything in there.
      const first = [...dying, unshare, ...spaces, '/bin/sh', '-c', '"$@"; exit $?', 'sh', ...limits, ...bare];
      lines.push({ name: 'namespaces, becomes nobody', before: first, becomes: NOBODY, missing: [] });
    }
    if (unshare) {
      const apart = [...dying, unshare, '--user', '--map-current-user', ...spaces, ...limits, ...dropped];
      if (!isRoot) lines.push({ name: 'user namespaces', before: apart, becomes: null, missing: [] });
    }
    if (isRoot) {
      lines.push({
        name: 'nobody',
        before: [...dying, ...limits, ...asNobody],
        becomes: null,
        missing: [NO_NAMESPACES],
      });
      lines.push({
        name: 'becomes nobody',
        before: [...dying, ...limits, ...bare],
        becomes: NOBODY,
        missing: [NO_NAMESPACES],
      });
    }
    const missing = isRoot ? [NO_NAMESPACES, 'runs as root'] : [NO_NAMESPACES, SAME_USER];
    lines.push({ name: 'limits', before: [...dying, ...limits, ...bare], becomes: null, missing });
  }
  const nothing = [NO_NAMESPACES, SAME_USER, NO_LIMITS, MAY_GAIN];
  lines.push({ name: 'nothing', before: [], becomes: null, missing: nothing });
  return lines;
};

/** Flags of the child's Node. */
export const nodeFlags = (jit: boolean): readonly string[] => [
  '--no-node-snapshot',
  ...(jit ? [] : ['--jitless']),
  '--v8-pool-size=1',
  '--max-semi-space-size=1',
  '--max-old-space-size=256',
];
