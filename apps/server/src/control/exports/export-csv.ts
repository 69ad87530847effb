import { stringify } from 'csv-stringify/sync';
import type { StoredEvent } from '#event-store';
import type { RecordedEvent } from '#record';

type Cell = string | number | undefined;

/** The columns of a CSV export. */
const columns: readonly (readonly [
  header: string,
  of: (event: RecordedEvent, position: bigint, data: string) => Cell,
])[] = [
  ['position', (_, position) => String(position)],
  ['recordedAt', ({ recordedAt }) => recordedAt],
  ['occurredAt', ({ occurredAt }) => occurredAt],
  ['type', ({ type }) => type],
  ['outcome', ({ outcome }) => outcome],
  ['reasonCode', ({ reasonCode }) => reasonCode],
  ['dialect', ({ dialect }) => dialect],
  ['hook', ({ hook }) => hook],
  ['pluginId', ({ pluginId }) => pluginId],
  ['pluginVersion', ({ pluginVersion }) => pluginVersion],
  ['pluginRevision', ({ pluginRevision }) => pluginRevision],
  ['target', ({ target }) => target],
  ['sessionId', ({ sessionId }) => sessionId],
  ['agentId', ({ agentId }) => agentId],
  ['turnId', ({ turnId }) => turnId],
  ['invocationId', ({ invocationId }) => invocationId],
  ['operationId', ({ operationId }) => operationId],
  ['correlationId', ({ correlationId }) => correlationId],
  ['root', ({ root }) => root],
  ['hop', ({ hop }) => hop],
  ['attempt', ({ attempt }) => attempt],
  ['durationMs', ({ durationMs }) => durationMs],
  ['actorKind', ({ actor }) => actor?.kind],
  ['actorId', ({ actor }) => actor?.id],
  ['onBehalfOf', ({ actor }) => actor?.onBehalfOf],
  ['stream', ({ stream }) => stream],
  ['streamVersion', ({ streamVersion }) => streamVersion],
  ['id', ({ id }) => id],
  ['data', (_event, _position, data) => data],
];

const options = { quoted_string: true, record_delimiter: '\r\n', escape_formulas: true } as const;

/** The first line, with the mark by which spreadsheets know UTF-8. */
export const csvHead = (): string => stringify([columns.map(([header]) => header)], { ...options, bom: true });

/**
 * Events as lines of CSV (RFC 4180) that open inert in a spreadsheet: a cell that could be taken for a formula begins
 * with an apostrophe, and no cell holds a character that ends a line, a cell or the file for some reader. `datas` are
 * the JSON texts of `data`.
 */
export const csvLines = (events: readonly StoredEvent[], datas: readonly string[]): string =>
  stringify(
    events.map(({ event, position }, index) =>
      columns.map(([, of]) => {
        const cell = of(event, position, datas[index] ?? '');
        return typeof cell === 'string' ? inert(cell) : cell;
      }),
    ),
    options,
  );

/**
 * Blanks before a formula's sign are cut by some spreadsheets, and NUL by all; line breaks inside a cell make other
 * programs see two lines. A cell says what it holds in JSON's own escapes instead.
 */
const inert = (text: string): string =>
  text
    .toWellFormed()
    // eslint-disable-next-line no-control-regex -- controls are what is looked for
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufeff]/gu, escaped)
    .replace(/^(\s+)(?=[=+\-@＝＋－＠])/u, "'$1");

const escaped = (mark: string): string => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`;
