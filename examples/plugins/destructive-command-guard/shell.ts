/**
 * A reader of shell commands: words, quotes, substitutions, pipes, groups, here-documents. It runs nothing and expands
 * nothing; it says what stands there. Total: any text gives a script, and what a shell would refuse is read as far as
 * it goes, since a shell runs the lines before the faulty one.
 */

/** Characters that mean something because they were not quoted. Input that holds them already is cleaned first. */
export const mark = {
  star: '\uE000',
  one: '\uE001',
  setOpen: '\uE002',
  setClose: '\uE003',
  braceOpen: '\uE004',
  comma: '\uE005',
  braceClose: '\uE006',
  home: '\uE007',
  /** Text that only the shell knows; it may be empty. */
  unknown: '\uE008',
  /** Text that only the shell knows and that is not empty. */
  something: '\uE009',
  /** White space that came out of an expansion and splits words. */
  split: '\uE00A',
} as const;

const marks: ReadonlyMap<string, string> = new Map([
  ['*', mark.star],
  ['?', mark.one],
  ['[', mark.setOpen],
  [']', mark.setClose],
  ['{', mark.braceOpen],
  [',', mark.comma],
  ['}', mark.braceClose],
]);

const plain: ReadonlyMap<string, string> = new Map([
  ...[...marks].map(([char, sign]) => [sign, char] as const),
  [mark.home, '~'],
  [mark.unknown, '$…'],
  [mark.something, '$…'],
  [mark.split, ' '],
]);

/** The text as people wrote it. */
export const unmarked = (text: string): string => text.replace(/[\uE000-\uE00A]/gu, (sign) => plain.get(sign) ?? sign);

/** The text as if none of it had been quoted. */
export const marked = (text: string): string => text.replace(/[*?[\]{},]/gu, (char) => marks.get(char) ?? char);

/** A piece of a word. */
export type Piece =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string; readonly rest: string; readonly quoted: boolean }
  | { readonly kind: 'output'; readonly script: Script; readonly quoted: boolean }
  /** `<(…)`, `>(…)`: the name of a pipe. */
  | { readonly kind: 'pipe'; readonly script: Script };

export type Word = readonly Piece[];

export interface Redirect {
  readonly operator: string;
  readonly target: Word;
  /** Of a here-document. `expands`: its tag was not quoted, so what is substituted in it runs. */
  readonly document: { readonly body: string; readonly expands: boolean } | null;
}

export interface SimpleCommand {
  readonly kind: 'command';
  readonly assignments: readonly { readonly name: string; readonly value: Word }[];
  readonly words: readonly Word[];
  readonly redirects: readonly Redirect[];
}

export type Stage =
  | SimpleCommand
  | {
      readonly kind: 'group';
      readonly script: Script;
      /** `for name in words`: what the name takes on. */
      readonly loop: { readonly name: string; readonly words: readonly Word[] } | null;
      readonly redirects: readonly Redirect[];
    }
  | { readonly kind: 'function'; readonly name: string; readonly script: Script };

/** Stages joined by `|`. */
export interface Pipeline {
  readonly stages: readonly Stage[];
  readonly background: boolean;
}

export type Script = readonly Pipeline[];

/** Nesting that no honest command needs. */
const deepest = 40;

/** Thrown for text nested deeper than any honest command. */
export class TooDeep extends Error {}

const blank = (char: string): boolean => char === ' ' || char === '\t' || char === '\r';
const nameStart = /[A-Za-z_]/u;
const nameChar = /\w/u;
const wordEnd = new Set([' ', '\t', '\r', '\n', ';', '&', '|', '(', ')', '<', '>', '']);
const closers: ReadonlyMap<string, string> = new Map([
  ['if', 'fi'],
  ['while', 'done'],
  ['until', 'done'],
  ['for', 'done'],
  ['select', 'done'],
  ['case', 'esac'],
  ['{', '}'],
]);
const joints = new Set(['then', 'else', 'elif', 'do', '!', 'time', 'coproc', 'in']);

/** Reads a whole command text. Throws only `TooDeep`. */
export const readScript = (text: string): Script => new Reader(cleaned(text)).script('');

/** Reads text as it stands between double quotes: here-documents, `${name:-words}`. Throws only `TooDeep`. */
export const readQuoted = (text: string): Word => new Reader(cleaned(text)).quotedText();

const cleaned = (text: string): string => text.replace(/[\uE000-\uE00A]/gu, '\uFFFD');

interface PendingDocument {
  readonly tag: string;
  readonly indented: boolean;
  readonly expands: boolean;
  readonly redirect: { document: Redirect['document'] };
}

class Reader {
  private at = 0;
  private documents: PendingDocument[] = [];

  constructor(
    private readonly text: string,
    private depth = 0,
  ) {
    if (depth > deepest) throw new TooDeep();
  }

  /** Pipelines until the closing word or `)`; `''` reads to the end and passes stray closers. */
  script(closer: string): Script {
    this.depth += 1;
    if (this.depth > deepest) throw new TooDeep();
    const pipelines: Pipeline[] = [];
    for (;;) {
      this.skipSeparators(closer === 'esac');
      if (this.at >= this.text.length || this.closes(closer)) break;
      const before = this.at;
      const pipeline = this.pipeline();
      if (pipeline.stages.length > 0) pipelines.push(pipeline);
      if (this.at === before) this.at += 1;
    }
    this.depth -= 1;
    return pipelines;
  }

  /** The whole text as between double quotes. */
  quotedText(): Word {
    return this.doubleQuoted('');
  }

  private closes(closer: string): boolean {
    if (closer !== ')') return this.takesWord(closer);
    if (this.text[this.at] !== ')') return false;
    this.at += 1;
    return true;
  }

  private skipSeparators(inCase: boolean): void {
    for (;;) {
      const char = this.text[this.at] ?? '';
      if (char === '\n') this.newline();
      else if (char === '\\' && this.text[this.at + 1] === '\n') this.at += 2;
      else if (char === '#') this.skipComment();
      else if (blank(char) || char === ';' || char === '&' || char === '|' || (inCase && char === ')')) this.at += 1;
      else return;
    }
  }

  private skipComment(): void {
    const end = this.text.indexOf('\n', this.at);
    this.at = end < 0 ? this.text.length : end;
  }

  private skipBlanks(): void {
    for (;;) {
      if (blank(this.text[this.at] ?? '')) this.at += 1;
      else if (this.text[this.at] === '\\' && this.text[this.at + 1] === '\n') this.at += 2;
      else return;
    }
  }

  /** Past a line feed, and past the bodies of the here-documents that were announced on the line. */
  private newline(): void {
    this.at += 1;
    const documents = this.documents;
    this.documents = [];
    for (const { tag, indented, expands, redirect } of documents) {
      const lines: string[] = [];
      while (this.at < this.text.length) {
        const end = this.text.indexOf('\n', this.at);
        const line = this.text.slice(this.at, end < 0 ? undefined : end);
        this.at = end < 0 ? this.text.length : end + 1;
        const bare = indented ? line.replace(/^\t+/u, '') : line;
        if (bare === tag) break;
        lines.push(bare);
      }
      redirect.document = { body: lines.join('\n'), expands };
    }
  }

  /** Takes a bare word (a reserved one) when it stands here. */
  private takesWord(word: string): boolean {
    if (word === '' || word === ')' || !this.text.startsWith(word, this.at)) return false;
    if (!wordEnd.has(this.text[this.at + word.length] ?? '')) return false;
    this.at += word.length;
    return true;
  }

  private pipeline(): Pipeline {
    const stages: Stage[] = [];
    for (;;) {
      const stage = this.stage();
      if (stage !== null) stages.push(stage);
      this.skipBlanks();
      const two = this.text.slice(this.at, this.at + 2);
      if (two === '||' || two === '&&') return { stages, background: false };
      if (this.text[this.at] === '|') {
        this.at += two === '|&' ? 2 : 1;
        this.skipLines();
        continue;
      }
      return { stages, background: this.text[this.at] === '&' };
    }
  }

  /** After a `|` the next stage may stand on the next line. */
  private skipLines(): void {
    for (;;) {
      this.skipBlanks();
      if (this.text[this.at] === '\n') this.newline();
      else if (this.text[this.at] === '#') this.skipComment();
      else return;
    }
  }

  private stage(): Stage | null {
    do this.skipBlanks();
    while (
      // `time -p` is one word more.
      [...joints].some((joint) => this.takesWord(joint)) ||
      this.takesWord('-p')
    );
    if (this.text[this.at] === '(') return this.parenthesised();
    for (const [opener, closer] of closers) {
      if (!this.takesWord(opener)) continue;
      const loop = opener === 'for' || opener === 'select' ? this.loop() : null;
      return { kind: 'group', script: this.script(closer), loop, redirects: this.redirects() };
    }
    if (this.takesWord('function')) {
      this.skipBlanks();
      return this.definition(unmarked(wordText(this.word())));
    }
    return this.command();
  }

  private parenthesised(): Stage {
    const arithmetic = this.text[this.at + 1] === '(' ? this.arithmetic(this.at) : null;
    if (arithmetic !== null)
      return { kind: 'command', assignments: [], words: [literal(':'), arithmetic], redirects: [] };
    this.at += 1;
    return { kind: 'group', script: this.script(')'), loop: null, redirects: this.redirects() };
  }

  /**
   * `((…))` that starts at `open`: only substitutions in it run. Null when the parentheses do not close as a pair, which
   * makes it a group in a group.
   */
  private arithmetic(open: number): Word | null {
    let depth = 0;
    for (let at = open; at < this.text.length; at += 1) {
      if (this.text[at] === '(') depth += 1;
      if (this.text[at] !== ')') continue;
      depth -= 1;
      if (depth === 1 && this.text[at + 1] !== ')') return null;
      if (depth > 1) continue;
      const word = new Reader(this.text.slice(open + 2, at), this.depth + 1).quotedText();
      this.at = at + 2;
      return word;
    }
    return null;
  }

  private loop(): { name: string; words: Word[] } | null {
    this.skipBlanks();
    const name = wordText(this.word());
    this.skipBlanks();
    if (!this.takesWord('in')) return null;
    const words: Word[] = [];
    for (;;) {
      this.skipBlanks();
      if (wordEnd.has(this.text[this.at] ?? '')) return { name, words };
      words.push(this.word());
    }
  }

  private definition(name: string): Stage {
    this.skipBlanks();
    if (this.text[this.at] === '(') {
      this.at += 1;
      this.skipBlanks();
      if (this.text[this.at] === ')') this.at += 1;
    }
    this.skipLines();
    // `:(){:|:&};:` is not what a shell takes, and yet is what people write.
    if (this.text[this.at] === '{') this.at += 1;
    else if (this.text[this.at] === '(') {
      this.at += 1;
      return { kind: 'function', name, script: this.script(')') };
    }
    return { kind: 'function', name, script: this.script('}') };
  }

  private command(): Stage | null {
    const assignments: { name: string; value: Word }[] = [];
    const words: Word[] = [];
    const redirects: Redirect[] = [];
    for (;;) {
      this.skipBlanks();
      const redirect = this.redirect();
      if (redirect !== null) {
        redirects.push(redirect);
        continue;
      }
      const char = this.text[this.at] ?? '';
      if (char === '(' && words.length === 1 && words[0] !== undefined) {
        return this.definition(unmarked(wordText(words[0])));
      }
      const isPipe = (char === '<' || char === '>') && this.text[this.at + 1] === '(';
      if (char === '#') this.skipComment();
      if (char === '#' || (wordEnd.has(char) && !isPipe)) break;
      const assignment = words.length === 0 ? this.assignment() : null;
      if (assignment !== null) assignments.push(assignment);
      else words.push(this.word());
    }
    if (words.length + assignments.length + redirects.length === 0) return null;
    return { kind: 'command', assignments, words, redirects };
  }

  private assignment(): { name: string; value: Word } | null {
    let end = this.at;
    if (!nameStart.test(this.text[end] ?? '')) return null;
    while (nameChar.test(this.text[end] ?? '')) end += 1;
    const name = this.text.slice(this.at, end);
    if (this.text[end] === '+') end += 1;
    if (this.text[end] !== '=') return null;
    this.at = end + 1;
    if (this.text[this.at] === '(') {
      // An array: its items are one value here, split where they are used.
      this.at += 1;
      const items = this.script(')').flatMap(({ stages }) =>
        stages.flatMap((s) => (s.kind === 'command' ? s.words : [])),
      );
      const gap: Piece = { kind: 'text', text: mark.split };
      return { name, value: items.flatMap((item, index) => (index === 0 ? item : [gap, ...item])) };
    }
    return { name, value: this.word() };
  }

  private redirects(): Redirect[] {
    const redirects: Redirect[] = [];
    for (;;) {
      this.skipBlanks();
      const redirect = this.redirect();
      if (redirect === null) return redirects;
      redirects.push(redirect);
    }
  }

  private redirect(): Redirect | null {
    let at = this.at;
    while (/\d/u.test(this.text[at] ?? '')) at += 1;
    if (at === this.at && this.text[at] === '{') {
      const end = /^\{\w+\}(?=[<>])/u.exec(this.text.slice(at, at + 64));
      if (end !== null) at += end[0].length;
    }
    if (this.text[at] === '&' && this.text[at + 1] === '>') at += 1;
    else if (this.text[at] === '&') return null;
    const operator = operators.find((candidate) => this.text.startsWith(candidate, at));
    if (operator === undefined) return null;
    if (operator.length === 1 && this.text[at + 1] === '(') return null;
    this.at = at + operator.length;
    this.skipBlanks();
    const start = this.at;
    const target = this.word();
    const redirect: { operator: string; target: Word; document: Redirect['document'] } = {
      operator,
      target,
      document: null,
    };
    if (operator === '<<' || operator === '<<-') {
      const expands = !/['"\\]/u.test(this.text.slice(start, this.at));
      this.documents.push({ tag: unmarked(wordText(target)), indented: operator === '<<-', expands, redirect });
    }
    return redirect;
  }

  private word(): Word {
    const pieces: Piece[] = [];
    let text = '';
    const flush = (): void => {
      if (text !== '') pieces.push({ kind: 'text', text });
      text = '';
    };
    const start = this.at;
    for (;;) {
      const char = this.text[this.at] ?? '';
      const next = this.text[this.at + 1] ?? '';
      if ((char === '<' || char === '>') && next === '(' && this.at === start) {
        this.at += 2;
        pieces.push({ kind: 'pipe', script: this.script(')') });
        continue;
      }
      if (char === '(' && this.at > start && '?*+@!'.includes(this.text[this.at - 1] ?? '')) {
        // An extended pattern: whatever it says, it may match.
        text = text.slice(0, -1) + mark.star;
        this.skipParentheses();
        continue;
      }
      if (wordEnd.has(char)) break;
      if (char === '\\') {
        if (next !== '\n') text += next;
        this.at += 2;
      } else if (char === "'") {
        text += this.until("'");
        // An empty pair still makes a word.
        if (text === '') pieces.push({ kind: 'text', text: '' });
      } else if (char === '"') {
        flush();
        this.at += 1;
        pieces.push(...this.doubleQuoted('"'));
      } else if (char === '$' && next === "'") {
        this.at += 1;
        text += this.escaped();
      } else if (char === '$' && next === '"') {
        this.at += 1;
      } else if (char === '$' || char === '`') {
        const piece = this.dollar(false);
        if (piece === null) {
          text += char;
          this.at += 1;
        } else {
          flush();
          pieces.push(piece);
        }
      } else if (
        char === '~' &&
        (this.at === start || this.text[this.at - 1] === '=' || this.text[this.at - 1] === ':')
      ) {
        text += mark.home;
        this.at += 1;
      } else {
        text += marks.get(char) ?? char;
        this.at += 1;
      }
    }
    flush();
    return pieces;
  }

  /** Past a quoted text that starts here and ends with `quote`. */
  private until(quote: string): string {
    const end = this.text.indexOf(quote, this.at + 1);
    const text = this.text.slice(this.at + 1, end < 0 ? undefined : end);
    this.at = end < 0 ? this.text.length : end + 1;
    return text;
  }

  /** `$'…'` */
  private escaped(): string {
    let raw = '';
    this.at += 1;
    while (this.at < this.text.length && this.text[this.at] !== "'") {
      const take = this.text[this.at] === '\\' ? 2 : 1;
      raw += this.text.slice(this.at, this.at + take);
      this.at += take;
    }
    this.at += 1;
    return unescaped(raw);
  }

  private skipParentheses(): void {
    let open = 0;
    for (; this.at < this.text.length; this.at += 1) {
      if (this.text[this.at] === '(') open += 1;
      if (this.text[this.at] === ')') open -= 1;
      if (open === 0) break;
    }
    this.at += 1;
  }

  private doubleQuoted(closer: '"' | ''): Piece[] {
    const pieces: Piece[] = [];
    let text = '';
    while (this.at < this.text.length && this.text[this.at] !== closer) {
      const char = this.text[this.at] ?? '';
      const next = this.text[this.at + 1] ?? '';
      if (char === '\\' && '$`"\\\n'.includes(next)) {
        if (next !== '\n') text += next;
        this.at += 2;
        continue;
      }
      const piece = char === '$' || char === '`' ? this.dollar(true) : null;
      if (piece === null) {
        text += char;
        this.at += 1;
        continue;
      }
      if (text !== '') pieces.push({ kind: 'text', text });
      text = '';
      pieces.push(piece);
    }
    this.at += 1;
    pieces.push({ kind: 'text', text });
    return pieces;
  }

  /** A substitution that starts here; null when the character stands for itself. */
  private dollar(quoted: boolean): Piece | null {
    if (this.text[this.at] === '`') return { kind: 'output', script: this.backquoted(), quoted };
    const next = this.text[this.at + 1] ?? '';
    if (next === '(') {
      const number = this.text[this.at + 2] === '(' ? this.arithmetic(this.at + 1) : null;
      if (number !== null) return { kind: 'output', script: [stageOf(number)], quoted };
      this.at += 2;
      return { kind: 'output', script: this.script(')'), quoted };
    }
    if (next === '{') return this.braced(quoted);
    if (nameStart.test(next)) {
      let end = this.at + 1;
      while (nameChar.test(this.text[end] ?? '')) end += 1;
      const name = this.text.slice(this.at + 1, end);
      this.at = end;
      return { kind: 'variable', name, rest: '', quoted };
    }
    if (next !== '' && '0123456789@*#?$!-'.includes(next)) {
      this.at += 2;
      return { kind: 'variable', name: next, rest: '', quoted };
    }
    return null;
  }

  private backquoted(): Script {
    let inner = '';
    this.at += 1;
    while (this.at < this.text.length && this.text[this.at] !== '`') {
      const take = this.text[this.at] === '\\' && '`\\$'.includes(this.text[this.at + 1] ?? 'x') ? 1 : 0;
      inner += this.text[this.at + take] ?? '';
      this.at += take + 1;
    }
    this.at += 1;
    return new Reader(inner, this.depth).script('');
  }

  /** `${name…}`: the rest is kept as it stands. */
  private braced(quoted: boolean): Piece {
    let end = this.at + 2;
    let open = 1;
    while (end < this.text.length) {
      const char = this.text[end] ?? '';
      if (char === '\\') end += 1;
      else if (char === '{') open += 1;
      else if (char === '}') open -= 1;
      if (open === 0) break;
      end += 1;
    }
    const inside = this.text.slice(this.at + 2, end);
    this.at = end + 1;
    const name = /^[#!]?(?:\w+|[@*#?$!-])/u.exec(inside)?.[0] ?? '';
    return { kind: 'variable', name, rest: inside.slice(name.length), quoted };
  }
}

/** Substitutions in arithmetic run; the number itself does nothing. */
const stageOf = (word: Word): Pipeline => ({
  stages: [{ kind: 'command', assignments: [], words: [literal(':'), word], redirects: [] }],
  background: false,
});

// Longest first.
const operators = ['<<<', '<<-', '<<', '<&', '<>', '>>', '>|', '>&', '<', '>'];

/** The text of a word's fixed parts. */
export const wordText = (word: Word): string => word.map((piece) => (piece.kind === 'text' ? piece.text : '')).join('');

/** A word as one quoted text. */
export const literal = (text: string): Word => [{ kind: 'text', text }];

/** `\n`, `\x2f`, `\057`, `\u002f` as `$'…'` and `echo -e` read them. */
export const unescaped = (raw: string): string =>
  raw.replace(
    /\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|0?([0-7]{1,3})|([\s\S]))/gu,
    (whole: string, hex?: string, short?: string, long?: string, octal?: string, char?: string) => {
      const code = hex ?? short ?? long;
      if (code !== undefined) return character(Number.parseInt(code, 16));
      if (octal !== undefined) return character(Number.parseInt(octal, 8) & 0xff);
      return char === undefined ? whole : (letters.get(char) ?? char);
    },
  );

const character = (code: number): string => (code <= 0x10ffff ? String.fromCodePoint(code) : '\uFFFD');

const letters: ReadonlyMap<string, string> = new Map([
  ['n', '\n'],
  ['t', '\t'],
  ['r', '\r'],
  ['a', '\u0007'],
  ['e', '\u001B'],
]);
