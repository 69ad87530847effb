import type { Surroundings } from './commands.js';
import { overwrites, readArguments, removers, ruleFor, rules } from './commands.js';
import { listed, readSearch, targetsOf } from './listing.js';
import type { Protected } from './paths.js';
import { globMatches, lostWithTree } from './paths.js';
import type { Piece, Pipeline, Redirect, Script, SimpleCommand, Stage, Word } from './shell.js';
import { literal, mark, marked, readQuoted, readScript, TooDeep, unmarked, wordText } from './shell.js';
import type { Scope } from './words.js';
import { expand, expandWhole, formatted, printed } from './words.js';

/** What an account allows and adds. */
export interface Policy {
  readonly guarded: Protected;
  /** Words of commands to refuse besides, e.g. `['terraform', 'destroy']`. */
  readonly refused: readonly (readonly string[])[];
  readonly powerAllowed: boolean;
  /** A program from the network may go straight into a shell. */
  readonly pipedProgramsAllowed: boolean;
}

/** Why a command must not run; null when nothing speaks against it. Throws for text that cannot be judged. */
export const judgeCommand = (text: string, policy: Policy): string | null => {
  const scope: Scope = { variables: new Map(), cwd: null, strict: false };
  return new Judge(policy).text(text, scope, null);
};

/** Where a command's standard input comes from. */
type Feed =
  | { readonly kind: 'text'; readonly text: string }
  /** The stages before it in the pipeline, nearest last. */
  | { readonly kind: 'stages'; readonly stages: readonly Stage[] }
  | null;

/** One argument: its text, and the word that it came from. */
interface Field {
  readonly text: string;
  readonly word: Word;
}

const shells = new Set(['sh', 'bash', 'dash', 'zsh', 'ksh', 'mksh', 'ash', 'fish', 'rbash']);
const interpreters =
  /^(?:python[\d.]*|pypy3?|perl[\d.]*|ruby[\d.]*|node|nodejs|deno|bun|php\d?|lua[\d.]*|tclsh|osascript|gawk|mawk|nawk|awk)$/u;
const fetchers = new Set([
  'curl',
  'wget',
  'fetch',
  'http',
  'https',
  'aria2c',
  'lynx',
  'nc',
  'ncat',
  'netcat',
  'socat',
  'ftp',
  'tftp',
]);
const decoders = new Set([
  'base64',
  'base32',
  'basenc',
  'xxd',
  'uudecode',
  'openssl',
  'gpg',
  'rev',
  'tr',
  'od',
  'hexdump',
]);

/** Programs that run the command in their arguments: letters and words that take a value, own operands before it. */
const wrappers: ReadonlyMap<
  string,
  { readonly values: string; readonly words?: readonly string[]; readonly operands?: number }
> = new Map([
  ['sudo', { values: 'ughpCTUDRrt', words: ['user', 'group', 'host', 'prompt', 'chdir', 'chroot', 'close-from'] }],
  ['doas', { values: 'uC' }],
  ['env', { values: 'uC', words: ['unset', 'chdir'] }],
  ['nohup', { values: '' }],
  ['setsid', { values: '' }],
  ['nice', { values: 'n', words: ['adjustment'] }],
  ['ionice', { values: 'cnpPu', words: ['class', 'classdata'] }],
  ['chrt', { values: 'TPD', operands: 1 }],
  ['taskset', { values: '', operands: 1 }],
  ['time', { values: 'fo' }],
  ['timeout', { values: 'ks', words: ['kill-after', 'signal'], operands: 1 }],
  ['stdbuf', { values: 'ioe', words: ['input', 'output', 'error'] }],
  ['unbuffer', { values: '' }],
  ['chroot', { values: '', operands: 1 }],
  ['unshare', { values: 'SGRw' }],
  ['nsenter', { values: 'tSGrw', words: ['target'] }],
  ['setpriv', { values: '' }],
  [
    'systemd-run',
    { values: 'puMHE', words: ['unit', 'property', 'uid', 'gid', 'description', 'slice', 'working-directory'] },
  ],
  ['systemd-inhibit', { values: '' }],
  ['runuser', { values: 'ugGcs', words: ['user', 'group', 'command'] }],
  ['gosu', { values: '', operands: 1 }],
  ['su-exec', { values: '', operands: 1 }],
  ['flock', { values: 'wEc', words: ['wait', 'timeout', 'conflict-exit-code', 'command'], operands: 1 }],
  ['strace', { values: 'eopsSuEaPbIO' }],
  ['ltrace', { values: 'eopsSunalDF' }],
  ['command', { values: '' }],
  ['builtin', { values: '' }],
  ['exec', { values: 'a' }],
  ['busybox', { values: '' }],
  ['toybox', { values: '' }],
  ['caffeinate', { values: 'tw' }],
  ['torsocks', { values: '' }],
  ['proxychains', { values: 'f' }],
  ['proxychains4', { values: 'f' }],
  ['fakeroot', { values: 'lsib' }],
  ['pkexec', { values: '', words: ['user'] }],
  ['watch', { values: 'nd' }],
]);

/** Why a program is refused that comes out of the network or a decoder. */
const unseen = 'it runs a program that nobody has looked at (save it, read it, then run it)';

/** Nested programs (`sh -c` in `eval` in a function …) that no honest command needs. */
const deepest = 24;

/** Steps that no honest command needs: what bounds the time. */
const mostSteps = 20_000;

/** `$(`, `${`, a backquote: the only texts in which something can be substituted. */
const substitutes = /[$`]/u;

class Judge {
  private readonly functions = new Map<string, Script>();
  private readonly calling = new Set<string>();
  /** Programs that the command itself writes: what it wrote, or null for what nobody has looked at. */
  private readonly written = new Map<string, string | null>();
  private depth = 0;
  private steps = 0;

  constructor(private readonly policy: Policy) {}

  text(text: string, scope: Scope, feed: Feed): string | null {
    return this.nested(() => this.script(readScript(text), scope, feed));
  }

  private nested(judge: () => string | null): string | null {
    this.depth += 1;
    if (this.depth > deepest) throw new TooDeep();
    const said = judge();
    this.depth -= 1;
    return said;
  }

  private script(script: Script, scope: Scope, feed: Feed): string | null {
    for (const pipeline of script) {
      const said = this.pipeline(pipeline, scope, feed);
      if (said !== null) return said;
    }
    return null;
  }

  private pipeline({ stages }: Pipeline, scope: Scope, feed: Feed): string | null {
    for (const [index, stage] of stages.entries()) {
      this.steps += 1;
      if (this.steps > mostSteps) throw new TooDeep();
      const said = this.stage(stage, scope, index === 0 ? feed : { kind: 'stages', stages: stages.slice(0, index) });
      if (said !== null) return said;
    }
    return null;
  }

  private stage(stage: Stage, scope: Scope, feed: Feed): string | null {
    switch (stage.kind) {
      case 'command':
        return this.command(stage, scope, feed);
      case 'group': {
        if (stage.loop !== null) {
          const values = stage.loop.words.flatMap((word) => expand(word, scope));
          scope.variables.set(stage.loop.name, values.join(mark.split));
        }
        return (
          this.redirects(stage.redirects, scope) ??
          this.script(stage.script, scope, this.input(stage.redirects, scope) ?? feed)
        );
      }
      case 'function': {
        this.functions.set(stage.name, stage.script);
        return multiplies(stage.name, stage.script) ? 'it is a fork bomb' : this.script(stage.script, scope, null);
      }
    }
  }

  private command(command: SimpleCommand, scope: Scope, feed: Feed): string | null {
    const { assignments, words, redirects } = command;
    for (const word of [...assignments.map(({ value }) => value), ...words]) {
      const said = this.substitutions(word, scope);
      if (said !== null) return said;
    }
    for (const { name, value } of assignments) scope.variables.set(name, expandWhole(value, scope));
    const fields = words.flatMap((word) => expand(word, scope).map((text) => ({ text, word })));
    const input = this.input(redirects, scope) ?? feed;
    this.noteWritten(command, fields, scope, input);
    return this.redirects(redirects, scope) ?? this.run(fields, scope, input);
  }

  /** `echo … > file`, `cat > file <<EOF`, `… | tee file`, `curl -o file`: what a later `sh file` would run. */
  private noteWritten(command: SimpleCommand, fields: readonly Field[], scope: Scope, feed: Feed): void {
    const [name = '', ...args] = fields.map(({ text }) => text);
    const program = programOf(name);
    const targets = command.redirects
      .filter(({ operator }) => operator.startsWith('>'))
      .map(({ target }) => expandWhole(target, scope));
    if (program === 'tee') targets.push(...args.filter((arg) => !arg.startsWith('-')));
    const fetches = this.conceals([{ stages: [command], background: false }]);
    if (fetches) targets.push(...fetchedFiles(program, args));
    if (targets.length === 0) return;
    const fed = feed?.kind === 'stages' ? textOf(feed.stages, scope) : (feed?.text ?? null);
    const text = fetches ? null : (printed(command, scope) ?? fed);
    if (text === null && !fetches) return;
    for (const target of targets) this.written.set(fileOf(target), text);
  }

  /** Where a command reads from, if it says so itself. */
  private input(redirects: readonly Redirect[], scope: Scope): Feed {
    const fed = feedOf(redirects, scope);
    const file = redirects.find(({ operator }) => operator === '<');
    if (fed !== null || file === undefined) return fed;
    const text = this.written.get(fileOf(expandWhole(file.target, scope)));
    return text === undefined ? null : { kind: 'text', text: text ?? 'curl -s unseen | sh' };
  }

  /** A file that is run: null when this command did not write it. */
  private file(path: string, scope: Scope): string | null {
    const text = this.written.get(fileOf(path));
    if (text === undefined) return null;
    return text === null ? unseen : this.text(text, { ...scope }, null);
  }

  /** What runs inside a word. */
  private substitutions(word: Word, scope: Scope): string | null {
    for (const piece of word) {
      const said = this.substitution(piece, scope);
      if (said !== null) return said;
    }
    return null;
  }

  private substitution(piece: Piece, scope: Scope): string | null {
    if (piece.kind === 'text') return null;
    if (piece.kind !== 'variable') return this.script(piece.script, { ...scope }, null);
    return substitutes.test(piece.rest) ? this.quoted(piece.rest, scope) : null;
  }

  private quoted(text: string, scope: Scope): string | null {
    return this.nested(() => this.substitutions(readQuoted(text), scope));
  }

  private redirects(redirects: readonly Redirect[], scope: Scope): string | null {
    for (const { operator, target, document } of redirects) {
      const inside = this.substitutions(target, scope);
      if (inside !== null) return inside;
      if (document?.expands === true && substitutes.test(document.body)) {
        const said = this.quoted(document.body, scope);
        if (said !== null) return said;
      }
      if (!operator.includes('>')) continue;
      const path = expandWhole(target, scope);
      const appends = operator === '>>' && !path.startsWith('/dev/') && !path.startsWith('/proc/');
      const said = appends ? null : overwrites(path, this.around(scope));
      if (said !== null) return said;
    }
    return null;
  }

  private around(scope: Scope): Surroundings {
    return { cwd: scope.cwd, guarded: this.policy.guarded, powerAllowed: this.policy.powerAllowed };
  }

  /** One command after its words were expanded. */
  private run(fields: readonly Field[], scope: Scope, feed: Feed): string | null {
    this.steps += 1;
    if (this.steps > mostSteps) throw new TooDeep();
    const [head, ...rest] = fields;
    if (head === undefined) return null;
    if (isAssignment(head.text)) {
      assign(head.text, scope);
      return this.run(rest, scope, feed);
    }
    if (this.hides(head.word)) return 'its program is only known while it runs';
    const name = programOf(head.text);
    const args = rest.map(({ text }) => text);
    return (
      (head.text.includes('/') ? this.file(head.text, scope) : null) ??
      this.refusedByAccount(name, args) ??
      this.builtin(name, rest, scope, feed) ??
      this.wrapped(name, rest, scope, feed) ??
      this.called(name, args, scope, feed) ??
      this.ruled(name, args, scope)
    );
  }

  private refusedByAccount(name: string, args: readonly string[]): string | null {
    if (this.policy.refused.length === 0) return null;
    const given = [name, ...args.map(unmarked)];
    for (const words of this.policy.refused) {
      let next = 0;
      for (const word of given) if (word === words[next]) next += 1;
      if (given[0] === words[0] && next === words.length) return `this account refuses "${words.join(' ')}"`;
    }
    return null;
  }

  private ruled(name: string, args: readonly string[], scope: Scope): string | null {
    if (name.includes(mark.unknown)) {
      // Whatever it is called: `X -rf /` has one meaning.
      const deep = args.some((arg) => /^-[a-zA-Z]*(?:[rR][a-zA-Z]*f|f[a-zA-Z]*[rR])/u.test(arg));
      return deep ? (ruleFor('rm')?.(args, this.around(scope)) ?? null) : null;
    }
    return ruleFor(name)?.(args, this.around(scope)) ?? null;
  }

  private called(name: string, args: readonly string[], scope: Scope, feed: Feed): string | null {
    const body = this.functions.get(name);
    // A function that calls itself was read when it was first called.
    if (body === undefined || this.calling.has(name)) return null;
    this.calling.add(name);
    const inner: Scope = { ...scope, variables: new Map(scope.variables) };
    bindPositions(inner, [name, ...args]);
    const said = this.script(body, inner, feed);
    this.calling.delete(name);
    return said;
  }

  // ---- words of the shell itself

  private builtin(name: string, rest: readonly Field[], scope: Scope, feed: Feed): string | null {
    const args = rest.map(({ text }) => text);
    const words = args.map(unmarked);
    switch (name) {
      case 'cd':
      case 'pushd':
        scope.cwd = moved(scope.cwd, readArguments(args).operands[0]);
        return null;
      case 'popd':
        scope.cwd = null;
        return null;
      case 'set':
        if (words.some((word) => /^-[a-z]*u/u.test(word)) || words.includes('nounset')) scope.strict = true;
        if (words.includes('--')) bindPositions(scope, ['sh', ...args.slice(words.indexOf('--') + 1)]);
        return null;
      case 'export':
      case 'declare':
      case 'typeset':
      case 'local':
      case 'readonly':
        for (const arg of args) if (isAssignment(arg)) assign(arg, scope);
        return null;
      case 'read':
        readInto(
          words.filter((word) => !word.startsWith('-')),
          feed,
          scope,
        );
        return null;
      case 'unset':
        for (const word of words) scope.variables.delete(word);
        return null;
      case 'alias':
        return firstOf(words, (word) => this.text(word.slice(word.indexOf('=') + 1), { ...scope }, null));
      case 'trap':
        return words[0] === undefined ? null : this.text(words[0], { ...scope }, null);
      case 'eval':
        return this.handedOver(rest) ?? this.text(words.join(' '), scope, feed);
      case 'source':
      case '.':
        return this.sourced(rest, scope, feed);
      case 'printf':
        if (words[0] === '-v' && words[1] !== undefined) scope.variables.set(words[1], formatted(words.slice(2)));
        return null;
      default:
        return null;
    }
  }

  private sourced(rest: readonly Field[], scope: Scope, feed: Feed): string | null {
    const [file] = rest;
    if (file === undefined) return null;
    if (/^\/dev\/(?:stdin|fd\/0)$/u.test(file.text)) return this.fed(scope, feed);
    return this.handedOver(rest) ?? this.piped(file.word, scope) ?? this.file(file.text, scope);
  }

  // ---- programs that run other programs

  private wrapped(name: string, rest: readonly Field[], scope: Scope, feed: Feed): string | null {
    if (shells.has(name)) return this.shell(rest, scope, feed);
    if (interpreters.test(name)) return this.interpreter(rest, scope, feed);
    switch (name) {
      case 'su':
      case 'script':
      case 'runuser':
      case 'flock': {
        const code = optionValue(rest, 'c', 'command');
        if (code !== null) return this.handedOver([code]) ?? this.text(unmarked(code.text), { ...scope }, null);
        if (name === 'su') return this.fed(scope, feed);
        break;
      }
      case 'find':
      case 'gfind':
        return this.find(rest, scope);
      case 'xargs':
      case 'parallel':
        return this.xargs(rest, scope, feed);
      case 'ssh':
        return this.afterOptions(rest, 'BbcDEeFIiJLlmOopQRSWw', 1, (fields) => this.joined(fields, feed));
      case 'docker':
      case 'podman':
      case 'kubectl':
      case 'nerdctl':
      case 'lxc':
        return this.inContainer(rest, scope, feed);
      case 'at':
      case 'batch':
        return this.fed(scope, feed);
      case 'tar':
        return firstOf(rest, ({ text }) => {
          const action = /^--(?:checkpoint-action=exec|to-command|use-compress-program)=([\s\S]*)$/u.exec(
            unmarked(text),
          )?.[1];
          return action === undefined ? null : this.text(action, { ...scope }, null);
        });
      default:
    }
    const wrapper = wrappers.get(name);
    if (wrapper === undefined) return null;
    // `command -v rm` asks; it runs nothing.
    if (name === 'command' && /^-[vV]/u.test(rest[0]?.text ?? '')) return null;
    if (name === 'env') {
      const text = optionValue(rest, 'S', 'split-string');
      if (text !== null) return this.text(unmarked(text.text), { ...scope }, feed);
    }
    if (name === 'watch') return this.afterOptions(rest, wrapper.values, 0, (fields) => this.joined(fields, feed));
    return this.afterOptions(
      rest,
      wrapper.values,
      wrapper.operands ?? 0,
      // `sudo -s`, `chroot dir`, `unshare`: with nothing to run they start a shell.
      (fields) => (fields.length === 0 ? this.fed(scope, feed) : this.run(fields, scope, feed)),
      wrapper.words,
    );
  }

  /** Goes on with what follows a program's own options and operands. */
  private afterOptions(
    rest: readonly Field[],
    values: string,
    operands: number,
    next: (fields: readonly Field[]) => string | null,
    words: readonly string[] = [],
  ): string | null {
    let at = 0;
    for (; at < rest.length; at += 1) {
      const text = rest[at]?.text ?? '';
      if (text === '--') {
        at += 1;
        break;
      }
      if (!text.startsWith('-') || text === '-') break;
      const long = text.startsWith('--');
      if (long ? words.includes(text.slice(2)) : values.includes(text.at(-1) ?? ' ')) at += 1;
    }
    while (isAssignment(rest[at]?.text ?? '')) at += 1;
    return this.nested(() => next(rest.slice(at + operands)));
  }

  /** Words that another shell puts together and reads again; without any, it reads its input. */
  private joined(fields: readonly Field[], feed: Feed): string | null {
    const elsewhere: Scope = { variables: new Map(), cwd: null, strict: false };
    const text = fields.map((field) => unmarked(field.text)).join(' ');
    return text === '' ? this.fed(elsewhere, feed) : this.text(text, elsewhere, feed);
  }

  private inContainer(rest: readonly Field[], scope: Scope, feed: Feed): string | null {
    const at = rest.findIndex(({ text }) => text === 'exec');
    if (at < 0) return null;
    return this.afterOptions(
      rest.slice(at + 1),
      'uewnc',
      1,
      (fields) => this.run(fields[0]?.text === '--' ? fields.slice(1) : fields, { ...scope, cwd: null }, feed),
      ['user', 'env', 'workdir', 'namespace', 'container'],
    );
  }

  private shell(rest: readonly Field[], scope: Scope, feed: Feed): string | null {
    const handed = this.handedOver(rest);
    if (handed !== null) return handed;
    const at = rest.findIndex(({ text }) => /^-[a-zA-Z]*c[a-zA-Z]*$/u.test(text));
    if (at >= 0) {
      const operands = rest.slice(at + 1).filter(({ text }, index) => index > 0 || !/^[-+]/u.test(text));
      const [code, ...positions] = operands;
      if (code === undefined) return null;
      const inner: Scope = { ...scope, variables: new Map(scope.variables) };
      bindPositions(
        inner,
        positions.map(({ text }) => text),
      );
      return this.text(unmarked(code.text), inner, feed);
    }
    const file = rest.find(({ text }) => !/^[-+]/u.test(text) && text !== '/dev/stdin');
    if (file === undefined || rest.some(({ text }) => text === '-s')) return this.fed(scope, feed);
    return this.piped(file.word, scope) ?? this.file(file.text, scope);
  }

  /** `sh <(…)`: code that another command prints. */
  private piped(word: Word, scope: Scope): string | null {
    const pipe = word.find((piece) => piece.kind === 'pipe');
    return pipe === undefined ? null : this.fed(scope, stagesOf(pipe.script));
  }

  /** Code that arrives on standard input. */
  private fed(scope: Scope, feed: Feed): string | null {
    if (feed === null) return null;
    if (feed.kind === 'text') return this.text(feed.text, { ...scope }, null);
    if (feed.stages.some((stage) => this.conceals([{ stages: [stage], background: false }]))) {
      return unseen;
    }
    const text = textOf(feed.stages, scope);
    return (text === null ? null : this.text(text, { ...scope }, null)) ?? this.shown(feed.stages, scope);
  }

  /** `cat file | sh`, of a file that the command wrote. */
  private shown(stages: readonly Stage[], scope: Scope): string | null {
    return firstOf(stages, (stage) => {
      if (stage.kind !== 'command') return null;
      const [name = '', ...args] = stage.words.flatMap((word) => expand(word, scope));
      return programOf(name) === 'cat' ? firstOf(args, (arg) => this.file(arg, scope)) : null;
    });
  }

  /** A program that comes out of the network or a decoder, handed over as an argument: `sh -c "$(curl …)"`. */
  private handedOver(fields: readonly Field[]): string | null {
    return fields.some(({ word }) => this.hides(word)) ? unseen : null;
  }

  private hides(word: Word): boolean {
    return word.some((piece) => (piece.kind === 'output' || piece.kind === 'pipe') && this.conceals(piece.script));
  }

  private conceals(script: Script): boolean {
    return script.some(({ stages }) =>
      stages.some((stage) => {
        if (stage.kind !== 'command') return this.conceals(stage.script);
        const names = stage.words.slice(0, 4).map((word) => programOf(wordText(word)));
        if (names.some((name) => decoders.has(name))) return true;
        return !this.policy.pipedProgramsAllowed && names.some((name) => fetchers.has(name));
      }),
    );
  }

  // ---- find, xargs

  private find(rest: readonly Field[], scope: Scope): string | null {
    const search = readSearch(rest.map(({ text }) => text));
    const { tests } = search;
    const targets = targetsOf(search);
    for (const [at, test] of tests.entries()) {
      if (test === '-delete') {
        const said = this.removal(targets, scope);
        if (said !== null) return said;
      }
      if (/^-(?:fprint|fls)/u.test(test)) {
        const said = overwrites(tests[at + 1] ?? '', this.around(scope));
        if (said !== null) return said;
      }
      if (!/^-(?:exec|execdir|ok|okdir)$/u.test(test)) continue;
      const stop = tests.findIndex((arg, index) => index > at && (arg === ';' || arg === '+'));
      const command = tests.slice(at + 1, stop < 0 ? undefined : stop);
      const said = this.forEach(command, '{}', targets, scope);
      if (said !== null) return said;
    }
    return null;
  }

  private removal(targets: readonly string[], scope: Scope): string | null {
    return firstOf(targets, (target) => {
      const lost = lostWithTree(target, scope.cwd, this.policy.guarded);
      return lost === null ? null : `it would delete ${lost}`;
    });
  }

  /** A command that is run with each of some paths in the place of `hole`. */
  private forEach(command: readonly string[], hole: string, targets: readonly string[], scope: Scope): string | null {
    const filled = (target: string): Field[] => {
      const texts = command.map((arg) => unmarkedHole(arg, hole).replaceAll(hole, target));
      return texts.map((text) => ({ text, word: literal(text) }));
    };
    const name = command.map(programOf).find((candidate) => removers.has(candidate));
    if (name !== undefined && command.some((arg) => unmarkedHole(arg, hole).includes(hole))) {
      const said = this.removal(targets, scope);
      if (said !== null) return said;
    }
    return firstOf(targets.length === 0 ? [''] : targets, (target) => this.run(filled(target), { ...scope }, null));
  }

  private xargs(rest: readonly Field[], scope: Scope, feed: Feed): string | null {
    const hole = xargsHole(rest);
    const given = rest.findIndex(({ text }) => /^:::\+?$/u.test(text));
    const items = given >= 0 ? rest.slice(given + 1).map(({ text }) => text) : itemsOf(feed, scope);
    const own = given >= 0 ? rest.slice(0, given) : rest;
    return this.afterOptions(
      own,
      'aEILnPsdj',
      0,
      (fields) => {
        const fed = shells.has(programOf(fields[0]?.text ?? '')) && fields.length < 3 ? this.fed(scope, feed) : null;
        if (fed !== null) return fed;
        const command = fields.map(({ text }) => text);
        const places = hole === null ? [...command, '{}'] : command;
        return this.forEach(places, hole ?? '{}', items, scope);
      },
      ['arg-file', 'delimiter', 'max-args', 'max-procs', 'max-lines', 'max-chars', 'jobs'],
    );
  }

  // ---- other languages

  /** Code of another language: its strings, as far as they are commands or paths that it would remove. */
  private interpreter(rest: readonly Field[], scope: Scope, feed: Feed): string | null {
    const handed = this.handedOver(rest);
    if (handed !== null) return handed;
    const codes = rest.filter(({ text }) => text.length > 3).map(({ text }) => unmarked(text));
    if (feed?.kind === 'text') codes.push(feed.text);
    if (feed?.kind === 'stages' && rest.every(({ text }) => text.startsWith('-'))) {
      if (feed.stages.some((stage) => this.conceals([{ stages: [stage], background: false }]))) {
        return unseen;
      }
      const text = textOf(feed.stages, scope);
      if (text !== null) codes.push(text);
    }
    return firstOf(codes, (code) => this.code(code, scope));
  }

  private code(code: string, scope: Scope): string | null {
    const strings = stringsIn(code);
    if (/rmtree|remove_tree|rm_r|rm_rf|rmSync|rmdirSync|\brm\s*\(|unlink|deltree|removeSync|delete_tree/u.test(code)) {
      const said = this.removal(strings.map(marked), scope);
      if (said !== null) return said;
    }
    if (/\bopen\b|write|dd\b/iu.test(code)) {
      const said = firstOf(strings, (text) =>
        /^\/(?:dev|proc)\//u.test(text) ? overwrites(text, this.around(scope)) : null,
      );
      if (said !== null) return said;
    }
    if (!/system|popen|exec|spawn|subprocess|\bcall\b|\brun\b|`|%x|qx|shell/iu.test(code)) return null;
    return firstOf([...strings, strings.join(' ')], (text) => this.text(text, { ...scope }, null));
  }
}

// ---- small readers

const firstOf = <T>(items: readonly T[], say: (item: T) => string | null): string | null => {
  for (const item of items) {
    const said = say(item);
    if (said !== null) return said;
  }
  return null;
};

/** `./a/b` and `a/b` are one file. */
const fileOf = (path: string): string => unmarked(path).replace(/^(?:\.\/)+/u, '');

/** Where a download goes: the file that was named, or the last part of the address. */
const fetchedFiles = (program: string, args: readonly string[]): readonly string[] => {
  const letter = program === 'wget' ? 'O' : 'o';
  const named = args.flatMap((arg, at) => {
    if (new RegExp(`^(?:-[a-zA-Z]*${letter}|--output(?:-document)?)$`, 'u').test(arg)) return [args[at + 1] ?? ''];
    const value = new RegExp(`^(?:-[a-zA-Z]*${letter}|--output(?:-document)?=)(.+)$`, 'u').exec(arg)?.[1];
    return value === undefined ? [] : [value];
  });
  const last = args.filter((arg) => arg.includes('/')).map((url) => unmarked(url).replace(/[?#].*$/u, ''));
  return named.length > 0 ? named : last.map((url) => url.slice(url.lastIndexOf('/') + 1));
};

/** `read a b c`: the last name takes what is left. */
const readInto = (names: readonly string[], feed: Feed, scope: Scope): void => {
  const [line] = feed?.kind === 'text' ? feed.text.split('\n') : [];
  const words = line?.split(/\s+/u).filter((word) => word !== '');
  for (const [at, name] of names.entries()) {
    if (words === undefined) scope.variables.delete(name);
    else scope.variables.set(name, at === names.length - 1 ? words.slice(at).join(' ') : (words[at] ?? ''));
  }
};

const isAssignment = (text: string): boolean => /^[A-Za-z_]\w*\+?=/u.test(text);

const assign = (text: string, scope: Scope): void => {
  const at = text.indexOf('=');
  scope.variables.set(text.slice(0, at).replace('+', ''), text.slice(at + 1));
};

const bindPositions = (scope: Scope, words: readonly string[]): void => {
  for (const [index, word] of words.entries()) scope.variables.set(String(index), word);
  for (const name of ['@', '*']) scope.variables.set(name, words.slice(1).join(mark.split));
};

const moved = (cwd: string | null, to: string | undefined): string | null => {
  if (to === undefined) return mark.home;
  if (to === '-' || to.replaceAll(mark.unknown, '') === '') return null;
  if (/^[/\uE007]/u.test(to.replaceAll(mark.unknown, ''))) return to;
  return `${cwd ?? '.'}/${to}`;
};

/** The program's name without folders. A pattern is the first dangerous program that it can mean. */
const programOf = (text: string): string => {
  const name = text.slice(text.lastIndexOf('/') + 1);
  if (!/[\uE000\uE001\uE002]/u.test(name)) return unmarkedButUnknown(name);
  return [...rules.keys(), ...shells].find((candidate) => globMatches(name, candidate)) ?? unmarked(name);
};

const unmarkedButUnknown = (text: string): string => (text.includes(mark.unknown) ? text : unmarked(text));

const unmarkedHole = (text: string, hole: string): string => (unmarked(text).includes(hole) ? unmarked(text) : text);

/** The value of `-c value`, `-cvalue`, `--command value`, `--command=value`. */
const optionValue = (fields: readonly Field[], letter: string, word: string): Field | null => {
  for (const [at, field] of fields.entries()) {
    const { text } = field;
    if (text === `--${word}`) return fields[at + 1] ?? null;
    if (text.startsWith(`--${word}=`)) return { ...field, text: text.slice(word.length + 3) };
    if (!/^-[A-Za-z]/u.test(text) || text.startsWith('--')) continue;
    const own = text.indexOf(letter);
    if (own < 0) continue;
    return own === text.length - 1 ? (fields[at + 1] ?? null) : { ...field, text: text.slice(own + 1) };
  }
  return null;
};

const stagesOf = (script: Script): Feed => ({ kind: 'stages', stages: script.flatMap(({ stages }) => stages) });

const feedOf = (redirects: readonly Redirect[], scope: Scope): Feed => {
  for (const { operator, target, document } of redirects) {
    if (document !== null) return { kind: 'text', text: document.body };
    if (operator === '<<<') return { kind: 'text', text: unmarked(expandWhole(target, scope)) };
    const pipe = operator === '<' ? target.find((piece) => piece.kind === 'pipe') : undefined;
    if (pipe?.kind === 'pipe') return stagesOf(pipe.script);
  }
  return null;
};

/** What the stages print, where that stands in the command itself. */
const textOf = (stages: readonly Stage[], scope: Scope): string | null => {
  const texts = stages.flatMap((stage) => linesOf(stage, scope));
  return texts.length === 0 ? null : texts.join('\n');
};

const linesOf = (stage: Stage, scope: Scope): readonly string[] => {
  if (stage.kind !== 'command')
    return stage.script.flatMap(({ stages }) => stages.flatMap((inner) => linesOf(inner, scope)));
  const fed = feedOf(stage.redirects, scope);
  if (fed?.kind === 'text') return [fed.text];
  const text = printed(stage, scope);
  return text === null ? [] : [text];
};

/** Whether a function calls itself more than once, or beside itself: a process that doubles. */
const multiplies = (name: string, script: Script): boolean => {
  let calls = 0;
  let beside = false;
  const look = (inner: Script): void => {
    for (const { stages, background } of inner) {
      for (const stage of stages) {
        if (stage.kind !== 'command') look(stage.script);
        else if (programOf(wordText(stage.words[0] ?? [])) === name) {
          calls += 1;
          beside ||= background || stages.length > 1;
        }
      }
    }
  };
  look(script);
  return calls > 1 && beside;
};

/** What `xargs` reads, where that stands in the command itself. */
const itemsOf = (feed: Feed, scope: Scope): readonly string[] => {
  if (feed === null) return [];
  if (feed.kind === 'text') return feed.text.split(/\s+/u).filter((item) => item !== '');
  const [first, ...others] = feed.stages;
  if (first?.kind === 'command' && others.length === 0) {
    const [name = '', ...args] = first.words.flatMap((word) => expand(word, scope));
    const paths = listed(programOf(name), args);
    if (paths !== null) return paths;
  }
  return (
    textOf(feed.stages, scope)
      ?.split(/[\s\0]+/u)
      .filter((item) => item !== '') ?? []
  );
};

const xargsHole = (fields: readonly Field[]): string | null => {
  const at = fields.findIndex(({ text }) => /^-[Ii]/u.test(text) || text.startsWith('--replace'));
  if (at < 0) return null;
  const text = unmarked(fields[at]?.text ?? '');
  if (text === '-I') return unmarked(fields[at + 1]?.text ?? '{}');
  if (/^-[Ii]./u.test(text)) return text.slice(2);
  return text.includes('=') ? text.slice(text.indexOf('=') + 1) : '{}';
};

/** The string literals of a piece of code; an unclosed one goes to the end. */
const stringsIn = (code: string): readonly string[] => {
  const strings: string[] = [];
  for (let at = 0; at < code.length; at += 1) {
    const quote = code[at] ?? '';
    if (!`"'\``.includes(quote)) continue;
    let text = '';
    for (at += 1; at < code.length && code[at] !== quote; at += 1) {
      if (code[at] === '\\') at += 1;
      text += code[at] ?? '';
    }
    strings.push(text);
  }
  return strings;
};
