import type { Surroundings } from './commands.js';
import { deletes, overwrites } from './commands.js';
import type { Policy } from './judge.js';
import { judgeCommand } from './judge.js';
import { protectedPlaces } from './paths.js';

/**
 * Refuses commands that would destroy a machine: its file system, its disks, its users' homes, its processes. It reads
 * a command as a shell does, so that quotes, flags, variables and nesting do not hide what it comes to. What it cannot
 * read it refuses: a guard that guesses is no guard.
 */

interface Config {
  /** Paths to protect besides those of the system. */
  readonly protect?: readonly string[];
  /** Commands to refuse besides, by their words in order: "terraform destroy". */
  readonly refuse?: readonly string[];
  readonly allowPower?: boolean;
  readonly allowPipedPrograms?: boolean;
}

/** Characters; a longer command is refused unread. */
const longest = 256 * 1024;

const config = host.config as Config | null;

const policy: Policy = {
  guarded: protectedPlaces(config?.protect ?? []),
  refused: (config?.refuse ?? []).map((words) => words.split(' ').filter((word) => word !== '')),
  powerAllowed: config?.allowPower ?? false,
  pipedProgramsAllowed: config?.allowPipedPrograms ?? false,
};

const around: Surroundings = { cwd: null, guarded: policy.guarded, powerAllowed: policy.powerAllowed };

/** Text with a shell's first line is a program that someone will run. */
const isShellScript = (path: string, content: string): boolean =>
  /\.(?:sh|bash|zsh|ksh)$/u.test(path) || /^#![^\n]{0,80}\b(?:ba|da|z|k|a)?sh\b/u.test(content);

const judgeFile = ({ kind, path, content }: SshCommand): string | null => {
  if (path === null) return null;
  if (path.includes('\0')) return 'its path holds a NUL character';
  if (kind === 'delete_file') return deletes(path, around);
  if (kind !== 'write_file' && kind !== 'edit_file') return null;
  const lost = kind === 'write_file' || path.startsWith('/dev/') ? overwrites(path, around) : null;
  return lost ?? (content !== null && isShellScript(path, content) ? judgeText(content) : null);
};

const judgeText = (text: string): string | null => {
  if (text.includes('\0')) return 'it holds a NUL character';
  if (text.length > longest) return 'it is too long to be judged';
  try {
    return judgeCommand(text, policy);
  } catch {
    return 'it is nested too deeply to be judged';
  }
};

globalThis.middleware.sshCommandSending = (context, tools) => {
  const found = context.kind === 'command' ? judgeText(context.command ?? '') : judgeFile(context);
  return found === null ? {} : tools.cancel(`refused: ${found}`);
};
