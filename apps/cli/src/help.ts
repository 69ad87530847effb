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
    'replay',
    {
      usage: ['replay --to projection:NAME|topic:NAME|file:PATH|stdout [options]'],
      about: 'takes the log again: into a read model, a topic, a file, or standard output',
      lines: [
        'projection:NAME      rebuilds a read model beside the live one and puts it in place; all: every one',
        '  --check            compares it with the live tables at the same position, and lists rows that differ',
        '  --no-swap          with --check: compares only',
        'topic:NAME           sends the events to a topic of its own, each marked with ce_replay',
        'file:PATH, stdout    the stored bytes, one line each',
        '',
        'Which events (topic, file, stdout): --account ID, --from POSITION, --to-position POSITION, --session ID,',
        '--stream NAME, --type TYPE (may be repeated; handler.* is a family). Positions are those of the account, or',
        'without --account those of the whole log; both ends are included.',
        '',
        '--source SOURCE      postgres (default), or kafka: the topics of the relay',
        '--rate N             at most N events a second',
        '--data FOLDER        default HOOKLEDGER_DATA, else .hookledger',
        '--json               one JSON object at the end, and no progress',
        '',
        'Reads the environment of the server and speaks to its database. Exit code 0: done; 1: it could not be, or rows',
        'differ; 130: interrupted, with nothing changed. Recorded as replay.started and replay.finished.',
      ],
    },
  ],
  [
    'refill',
    {
      usage: ['refill --from-kafka [--data FOLDER] [--json]'],
      about: 'fills an empty database from the topics and the master key alone',
      lines: [
        'For when the database is lost. Takes the environment of the server: DATABASE_URL names the new, empty database',
        '(HOOKLEDGER_MIGRATION_URL its owner, where that is another user), HOOKLEDGER_KAFKA_* the topics, and',
        'HOOKLEDGER_MASTER_KEY or the data folder the master key. Start no server before.',
        '',
        'Brings back events, streams, keys, blobs, trees and checkpoints. All or nothing: a position that no topic has',
        'stops it, and the database stays empty. Idempotency keys are not in the topics. Then run hookledger verify.',
        '',
        '--data FOLDER        default HOOKLEDGER_DATA, else .hookledger',
        '--json               one JSON object at the end, and no progress',
      ],
    },
  ],
  [
    'export',
    {
      usage: ['export --to FILE [options]'],
      about: 'fetches a part of the record as one file that can be verified without the server',
      lines: [
        '--to FILE            a tar with the stored bytes, proofs and a manifest; with --format csv, a CSV',
        '--format FORMAT      jsonl, or csv for a spreadsheet; default by the name of the file',
        '--content            with content opened; needs a key with content: full',
        '--from TIME, --until TIME      recorded at or after, and before; RFC 3339 or dates, never relative',
        '--first POSITION, --last POSITION',
        '--type TYPE          may be repeated; handler.* is a family',
        '--session ID, --stream NAME',
        '--resume ID          fetches an export that was asked for before',
        '--json               one JSON object at the end, and no progress',
        'What it holds is fixed when it is asked for. A file that came cut short or changed is not kept.',
        ...connection,
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
    'verify',
    {
      usage: ['verify [options]'],
      about: 'checks the whole record against what was sealed, and lists every fault',
      lines: [
        'Reads DATABASE_URL, else the embedded database of the data folder while it runs; needs no more than to read.',
        'Exit code 0: no fault; 1: faults, a line each by account and position; 2: it could not be verified.',
        '',
        '--export PATH        an export instead of a database: a tar, or the folder of its files',
        '--account ID         only this account',
        '--checkpoints PATH   the sealer’s folder or its checkpoints.jsonl, best a copy that the database’s admin',
        '                     cannot reach; default HOOKLEDGER_CHECKPOINT_DIR, where there is one',
        '--log-key KEY|FILE   a public key of the log from outside; may be repeated; default those beside the checkpoints',
        '--without-key        does not use the master key: rows that were forged before they were sealed are not found',
        '--data FOLDER        default HOOKLEDGER_DATA, else .hookledger',
        '--json               a line of JSON for each fault, the last one is the sum',
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
