/**
 * Finds secrets by their own shape and puts a mark in their place. A secret is looked for where its first
 * letters stand (a native search), and read from there with an expression that cannot go back and forth, so the time
 * grows with the length of the text and nothing else. Marks are never secrets, so redacting twice changes nothing.
 */

export interface Redacted {
  readonly text: string;
  /** What was taken out, by name. */
  readonly found: readonly string[];
}

interface Shape {
  readonly name: string;
  /** Texts that every such secret begins with. */
  readonly begins: readonly string[];
  /** Read where one of them stands. A group named `keep` stays; only the rest is taken out. */
  readonly reads: RegExp;
  /** A last look, for shapes that ordinary words can have. */
  readonly holds?: (secret: string) => boolean;
  /** Read after a miss: characters among which no other secret of this shape begins. */
  readonly run?: RegExp;
  /** What may not stand before it; default: a letter or a digit. */
  readonly notAfter?: RegExp;
}

const mixed = (secret: string): boolean =>
  /\d/u.test(secret) && (/[A-Z]/u.test(secret) || /[0-9a-f]{32}/u.test(secret));

const awsKinds = ['AKIA', 'ASIA', 'ABIA', 'ACCA', 'AGPA', 'AIDA', 'AIPA', 'ANPA', 'ANVA', 'AROA', 'APKA'];
const gitlabKinds = ['pat', 'dt', 'rt', 'cbt', 'ptt', 'ft', 'imt', 'agent', 'oas', 'soat', 'ffct', 'wt'];

const shapes: readonly Shape[] = [
  { name: 'AWS access key', begins: awsKinds, reads: /[A-Z]{4}[A-Z0-9]{16}(?![A-Za-z0-9])/y },
  { name: 'GitHub token', begins: ['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'], reads: /gh[pousr]_[A-Za-z0-9]{36,255}/y },
  { name: 'GitHub token', begins: ['github_pat_'], reads: /github_pat_[A-Za-z0-9_]{22,255}/y },
  {
    name: 'GitLab token',
    begins: gitlabKinds.map((kind) => `gl${kind}-`),
    reads: /gl[a-z]+-[A-Za-z0-9_-]{20,300}(?:\.[0-9a-z]{2}\.[0-9a-z]{7,9})?/y,
  },
  {
    name: 'GitLab token',
    begins: ['_gitlab_session=', 'GR1348941'],
    reads: /(?:GR1348941|_gitlab_session=)[A-Za-z0-9_-]{20,64}/y,
  },
  {
    name: 'Slack token',
    begins: ['xoxa-', 'xoxb-', 'xoxc-', 'xoxd-', 'xoxe-', 'xoxe.xox', 'xoxo-', 'xoxp-', 'xoxr-', 'xoxs-', 'xapp-'],
    reads: /x(?:ox[a-z]|app)(?:\.xox[a-z])?-[A-Za-z0-9%-]{10,400}/y,
  },
  {
    name: 'Slack webhook',
    begins: ['https://hooks.slack.com/'],
    reads: /(?<keep>https:\/\/hooks\.slack\.com\/(?:services|workflows|triggers)\/)[A-Za-z0-9/_-]{20,200}/y,
  },
  {
    name: 'Stripe key',
    begins: ['sk_live_', 'sk_test_', 'rk_live_', 'rk_test_'],
    reads: /[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}/y,
  },
  { name: 'signing secret', begins: ['whsec_'], reads: /whsec_[A-Za-z0-9+/]{24,128}={0,2}/y },
  { name: 'API key', begins: ['sk-'], reads: /sk-[A-Za-z0-9_-]{20,300}/y, holds: mixed },
  { name: 'Google API key', begins: ['AIza'], reads: /AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])/y },
  { name: 'Google token', begins: ['ya29.'], reads: /ya29\.[0-9A-Za-z_-]{20,2000}/y },
  { name: 'Google client secret', begins: ['GOCSPX-'], reads: /GOCSPX-[A-Za-z0-9_-]{28}(?![A-Za-z0-9_-])/y },
  {
    name: 'JWT',
    begins: ['eyJ'],
    reads:
      /eyJ[A-Za-z0-9_-]{8,16000}\.[A-Za-z0-9_-]{8,16000}\.[A-Za-z0-9_-]{8,16000}(?:\.[A-Za-z0-9_-]{8,16000}){0,2}/y,
    run: /[A-Za-z0-9_-]*/y,
  },
  { name: 'Hookledger key', begins: ['hlk_'], reads: /hlk_[A-Za-z0-9_-]{43}/y },
  { name: 'npm token', begins: ['npm_'], reads: /npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])/y },
  { name: 'PyPI token', begins: ['pypi-AgE'], reads: /pypi-AgE[A-Za-z0-9_-]{50,300}/y },
  { name: 'Hugging Face token', begins: ['hf_'], reads: /hf_[A-Za-z0-9]{34,64}(?![A-Za-z0-9])/y, holds: mixed },
  { name: 'Docker token', begins: ['dckr_pat_', 'dckr_oat_'], reads: /dckr_[op]at_[A-Za-z0-9_-]{20,64}/y },
  { name: 'DigitalOcean token', begins: ['dop_v1_', 'doo_v1_', 'dor_v1_'], reads: /do[opr]_v1_[a-f0-9]{64}/y },
  { name: 'SendGrid key', begins: ['SG.'], reads: /SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}/y },
  { name: 'Vault token', begins: ['hvs.', 'hvb.', 'hvr.'], reads: /hv[bsr]\.[A-Za-z0-9_-]{24,300}/y },
  {
    name: 'Shopify token',
    begins: ['shpat_', 'shpca_', 'shppa_', 'shpss_'],
    reads: /shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}/y,
  },
  { name: 'Databricks token', begins: ['dapi'], reads: /dapi[0-9a-f]{32}(?:-\d)?(?![0-9a-f])/y },
  { name: 'age key', begins: ['AGE-SECRET-KEY-1'], reads: /AGE-SECRET-KEY-1[0-9A-Z]{58}/y },
  {
    name: 'Telegram token',
    begins: [':AA'],
    reads: /(?<keep>:)AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])/y,
    notAfter: /[^0-9]/u,
  },
  { name: 'Azure key', begins: ['AccountKey='], reads: /(?<keep>AccountKey=)[A-Za-z0-9+/]{60,100}={0,2}/y },
];

interface Found {
  readonly from: number;
  readonly to: number;
  readonly name: string;
}

/** Secrets glued to secrets come apart in rounds; more rounds than these only a text made for it would need. */
const mostRounds = 8;

/** Takes every secret out. `cut`: the text was truncated, so that its last word may be the beginning of a secret. */
export const redact = (text: string, cut = false): Redacted => {
  const names: string[] = [];
  let now = text;
  for (let round = 0; round < mostRounds; round += 1) {
    const found = [
      ...shapes.flatMap((shape) => findShape(now, shape)),
      ...privateKeys(now),
      ...labelled(now),
      ...urls(now),
    ];
    if (cut) found.push(...cutOff(now));
    if (found.length === 0) break;
    const once = replaced(now, found);
    names.push(...once.found);
    now = once.text;
  }
  return { text: now, found: names };
};

const replaced = (text: string, found: readonly Found[]): Redacted => {
  const inOrder = [...found].sort((one, other) => one.from - other.from || other.to - one.to);
  let out = '';
  let at = 0;
  const names: string[] = [];
  for (const { from, to, name } of inOrder) {
    if (from < at) continue;
    out += `${text.slice(at, from)}[redacted ${name}]`;
    names.push(name);
    at = to;
  }
  return { text: out + text.slice(at), found: names };
};

const wordCharacter = /[A-Za-z0-9]/u;

const findShape = (text: string, shape: Shape): readonly Found[] => {
  const { name, begins, reads, holds, run, notAfter = wordCharacter } = shape;
  const found: Found[] = [];
  for (const begin of begins) {
    for (let at = text.indexOf(begin); at >= 0; at = text.indexOf(begin, at + 1)) {
      if (notAfter.test(text[at - 1] ?? '')) continue;
      const match = read(reads, text, at);
      const secret = match?.[0] ?? '';
      const from = at + (match?.groups?.keep?.length ?? 0);
      // What was read once is not read again from a later letter of it: that is what keeps the time linear.
      if (secret !== '') at += secret.length - 1;
      else if (run !== undefined) at += Math.max((read(run, text, at)?.[0].length ?? 0) - 1, 0);
      if (secret !== '' && holds?.(secret) !== false) found.push({ from, to: at + 1, name });
    }
  }
  return found;
};

const read = (sticky: RegExp, text: string, at: number): RegExpExecArray | null => {
  sticky.lastIndex = at;
  return sticky.exec(text);
};

// ---- blocks

const blockBegin = '-----BEGIN ';
const blockHead = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/y;
const blockLine =
  /(?:\\n|\r?\n)(?:[A-Za-z0-9+/=]{16,}|[A-Z][A-Za-z-]+: [^\r\n]*|[A-Za-z0-9+/]+={0,2}(?=\r?\n|\\n|$)|(?=\r?\n))/y;

/** Private keys of every kind, those whose end was cut off included. */
const privateKeys = (text: string): readonly Found[] => {
  const found: Found[] = [];
  const endings = text.matchAll(/-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g);
  let end = endings.next();
  for (let at = text.indexOf(blockBegin); at >= 0; at = text.indexOf(blockBegin, at + 1)) {
    const begin = read(blockHead, text, at)?.[0];
    if (begin === undefined) continue;
    const inside = at + begin.length;
    while (end.done !== true && end.value.index < inside) end = endings.next();
    const next = text.indexOf(blockBegin, inside);
    // An end that belongs to a later block is not this one's.
    const own = end.done !== true && (next < 0 || end.value.index < next) ? end.value : null;
    const to = own === null ? endOfLines(text, inside) : own.index + own[0].length;
    found.push({ from: at, to, name: 'private key' });
    at = to - 1;
  }
  return found;
};

const endOfLines = (text: string, from: number): number => {
  let at = from;
  for (;;) {
    const line = read(blockLine, text, at)?.[0] ?? '';
    if (line === '') return at;
    at += line.length;
  }
};

// ---- secrets that only their label gives away

const label =
  /(?:passwords?|passwd|passphrase|_pwd|secrets?|secret[_-]?key|(?:access|api|auth|private|account|encryption|signing)[_-]?keys?|tokens?|credentials?)(?=["']?[ \t]{0,4}[=:])/gi;
const assigned =
  /["']?(?:=|[ \t]{0,4}[=:][ \t]{0,4}(?=["']))(?:"([^"\r\n]{4,4096})"|'([^'\r\n]{4,4096})'|([^\s"'`;&|<>)},]{4,4096}))/y;
/** `password: hunter2` as a line of a configuration; in the middle of a sentence it is a sentence. */
const line = /["']?[ \t]{0,4}:[ \t]{1,8}([^\s"'#]{4,4096})(?=[ \t]{0,80}(?:\r?\n|$))/y;
const lineStart = /^[ \t]{0,80}(?:- )?["']?[\w.-]{0,80}$/;
const header =
  /(?<keep>(?:(?:proxy-)?authorization|x-api-key|api-key|x-auth-token|private-token|x-access-token|x-amz-security-token)["']?[ \t]{0,4}:[ \t]{0,4}["']?(?<scheme>(?:bearer|basic|token|apikey|digest|negotiate)[ \t]{1,4})?)(?<secret>[A-Za-z0-9._~+/=:-]{6,8192})/gi;
const bearer = /(?<keep>\b[Bb]earer[ \t]{1,4})(?<secret>[A-Za-z0-9._~+/-]{16,8192}={0,2})/g;

/** Values that stand where a secret would and are none. */
const placeholder =
  /^(?:\[redacted\b|\$[A-Za-z_]\w*$|\$[({]|%\w*%?$|<[^>]*>?$|\{\{|\*{3}|[xX]{4,}$|\.{3}|\d{1,7}$|(?:\/[\w.-]+){2,}$|(?:true|false|null|none|undefined|string|required|optional|missing|invalid|expired|changeme)$)/iu;

const labelled = (text: string): readonly Found[] => {
  const found: Found[] = [];
  let seen = 0;
  for (const match of text.matchAll(label)) {
    // A label inside a value is a part of it.
    if (match.index < seen) continue;
    const at = match.index + match[0].length;
    const value = read(assigned, text, at) ?? lineValue(text, match.index, at);
    if (value === null) continue;
    seen = value.index + value[0].length;
    const secret = value[1] ?? value[2] ?? value[3] ?? '';
    if (placeholder.test(secret)) continue;
    const to = seen - (/["']$/.test(value[0]) ? 1 : 0);
    found.push({ from: to - secret.length, to, name: 'secret' });
  }
  for (const expression of [header, bearer]) {
    for (const match of text.matchAll(expression)) {
      const { secret = '', scheme } = match.groups ?? {};
      // `Authorization: required` is a sentence, and so is `a bearer instrument`.
      if (placeholder.test(secret) || (scheme === undefined && !/\d/.test(secret) && secret.length < 24)) continue;
      const to = match.index + match[0].length;
      found.push({ from: to - secret.length, to, name: 'token' });
    }
  }
  return found;
};

const lineValue = (text: string, from: number, at: number): RegExpExecArray | null => {
  const before = text.slice(Math.max(from - 160, 0), from);
  return lineStart.test(before.slice(before.lastIndexOf('\n') + 1)) ? read(line, text, at) : null;
};

// ---- passwords in addresses

const credentials = /:\/\/([^\s/:@"'<>]{0,128}):([^\s/"'<>]{1,256})@(?=[^\s@])/y;

const urls = (text: string): readonly Found[] => {
  const found: Found[] = [];
  for (let at = text.indexOf('://'); at >= 0; at = text.indexOf('://', at + 3)) {
    const match = read(credentials, text, at);
    const secret = match?.[2] ?? '';
    if (match === null || placeholder.test(secret)) continue;
    const to = at + match[0].length - 1;
    found.push({ from: to - secret.length, to, name: 'password' });
  }
  return found;
};

// ---- the end of a truncated text

const startsOfSecrets = shapes
  .flatMap(({ begins }) => begins)
  .filter((begin) => begin.length >= 3 && !begin.includes('://'));

const cutOff = (text: string): readonly Found[] => {
  const from = /[A-Za-z0-9_.+/=-]*$/u.exec(text.slice(-512))?.index ?? 0;
  const start = Math.max(text.length - 512, 0) + from;
  const word = text.slice(start);
  return startsOfSecrets.some((begin) => word.startsWith(begin) && word.length >= begin.length + 4)
    ? [{ from: start, to: text.length, name: 'beginning of a secret' }]
    : [];
};
