import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { readOptions } from '../options.js';
import { Failure, jsonLine, Misuse, plain } from '../words.js';
import type { Connection } from './connection.js';
import { ask, connectionOptions, readConnection, textOf } from './connection.js';

/** How long the server keeps a request open for a chain that takes its time, s. */
const waitSeconds = 55;

const fireOptions = {
  ...connectionOptions,
  context: { type: 'string' },
  dialect: { type: 'string' },
  turn: { type: 'string' },
  session: { type: 'string' },
  agent: { type: 'string' },
  operation: { type: 'string' },
  correlation: { type: 'string' },
  'data-subject': { type: 'string' },
  cause: { type: 'string' },
  lineage: { type: 'string' },
  'idempotency-key': { type: 'string' },
} as const;

/** Which field of the envelope an option gives. */
const envelopeFields = {
  turn: 'turnId',
  session: 'sessionId',
  agent: 'agentId',
  operation: 'operationId',
  correlation: 'correlationId',
  'data-subject': 'dataSubject',
  cause: 'cause',
  lineage: 'lineage',
} as const;

/** What to fire, read and not yet sent. */
export interface Firing {
  readonly path: string;
  /** The fields beside the context. */
  readonly envelope: Readonly<Record<string, string>>;
  /** A file, or `-` for standard input. */
  readonly contextFile: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Reads the words of `hookledger fire`. Throws `Misuse`. */
export const readFiring = (
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): { readonly connection: Connection; readonly firing: Firing } => {
  const { values, positionals } = readOptions(args, fireOptions, ['HOOK']);
  const [hook = ''] = positionals;
  if (values.context === undefined || values.context === '') throw new Misuse('--context FILE is missing');
  const given = Object.entries(envelopeFields).flatMap(([option, field]) => {
    const value = values[option as keyof typeof envelopeFields];
    return value === undefined ? [] : [[field, value] as const];
  });
  const key = values['idempotency-key'];
  if (key !== undefined && !/^[\x21-\x7e]{1,200}$/u.test(key)) {
    throw new Misuse('--idempotency-key must be 1 to 200 visible ASCII characters');
  }
  return {
    connection: readConnection(values, env),
    firing: {
      path: `/hooks/${encodeURIComponent(values.dialect ?? 'middleware')}/${encodeURIComponent(hook)}`,
      envelope: Object.fromEntries(given),
      contextFile: values.context,
      headers: key === undefined ? {} : { 'idempotency-key': key },
    },
  };
};

/**
 * `hookledger fire HOOK --context FILE|-`: fires a hook and prints the answer as one JSON line. The exit code is 0 for
 * every answer, a cancellation among them: what to do stands in it.
 */
export const fire = async (args: readonly string[]): Promise<number> => {
  const { connection, firing } = readFiring(args, process.env);
  const body = bodyOf(firing.envelope, await readContext(firing.contextFile));
  const response = await ask(connection, `${firing.path}?wait=${waitSeconds}`, {
    method: 'POST',
    body,
    headers: firing.headers,
  });
  console.log(jsonLine(await finished(connection, response)));
  return 0;
};

/** A chain that still runs is asked for until it is done. */
const finished = async (connection: Connection, first: Response): Promise<string> => {
  let response = first;
  for (;;) {
    const text = await textOf(connection, response);
    if (response.status !== 202) return text;
    const { invocationId } = JSON.parse(text) as { readonly invocationId: string };
    response = await ask(connection, `/answers/${encodeURIComponent(invocationId)}?wait=${waitSeconds}`);
  }
};

const readContext = async (file: string): Promise<string> => {
  const bytes = await (file === '-' ? buffer(process.stdin) : readFile(file)).catch((error: unknown) => {
    throw new Failure(`${plain(file)} cannot be read (${(error as { code?: string }).code ?? 'unknown error'}).`);
  });
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Failure('The context is not UTF-8.');
  }
};

/**
 * The body of a firing. The context goes as it was written, so that its numbers keep their digits and the server, not
 * this program, judges it. Throws `Failure` for a context that is no JSON object.
 */
export const bodyOf = (envelope: Firing['envelope'], context: string): string => {
  if (!isJsonObject(context)) throw new Failure('The context is no JSON object.');
  const fields = Object.entries(envelope).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return `{${[...fields, `"context":${context}`].join(',')}}`;
};

const isJsonObject = (text: string): boolean => {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
};
