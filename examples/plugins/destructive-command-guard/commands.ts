import type { Protected } from './paths.js';
import { isDevice, isPlace, lostFile, lostWithTree } from './paths.js';
import { mark, unmarked } from './shell.js';

/** What each dangerous program would do with its arguments. Names of programs are data; a rule gives words or null. */

/** What a rule may know beside its arguments. */
export interface Surroundings {
  readonly cwd: string | null;
  readonly guarded: Protected;
  /** The machine may be switched off or started again. */
  readonly powerAllowed: boolean;
}

export type Rule = (args: readonly string[], around: Surroundings) => string | null;

/** Arguments as getopt reads them: bundled letters, abbreviated long words, `--`, options between operands. */
export interface Arguments {
  readonly letters: string;
  readonly words: readonly string[];
  readonly operands: readonly string[];
}

/** `takesValue`: letters whose value is the next argument. */
export const readArguments = (args: readonly string[], takesValue = ''): Arguments => {
  let letters = '';
  const words: string[] = [];
  const operands: string[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? '';
    if (arg === '--') {
      operands.push(...args.slice(at + 1));
      break;
    }
    if (arg.startsWith('--')) words.push(arg.slice(2));
    else if (arg.startsWith('-') && arg.length > 1) {
      const own = arg.slice(1);
      const value = Array.from(own).findIndex((letter) => takesValue.includes(letter));
      letters += value < 0 ? own : own.slice(0, value + 1);
      if (value === own.length - 1) at += 1;
    } else operands.push(arg);
  }
  return { letters, words, operands };
};

/** Whether a long option was given, perhaps cut short as getopt allows. */
const has = ({ words }: Arguments, long: string, shortest = 1): boolean =>
  words.some((word) => {
    const name = word.split('=', 1)[0] ?? '';
    return name.length >= shortest && long.startsWith(name);
  });

const asksForHelp = (args: readonly string[]): boolean =>
  args.some((arg) => arg === '--help' || arg === '--version' || arg === '-V');

const first = <T>(items: readonly T[], say: (item: T) => string | null): string | null => {
  for (const item of items) {
    const said = say(item);
    if (said !== null) return said;
  }
  return null;
};

const remove: Rule = (args, { cwd, guarded }) => {
  const given = readArguments(args);
  if (has(given, 'no-preserve-root', 2)) return 'it switches off the protection of the root directory';
  // An option that only the shell knows may be -r.
  const deep = /[rR]/u.test(given.letters) || has(given, 'recursive') || args[0]?.startsWith(mark.unknown) === true;
  return first(given.operands, (path) => {
    const lost = (deep ? lostWithTree(path, cwd, guarded) : null) ?? lostFile(path, cwd, guarded);
    return lost === null ? null : `it would delete ${lost}`;
  });
};

const changeAccess: Rule = (args, { cwd, guarded }) => {
  const given = readArguments(args);
  // `-rwx` is a mode, and yet looks like letters; `-R` is what counts.
  const deep = given.letters.includes('R') || has(given, 'recursive', 2);
  const locks = args.some((arg) => /^(?:0{1,4}|(?:a|ugo)?(?:-[rwx]*x[rwx]*|=))$/u.test(arg));
  return first(given.operands, (path) => {
    const lost = deep ? lostWithTree(path, cwd, guarded) : null;
    if (lost !== null) return `it would change who may use ${lost}, with everything below`;
    return locks && isPlace(path, cwd, guarded) ? `it would lock everyone out of ${unmarked(path)}` : null;
  });
};

const writeOver = (path: string, { cwd, guarded }: Surroundings): string | null => {
  if (/^\/proc\/(?:sysrq-trigger|self\/mem|\d+\/mem)$/u.test(path)) return 'it would stop or crash the machine';
  const lost = lostFile(path, cwd, guarded);
  return lost === null ? null : `it would overwrite ${lost}`;
};

/** What a redirection or a written file would destroy. */
export const overwrites = writeOver;

/** What a deletion of one path with everything below would destroy. */
export const deletes = (path: string, around: Surroundings): string | null => remove(['-r', '--', path], around);

const copyBlocks: Rule = (args, around) =>
  first(args, (arg) => (arg.startsWith('of=') ? writeOver(arg.slice(3), around) : null));

const copy: Rule = (args, around) => {
  const { operands } = readArguments(args, 'tS');
  const target = operands.at(-1) ?? '';
  if (isDevice(target)) return 'it would overwrite a disk';
  return operands[0] === '/dev/null' ? writeOver(target, around) : null;
};

const move: Rule = (args, { cwd, guarded }) => {
  const given = readArguments(args, 'tS');
  const into = given.letters.includes('t') || has(given, 'target-directory');
  if (given.operands.at(-1) === '/dev/null') return 'what is moved to /dev/null is lost';
  return first(into ? given.operands : given.operands.slice(0, -1), (path) => {
    const lost = lostWithTree(path, cwd, guarded) ?? lostFile(path, cwd, guarded);
    return lost === null ? null : `it would move away ${lost}`;
  });
};

const tee: Rule = (args, around) => {
  const given = readArguments(args);
  return first(given.operands, (path) =>
    isDevice(path) || !given.letters.includes('a') ? writeOver(path, around) : null,
  );
};

const cut: Rule = (args, around) => first(readArguments(args, 'srn').operands, (path) => writeOver(path, around));

const link: Rule = (args, around) => {
  const target = readArguments(args, 'tS').operands.at(-1) ?? '';
  return writeOver(target, around);
};

const sync: Rule = (args, { cwd, guarded }) => {
  const given = readArguments(args, 'efTBM');
  if (!given.words.some((word) => word.startsWith('del'))) return null;
  const lost = lostWithTree(given.operands.at(-1) ?? '', cwd, guarded);
  return lost === null ? null : `it would delete what the source has not from ${lost}`;
};

const onDisk =
  (does: string, harmless = /^$/u, needs = /^/u): Rule =>
  (args) => {
    if (asksForHelp(args) || args.some((arg) => harmless.test(arg)) || !args.some((arg) => needs.test(arg)))
      return null;
    return args.some((arg) => isDevice(arg) || arg.includes(mark.unknown)) ? `it would ${does}` : null;
  };

const verb =
  (does: string, ...verbs: readonly string[]): Rule =>
  (args) =>
    args.some((arg) => verbs.includes(arg)) ? `it would ${does}` : null;

const always =
  (does: string): Rule =>
  (args) =>
    asksForHelp(args) ? null : `it would ${does}`;

const power: Rule = (args, { powerAllowed }) =>
  powerAllowed || asksForHelp(args) || args.some((arg) => arg === '-c' || arg === '--show')
    ? null
    : 'it would stop the machine';

const runLevel: Rule = (args, around) => (args.some((arg) => /^[0156sS]$/u.test(arg)) ? power([], around) : null);

const services: Rule = (args, around) => {
  const { operands } = readArguments(args, 'HMtsnop');
  const stops = /^(?:poweroff|reboot|soft-reboot|halt|kexec|emergency|rescue|exit)(?:\.target)?$/u;
  const [does = '', target = ''] = operands;
  return stops.test(does) || (does === 'isolate' && stops.test(target)) ? power([], around) : null;
};

const kill: Rule = (args) => {
  const [head = '', ...rest] = args;
  const targets = head.startsWith('-') && head !== '--' ? rest : args;
  return targets.some((target) => target === '-1' || target === '1') ? 'it would end every process' : null;
};

const killByName: Rule = (args) => {
  const { operands } = readArguments(args, 'ugGPstUF');
  return operands.some((name) => /^[.*^$?\uE000\uE001]*$/u.test(name)) ? 'it would end every process' : null;
};

const partition: Rule = (args) => {
  const changes = /^(?:mklabel|mktable|mkpart|rm|resizepart|rescue|set)$/u;
  return args.some((arg) => isDevice(arg)) && args.some((arg) => changes.test(arg))
    ? 'it would change a partition table'
    : null;
};

const volumes = always('remove a volume');

/** Rules by program. A name with `*` stands for a family (`mkfs.ext4`). */
export const rules: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ['rm', remove],
  ['grm', remove],
  ['srm', remove],
  ['unlink', remove],
  ['rimraf', (args, around) => remove(['-r', ...args], around)],
  ['trash', (args, around) => remove(['-r', ...args], around)],
  ['shred', cut],
  ['truncate', cut],
  ['dd', copyBlocks],
  ['dcfldd', copyBlocks],
  ['cp', copy],
  ['install', copy],
  ['mv', move],
  ['ln', link],
  ['tee', tee],
  ['sponge', tee],
  ['rsync', sync],
  ['chmod', changeAccess],
  ['chown', changeAccess],
  ['chgrp', changeAccess],
  ['setfacl', changeAccess],
  ['chattr', changeAccess],
  ['mkfs', onDisk('format a disk')],
  ['mke2fs', onDisk('format a disk')],
  ['mkswap', onDisk('format a disk')],
  ['mkdosfs', onDisk('format a disk')],
  ['mkntfs', onDisk('format a disk')],
  ['newfs', onDisk('format a disk')],
  ['wipefs', onDisk('wipe a disk', /^$/u, /^(?:-[a-z]*[ao]|--all|--offset)/u)],
  ['blkdiscard', onDisk('wipe a disk')],
  ['badblocks', onDisk('overwrite a disk', /^$/u, /^-[a-z]*w/u)],
  ['hdparm', onDisk('wipe a disk', /^$/u, /^--(?:security-erase|trim-sector|write-sector|make-bad)/u)],
  ['nvme', verb('wipe a disk', 'format', 'sanitize', 'write-zeroes')],
  ['sgdisk', onDisk('change a partition table', /^$/u, /^(?:-[a-zA-Z]*[zZodn]|--(?:zap|clear|delete|new))/u)],
  ['sfdisk', onDisk('change a partition table', /^(?:-[ldVvs]|--list|--dump|--verify)/u)],
  ['fdisk', onDisk('change a partition table', /^(?:-[lsx]|--list)/u)],
  ['gdisk', onDisk('change a partition table', /^-l/u)],
  ['cfdisk', onDisk('change a partition table')],
  ['parted', partition],
  ['cryptsetup', verb('make a disk unreadable', 'luksFormat', 'erase', 'luksErase', 'luksKillSlot', 'reencrypt')],
  ['lvremove', volumes],
  ['vgremove', volumes],
  ['pvremove', volumes],
  ['zpool', verb('destroy a pool', 'destroy', 'labelclear')],
  ['zfs', verb('destroy a data set', 'destroy')],
  ['mdadm', verb('destroy an array', '--zero-superblock')],
  [
    'diskutil',
    verb('erase a disk', 'eraseDisk', 'eraseVolume', 'zeroDisk', 'randomDisk', 'secureErase', 'partitionDisk'),
  ],
  ['dmsetup', verb('remove every mapping', 'remove_all', 'wipe_table')],
  ['shutdown', power],
  ['reboot', power],
  ['halt', power],
  ['poweroff', power],
  ['init', runLevel],
  ['telinit', runLevel],
  ['systemctl', services],
  ['loginctl', services],
  ['kill', kill],
  ['pkill', killByName],
  ['killall', killByName],
  ['killall5', always('end every process')],
  ['crontab', (args) => (readArguments(args, 'u').letters.includes('r') ? 'it would delete the whole schedule' : null)],
  ['userdel', verb('remove the root user', 'root')],
  ['deluser', verb('remove the root user', 'root')],
]);

/** The rule of a program, by its name without folders. */
export const ruleFor = (name: string): Rule | undefined =>
  rules.get(name) ?? (name.startsWith('mkfs.') ? rules.get('mkfs') : undefined);

/** Programs that remove what they are given. */
export const removers: ReadonlySet<string> = new Set([
  'rm',
  'grm',
  'srm',
  'unlink',
  'rimraf',
  'shred',
  'trash',
  'truncate',
]);
