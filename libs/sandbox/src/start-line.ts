import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** An unprivileged user that owns nothing: `nobody` on every Linux. */
const NOBODY = 65534;

/** What a start line starts. */
export interface Started {
  /** Node itself. */
  readonly node: string;
  /** Given where the program's folder and the addon are seen by the child. */
  readonly flags: (folder: string, addon: string) => readonly string[];
  /** The folder of the child's program, and the file in it that is run. */
  readonly folder: string;
  readonly file: string;
  /** isolated-vm's binary; of a Python child the snapshot it starts from. */
  readonly addon: string;
  readonly isolateMiB: number;
}

/** How a child is started: a whole command, and what is missing in it, in words for an operator. */
export interface StartLine {
  readonly name: string;
  readonly command: (started: Started) => readonly string[];
  readonly missing: readonly string[];
}

const NO_NAMESPACES = 'no namespaces of its own (network, processes, mounts): needs root or user namespaces';
const SAME_USER =
  'runs as the same user as the server: start the server as root to give the children a user without rights';
const OWN_FILES = 'sees the files of the user that the server runs as: needs a mount namespace with a root of its own';
const NO_LIMITS = 'no limits on memory, open files and core dumps: needs prlimit';
const MAY_GAIN = 'may gain privileges: needs setpriv (--no-new-privs)';
const MAY_OUTLIVE =
  'may outlive a server that is killed, until what it runs comes to an end: needs a process namespace';

/**
 * The kernel's limit on writable memory counts what is reserved and never used, so it is above the one on resident memory.
 */
const DATA_SLACK = 256 * 1024 * 1024;

/**
 * A root of the child's own: Node, the child's program, isolated-vm and the system's libraries, read-only, and nothing
 * else; no /proc, no home, no data folder. Mounted in the child's mount namespace, so it goes with it. Who has changed
 * root cannot make user namespaces either. /sys is only the place
 * where it is put together, in the child's own view: it is there on every Linux, and nothing that is needed is below it.
 * Arguments: node, addon, program, prlimit, setpriv, command.
 */
const OWN_ROOT = `set -e
node=$1 addon=$2 program=$3 prlimit=$4 setpriv=$5
shift 5
mount -t tmpfs -o size=64k,nr_inodes=128,mode=755,nosuid,nodev tmpfs /sys
cd /sys
keep() { mount --rbind "$1" "$2"; mount -o remount,bind,ro,nosuid,nodev "$2"; }
keep_file() { : > "$2"; keep "$1" "$2"; }
mkdir sandbox sandbox/program
keep_file "$node" sandbox/node
keep_file "$addon" sandbox/addon.node
keep_file "$prlimit" sandbox/prlimit
keep_file "$setpriv" sandbox/setpriv
keep "$program" sandbox/program
echo '{"type":"module"}' > sandbox/package.json
for folder in /lib /lib32 /lib64 /usr/lib /usr/lib32 /usr/lib64; do
  mkdir -p ".\${folder%/*}"
  if [ -L "$folder" ]; then ln -s "$(readlink "$folder")" ".$folder"
  elif [ -d "$folder" ]; then mkdir ".$folder"; keep "$folder" ".$folder"
  fi
done
if [ -f /etc/ld.so.cache ]; then mkdir etc; keep_file /etc/ld.so.cache etc/ld.so.cache; fi
mount -o remount,bind,ro,nosuid,nodev /sys
unset PWD OLDPWD
exec chroot . "$@"`;

/** Runs the rest as a child and waits for it. */
const STAY = 'unset PWD OLDPWD; "$@"; exit $?';

const SPACES = ['--net', '--ipc', '--uts', '--mount', '--pid', '--fork', '--kill-child'];

const inPlace =
  (before: readonly string[], becomes: number | null = null) =>
  ({ node, flags, folder, file, addon, isolateMiB }: Started): readonly string[] => [
    ...before,
    node,
    ...flags(folder, addon),
    join(folder, file),
    addon,
    JSON.stringify({ isolateMiB, user: becomes }),
  ];

const inOwnRoot =
  (before: readonly string[], prlimit: string, setpriv: string, limits: readonly string[], rights: readonly string[]) =>
  ({ node, flags, folder, file, addon, isolateMiB }: Started): readonly string[] => [
    ...before,
    ...['/bin/sh', '-c', OWN_ROOT, 'sh', node, addon, folder, prlimit, setpriv],
    ...['/sandbox/prlimit', ...limits, '/sandbox/setpriv', ...rights],
    ...['/sandbox/node', ...flags('/sandbox/program', '/sandbox/addon.node')],
    ...[join('/sandbox/program', file), '/sandbox/addon.node'],
    JSON.stringify({ isolateMiB, user: null }),
  ];

/**
 * Start lines from the hardest to none; the first that works on this machine is taken. In all of them that have
 * setpriv a child dies with the server: the death signal is set before `unshare`, and kept over the change of user.
 */
export const startLines = (isRoot: boolean, maxBytes: number, jit: boolean): readonly StartLine[] => {
  const [unshare, prlimit, setpriv] = ['unshare', 'prlimit', 'setpriv'].map(tool);
  const nothing: StartLine = {
    name: 'nothing',
    command: inPlace([]),
    missing: [NO_NAMESPACES, isRoot ? 'runs as root' : SAME_USER, NO_LIMITS, MAY_GAIN, MAY_OUTLIVE],
  };
  if (!setpriv || !prlimit) return [nothing];
  // The JIT reserves half a gigabyte for code in each isolate and counts it as data: there the limit would hit everybody.
  const data = jit ? [] : [`--data=${maxBytes + DATA_SLACK}`];
  const limits = ['--nofile=64', '--core=0', '--fsize=65536', ...data];
  const limited = [prlimit, ...limits];
  const dying = [setpriv, '--pdeathsig', 'KILL'];
  const kept = ['--no-new-privs', '--pdeathsig', 'keep'];
  const nobody = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups', ...kept];
  const none = [...kept, '--inh-caps=-all', '--bounding-set=-all'];
  const lines: StartLine[] = [];
  if (unshare && isRoot) {
    const apart = [...dying, unshare, ...SPACES];
    const becomes = [...apart, '/bin/sh', '-c', STAY, 'sh', ...limited, setpriv, ...kept];
    lines.push(
      { name: 'own root, nobody', command: inOwnRoot(apart, prlimit, setpriv, limits, nobody), missing: [] },
      { name: 'namespaces, nobody', command: inPlace([...apart, ...limited, setpriv, ...nobody]), missing: [] },
      // Where nobody may not read the program's folder, the child becomes nobody once it has loaded itself. That clears
      // the death signal, so a shell stays behind as the first process of the namespace: when it dies with the server,
      // the kernel ends everything in there.
      { name: 'namespaces, becomes nobody', command: inPlace(becomes, NOBODY), missing: [] },
    );
  }
  if (unshare && !isRoot) {
    const apart = [...dying, unshare, '--user', '--map-root-user', ...SPACES];
    lines.push(
      { name: 'own root, user namespace', command: inOwnRoot(apart, prlimit, setpriv, limits, none), missing: [] },
      { name: 'user namespace', command: inPlace([...apart, ...limited, setpriv, ...none]), missing: [OWN_FILES] },
    );
  }
  if (isRoot) {
    const before = [...dying, ...limited, setpriv];
    lines.push(
      { name: 'nobody', command: inPlace([...before, ...nobody]), missing: [NO_NAMESPACES] },
      { name: 'becomes nobody', command: inPlace([...before, ...kept], NOBODY), missing: [NO_NAMESPACES, MAY_OUTLIVE] },
    );
  }
  const missing = [NO_NAMESPACES, isRoot ? 'runs as root' : SAME_USER];
  return [...lines, { name: 'limits', command: inPlace([...dying, ...limited, setpriv, ...kept]), missing }, nothing];
};

const tool = (name: string): string | null =>
  ['/usr/bin', '/bin', '/usr/sbin', '/sbin'].map((folder) => join(folder, name)).find((path) => existsSync(path)) ??
  null;

/** Flags of the child's Node. */
export const nodeFlags = (jit: boolean): readonly string[] => [
  '--no-node-snapshot',
  ...(jit ? [] : ['--jitless']),
  '--v8-pool-size=1',
  '--max-semi-space-size=1',
  '--max-old-space-size=256',
];

/**
 * Flags of the Node of a Python child: it needs WebAssembly, and so the JIT. A second ring around the interpreter
 * (python-runtime.md §5): no code from texts, and files only where its program lies.
 */
export const pythonFlags = (folder: string, addon: string): readonly string[] => [
  '--permission',
  `--allow-fs-read=${folder}/*`,
  `--allow-fs-read=${addon}`,
  '--disallow-code-generation-from-strings',
  '--no-warnings',
  '--max-semi-space-size=1',
  '--max-old-space-size=256',
];
