import { mark } from './shell.js';

/**
 * Which paths must not be lost. A path is judged as its list of names; a name may be a pattern, since the shell would
 * have matched it against what is there.
 */

/** Directories of a system, and with `*` for one name of any kind, people's homes. Nobody removes these on purpose. */
const systemPlaces = [
  '/',
  '/bin', '/boot', '/dev', '/etc', '/home', '/lib', '/lib32', '/lib64', '/libx32', '/lost+found', '/media', '/mnt',
  '/opt', '/proc', '/root', '/run', '/sbin', '/snap', '/srv', '/sys', '/usr', '/var',
  '/boot/efi', '/boot/grub', '/boot/grub2', '/dev/disk', '/dev/mapper', '/etc/init.d', '/etc/pam.d', '/etc/ssh',
  '/etc/ssl', '/etc/sudoers.d', '/etc/systemd', '/etc/systemd/system', '/home/*', '/home/*/.ssh', '/lib/modules',
  '/lib/systemd', '/root/.ssh', '/usr/bin', '/usr/include', '/usr/lib', '/usr/lib/modules', '/usr/lib/systemd',
  '/usr/lib64', '/usr/libexec', '/usr/local', '/usr/local/bin', '/usr/local/lib', '/usr/local/sbin', '/usr/sbin',
  '/usr/share', '/var/backups', '/var/lib', '/var/lib/containerd', '/var/lib/docker', '/var/lib/dpkg',
  '/var/lib/kubelet', '/var/lib/mysql', '/var/lib/pgsql', '/var/lib/postgresql', '/var/lib/rpm', '/var/lib/systemd',
  '/var/log', '/var/mail', '/var/spool', '/var/spool/cron', '/var/www',
  '/Applications', '/Library', '/System', '/Users', '/Users/*', '/Volumes', '/private', '/private/etc', '/private/var',
  '~', '~/.ssh', '~/.gnupg', '~/.config',
]; // prettier-ignore

/** Files without which nobody gets in, or nothing starts. */
const vitalFiles = [
  '/etc/passwd', '/etc/shadow', '/etc/group', '/etc/gshadow', '/etc/sudoers', '/etc/fstab', '/etc/crypttab',
  '/etc/ssh/sshd_config', '~/.ssh/authorized_keys', '/root/.ssh/authorized_keys', '/home/*/.ssh/authorized_keys',
]; // prettier-ignore

const devices =
  /^\/dev\/(?:[hsv]d[a-z]|xvd[a-z]|nvme\d|mmcblk\d|dm-\d|md\d|md\/|mapper\/|disk\/|disk\d|rdisk\d|sr\d|nbd\d|zvol\/|vg|mem$|kmem$|port$)/u;

/** Says where a text leads: names from the root (`/`) or the home directory (`~`), or from an unknown place (`.`). */
export interface Place {
  readonly root: '/' | '~' | '.';
  readonly names: readonly string[];
  /** `a/..` beyond an unknown start. */
  readonly above: boolean;
  /** It leads here only if a variable that nobody checked is empty. */
  readonly ifEmpty: boolean;
}

/** Reads a path as the shell and the kernel would: variables may be empty, `//`, `.` and `..` mean nothing. */
export const placeOf = (text: string, cwd: string | null): Place => {
  const joined = isAbsolute(text.replaceAll(mark.unknown, '')) ? text : `${cwd ?? '.'}/${text}`;
  const whole = joined.replaceAll(mark.unknown, '');
  const ifEmpty = whole !== joined;
  const home = new RegExp(`^${mark.home}[\\w.-]*`, 'u').exec(whole);
  const root = home === null ? (whole.startsWith('/') ? '/' : '.') : '~';
  const names: string[] = [];
  let above = false;
  for (const name of whole.slice(home?.[0].length ?? 0).split('/')) {
    if (name === '' || name === '.') continue;
    if (name !== '..') names.push(name);
    else if (names.length > 0) names.pop();
    else above = true;
  }
  // `/proc/self/root` is the root under another name.
  if (root === '/' && names[0] === 'proc' && names[2] === 'root') names.splice(0, 3);
  // Above the home directory are all homes; above the root is the root.
  if (root === '~' && above) return { root: '/', names: ['home', ...names], above: false, ifEmpty };
  return { root, names, above: above && root === '.', ifEmpty };
};

const isAbsolute = (text: string): boolean => text.startsWith('/') || text.startsWith(mark.home);

/** Words for what would be lost; null when the path is nobody's concern here. */
export type Loss = string | null;

/** Places that a removal with everything below must not reach. */
export interface Protected {
  readonly places: readonly Place[];
  readonly files: readonly Place[];
}

/** The protected places, with those that the account added. */
export const protectedPlaces = (more: readonly string[]): Protected => ({
  places: [...systemPlaces, ...more].map(pattern),
  files: [...vitalFiles, ...more].map(pattern),
});

const pattern = (path: string): Place => placeOf(path.replace(/^~/u, mark.home).replaceAll('*', mark.star), null);

/** What is lost when `text` is removed with everything below it. */
export const lostWithTree = (text: string, cwd: string | null, guarded: Protected): Loss => {
  // A variable alone that turns out empty is no path at all.
  if (text.includes(mark.unknown) && !text.includes('/')) return null;
  const place = placeOf(text, cwd);
  if (place.root === '.') return lostHere(place);
  if (place.names.length === 0)
    return sayLoss(place.root === '/' ? 'the whole file system' : 'the home directory', place);
  const other = guarded.places.find((candidate) => covers(place, candidate));
  return other === undefined ? null : sayLoss(nameOf(other), place);
};

/** What is lost when the files that `text` names are removed, cut or replaced. */
export const lostFile = (text: string, cwd: string | null, guarded: Protected): Loss => {
  if (isDevice(text, cwd)) return 'a disk';
  const place = placeOf(text, cwd);
  if (place.root === '.') return null;
  const file = guarded.files.find((other) => other.names.length === place.names.length && matches(place, other));
  if (file !== undefined) return sayLoss(nameOf(file), place);
  // `rm /etc/*` takes the files of a directory although it leaves the directory.
  if (!isBroad(place.names.at(-1) ?? '')) return null;
  const parent = { ...place, names: place.names.slice(0, -1) };
  const other = guarded.places.find(
    (candidate) => candidate.names.length === parent.names.length && matches(parent, candidate),
  );
  return other === undefined ? null : sayLoss(`every file in ${nameOf(other)}`, place);
};

/** Whether a text names a protected place itself. */
export const isPlace = (text: string, cwd: string | null, guarded: Protected): boolean => {
  const place = placeOf(text, cwd);
  if (place.root !== '.' && place.names.length === 0) return true;
  return guarded.places.some((other) => other.names.length === place.names.length && matches(place, other));
};

/** A block device, or the memory of the machine. A pattern counts when it can be one. */
export const isDevice = (text: string, cwd: string | null = null): boolean => {
  const { root, names } = placeOf(text, cwd);
  if (root !== '/' || names[0] !== 'dev') return false;
  const path = `/${names.join('/')}`.replace(/\uE002[^\uE003]*\uE003/gu, mark.one);
  return ['a', '0'].some((char) => devices.test(path.replace(/[\uE000\uE001]/gu, char)));
};

const sayLoss = (what: string, place: Place): string =>
  place.ifEmpty ? `${what} when a variable in it is empty (write \${NAME:?} to be sure that it is not)` : what;

/** A removal in an unknown place: all that is there, or what lies above. */
const lostHere = (place: Place): Loss => {
  const [name, ...more] = place.names;
  if (place.above && (name === undefined || isBroad(name))) return 'what lies above the working directory';
  if (name === undefined) {
    return place.ifEmpty ? null : 'the working directory, wherever that is (write its full path)';
  }
  if (more.length > 0 || !isBroad(name)) return null;
  return sayLoss('everything in the working directory, wherever that is (write its full path)', place);
};

/** Whether removing `place` takes `other` with it: it is that place, a place above it, or all that is in it. */
const covers = (place: Place, other: Place): boolean => {
  if (place.names.length === other.names.length + 1 && isBroad(place.names.at(-1) ?? '')) {
    return matches({ ...place, names: place.names.slice(0, -1) }, other);
  }
  return place.names.length <= other.names.length && matches(place, other);
};

/** Whether every name of `place` can be the name of `other` at its depth; each may be a pattern. */
const matches = (place: Place, other: Place): boolean =>
  place.root === other.root &&
  place.names.every((name, index) => other.names[index] === mark.star || globMatches(name, other.names[index] ?? ''));

const nameOf = (place: Place): string => {
  if (place.root === '/' && place.names.length === 0) return 'the whole file system';
  const names = place.names.map((name) => (name === mark.star ? 'a user' : name)).join('/');
  return place.root === '/' ? `/${names}` : place.names.length === 0 ? 'the home directory' : `~/${names}`;
};

const isGlob = (name: string): boolean => /[\uE000-\uE003]/u.test(name);

/** A pattern without a letter of its own: it takes whatever is there. */
const isBroad = (name: string): boolean =>
  isGlob(name) && !/[\p{L}\p{N}]/u.test(name.replace(/\uE002[^\uE003]*\uE003/gu, '').replaceAll(mark.something, 'x'));

/** Shell patterns over one name. A set (`[…]`) is taken to match any one character: the guard leans to caution. */
export const globMatches = (glob: string, name: string): boolean => {
  const tokens = tokensOf(glob);
  let reachable = new Set([0]);
  const spread = (from: Set<number>): Set<number> => {
    const all = new Set(from);
    for (const at of all) if (tokens[at] === mark.star) all.add(at + 1);
    return all;
  };
  reachable = spread(reachable);
  for (const char of name) {
    const next = new Set<number>();
    for (const at of reachable) {
      const token = tokens[at];
      if (token === mark.star) next.add(at);
      else if (token === mark.one || token === char) next.add(at + 1);
    }
    if (next.size === 0) return false;
    reachable = spread(next);
  }
  return reachable.has(tokens.length);
};

const tokensOf = (glob: string): readonly string[] =>
  Array.from(glob.slice(0, 300).replace(/\uE002[^\uE003]+\uE003/gu, mark.one)).map((char) =>
    char === mark.setOpen ? '[' : char === mark.setClose ? ']' : char,
  );
