/** One command: what it takes, and what it does, in lines for a terminal. */
interface CommandText {
  readonly usage: readonly string[];
  readonly about: string;
  readonly lines: readonly string[];
}

const connection = [
  '--url URL            of the server; default HOOKLEDGER_URL, else http://127.0.0.1:3000',
  '--key KEY            default HOOKLEDGER_KEY, which other users of the machine do not see',
  '--account ID         default "default"',
];

const texts: ReadonlyMap<string, CommandText> = new Map([
  [
    'doctor',
    {
      usage: ['doctor [--data FOLDER] [--json]'],
      about: 'checks a data folder and the configuration, and says what is fine and what is not',
      lines: [
        'Reads the same environment as the server and changes nothing. Exit code 1 when there is a problem.',
        '',
        '--data FOLDER        default HOOKLEDGER_DATA, else .hookledger',
        '--json               one JSON object instead of words',
      ],
    },
  ],
  [
    'keys',
    {
      usage: [
        'keys backup --to FILE [--data FOLDER]',
        'keys restore --from FILE [--data FOLDER]',
        'keys rotate [--data FOLDER] [--json]',
      ],
      about: 'keeps a copy of the master key, puts it back, or puts a new one in its place',
      lines: [
        'backup writes the key to a new file (mode 0600) outside the data folder. Keep it apart from the database.',
        'The file holds what HOOKLEDGER_MASTER_KEY and restore take. No key is ever printed.',
        '',
        'rotate makes a new master key and wraps every data key under it, while the server runs; no event changes.',
        'Interrupted, it goes on when it is run again. Where HOOKLEDGER_MASTER_KEY gives the key: start every server',
        'with the next one in HOOKLEDGER_MASTER_KEY_NEXT as well, rotate with both, then start with the new one only.',
        '',
        '--data FOLDER        default HOOKLEDGER_DATA, else .hookledger',
      ],
    },
  ],
  [
    'fire',
    {
      usage: ['fire HOOK --context FILE|- [options]'],
      about: 'fires a hook and prints the answer',
      lines: [
        '--context FILE|-     JSON of the hook’s own context; - reads it from standard input',
        '--dialect NAME       default middleware',
        '--turn ID, --session ID, --agent ID, --operation ID, --correlation ID, --data-subject ID',
        '--cause TOKEN, --lineage TOKEN',
        '--idempotency-key K  the same key and body get the first answer again',
        ...connection,
      ],
    },
  ],
  [
    'events',
    {
      usage: ['events [--follow] [options]'],
      about: 'prints the events of an account, one JSON line each',
      lines: [
        '--follow             goes on with what comes, and over lost connections, from now or from --after',
        '--after POSITION     only events after this one; "start" is before the first',
        '--until POSITION     up to and with this one (not with --follow)',
        '--type TYPE          only this type; may be repeated',
        '--session ID         only this session',
        '--open               with their content opened; needs a key with content: full',
        ...connection,
      ],
    },
  ],
  [
    'conformance',
    {
      usage: ['conformance FILE…'],
      about: 'runs conformance cases on the engine and the sandbox',
      lines: ['Ends with "N passed, N failed"; each failure with what was expected and what came.'],
    },
  ],
]);

const widest = Math.max(...[...texts.keys()].map((name) => name.length));

/** What `hookledger --help` says. */
export const generalHelp = [
  'Usage: hookledger COMMAND [options]',
  '',
  ...[...texts].map(([name, { about }]) => `  ${name.padEnd(widest)}  ${about}`),
  '',
  '  hookledger COMMAND --help says more; hookledger --version says which version this is.',
].join('\n');

/** What `hookledger COMMAND --help` says. */
export const commandHelp = (name: string): string => {
  const text = texts.get(name);
  if (text === undefined) return generalHelp;
  return [
    ...text.usage.map((usage, index) => `${index === 0 ? 'Usage:' : '      '} hookledger ${usage}`),
    '',
    ...text.lines.map((line) => (line === '' ? '' : `  ${line}`)),
  ].join('\n');
};
