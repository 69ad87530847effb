import type { Json, JsonObject } from '#record';
import type { Version } from './catalogue.js';
import { isSensitiveKey, maskSecret, redactSecrets } from './redaction.js';

/** Bounds of what a transcript keeps of a tool result's `details` (openclaw.md §10). */
export const detailsLimits = {
  bytes: 8192,
  depth: 8,
  stringUnits: 2000,
  overlapUnits: 512,
  lookaheadUnits: 1024,
  sessions: 10,
  sessionStringUnits: 500,
  fallbackStringUnits: 200,
  keys: 40,
} as const;

const states = [
  'status',
  'sessionId',
  'pid',
  'startedAt',
  'endedAt',
  'cwd',
  'name',
  'exitCode',
  'exitSignal',
  'retryInMs',
  'total',
  'totalLines',
  'totalChars',
  'truncated',
  'fullOutputPath',
  'spilledChars',
  'spillTruncated',
  'truncation',
];
const fallbackStates = [
  'status',
  'sessionId',
  'pid',
  'exitCode',
  'exitSignal',
  'truncated',
  'fullOutputPath',
  'spilledChars',
  'spillTruncated',
];
const sessionStates = [
  'sessionId',
  'status',
  'pid',
  'startedAt',
  'endedAt',
  'runtimeMs',
  'cwd',
  'name',
  'truncated',
  'exitCode',
  'exitSignal',
];
const flags = ['disabled', 'unavailable', 'success'];

/** What a transcript keeps of `details`: redacted where they are small, a summary where they are not. */
export const capDetails = (details: Json, version: Version): Json => {
  if (details === null) return null;
  const size = sizeUpTo(details, detailsLimits.bytes);
  if (size.complete) return withinCap(redacted(details, 0, null), details, size, version);
  if (typeof details !== 'object')
    return { persistedDetailsTruncated: true, ...sizeFields(size), valueType: typeof details };
  const source = details as JsonObject;
  const summary: JsonObject = {
    persistedDetailsTruncated: true,
    ...sizeFields(size),
    originalDetailKeys: keysOf(source),
    ...copied(source, version === '2026.9' ? [...states, 'spill'] : states, detailsLimits.stringUnits),
    ...resultState(source, detailsLimits.stringUnits),
    ...(typeof source.tail === 'string' ? { tail: cutText(source.tail, detailsLimits.stringUnits) } : {}),
    ...sessionsOf(source.sessions),
  };
  return withinCap(summary, source, size, version);
};

/** A message as a transcript keeps it: only tool results have details. */
export const capToolResult = (message: JsonObject, version: Version): JsonObject =>
  message.role === 'toolResult' && Object.hasOwn(message, 'details')
    ? { ...message, details: capDetails(message.details ?? null, version) }
    : message;

interface Size {
  readonly bytes: number;
  /** False: counting stopped when the limit was passed. */
  readonly complete: boolean;
}

const sizeFields = ({ bytes, complete }: Size): JsonObject =>
  complete ? { originalDetailsBytes: bytes } : { originalDetailsBytesAtLeast: bytes };

/** Bytes of the JSON text, counted no further than the limit. */
const sizeUpTo = (value: Json, limit: number): Size => {
  let bytes = 0;
  const add = (count: number): boolean => (bytes += count) <= limit;
  const text = (item: string): boolean =>
    add(item.length + 2 > limit - bytes ? limit - bytes + 1 : Buffer.byteLength(JSON.stringify(item)));
  const visit = (item: Json): boolean => {
    if (typeof item === 'string') return text(item);
    if (typeof item !== 'object' || item === null) return add(Buffer.byteLength(JSON.stringify(item)));
    if (Array.isArray(item)) {
      return add(1) && (item as readonly Json[]).every((one, index) => (index === 0 || add(1)) && visit(one)) && add(1);
    }
    const entries = Object.entries(item as JsonObject);
    return (
      add(1) &&
      entries.every(([key, one], index) => (index === 0 || add(1)) && text(key) && add(1) && visit(one)) &&
      add(1)
    );
  };
  const complete = visit(value);
  return { bytes: complete ? bytes : Math.max(bytes, limit + 1), complete };
};

const byteLength = (value: Json): number => Buffer.byteLength(JSON.stringify(value));

const withinCap = (value: Json, original: Json, size: Size, version: Version): Json => {
  const bytes = byteLength(value);
  if (bytes <= detailsLimits.bytes) return value;
  const least: JsonObject = {
    persistedDetailsTruncated: true,
    finalDetailsTruncated: true,
    ...sizeFields(size),
    sanitizedDetailsBytes: bytes,
  };
  if (typeof original !== 'object' || original === null || Array.isArray(original)) return least;
  const source = original as JsonObject;
  const fallback: JsonObject = {
    ...least,
    originalDetailKeys: keysOf(source),
    ...copied(
      source,
      version === '2026.9' ? [...fallbackStates, 'spill'] : fallbackStates,
      detailsLimits.fallbackStringUnits,
    ),
    ...resultState(source, detailsLimits.fallbackStringUnits),
  };
  return byteLength(fallback) <= detailsLimits.bytes ? fallback : least;
};

const keysOf = (source: JsonObject): readonly string[] =>
  Object.keys(source).slice(0, detailsLimits.keys).map(redactSecrets);

const copied = (source: JsonObject, names: readonly string[], units: number): JsonObject =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = source[name];
      if (value === undefined) return [];
      return [
        [
          name,
          typeof value === 'string' ? cutText(value, units) : redacted(value, 0, isSensitiveKey(name) ? name : null),
        ],
      ];
    }),
  );

const resultState = (source: JsonObject, units: number): JsonObject => {
  const { error } = source;
  return {
    ...Object.fromEntries(flags.flatMap((name) => (typeof source[name] === 'boolean' ? [[name, source[name]]] : []))),
    ...(typeof error === 'string' && error !== '' ? { error: cutText(error, units) } : error ? { error: true } : {}),
  };
};

const sessionsOf = (sessions: Json | undefined): JsonObject => {
  if (!Array.isArray(sessions)) return {};
  const list = sessions as readonly Json[];
  const more = list.length - detailsLimits.sessions;
  return {
    sessions: list.slice(0, detailsLimits.sessions).map(sessionOf),
    ...(more > 0 ? { sessionsTruncated: more } : {}),
  };
};

const sessionOf = (session: Json): Json => {
  if (typeof session !== 'object' || session === null) return session;
  const source = session as JsonObject;
  return {
    ...copied(source, sessionStates, detailsLimits.sessionStringUnits),
    ...(typeof source.command === 'string'
      ? { command: cutText(source.command, detailsLimits.sessionStringUnits) }
      : {}),
  };
};

const tooDeep = '[OpenClaw persisted detail redacted: max depth exceeded]';

/** The same value without what looks like a secret; under a secret's name everything is masked. */
const redacted = (value: Json, depth: number, secretKey: string | null): Json => {
  if (typeof value === 'string') return secretKey === null ? redactSecrets(value) : maskSecret(value);
  if (typeof value !== 'object' || value === null) {
    return secretKey === null || value === null ? value : maskSecret(String(value));
  }
  if (depth >= detailsLimits.depth) return tooDeep;
  if (Array.isArray(value)) return (value as readonly Json[]).map((item) => redacted(item, depth + 1, secretKey));
  return Object.fromEntries(
    Object.entries(value as JsonObject).map(([key, item]) => [
      redactSecrets(key),
      redacted(item, depth + 1, isSensitiveKey(key) ? key : secretKey),
    ]),
  );
};

const boundary = '\u0000OPENCLAW_PERSISTED_DETAIL_BOUNDARY\u0000';
const halfSecret =
  /(?:["']?(?:api[-_]?key|token|secret|password|passwd|access[-_]?token|refresh[-_]?token|auth[-_]?token|client[-_]?secret|app[-_]?secret|card[-_]?number|cvc|cvv)["']?\s*[:=]\s*["']?)(?!\*{3})(?=[^\s"',}\]]{8,})/iu;
const halfKey = /-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/iu;

/** A text at most so long: a redacted beginning, unless a secret crosses the cut, and how much is gone. */
const cutText = (value: string, units: number): string => {
  if (value.length <= units) return redactSecrets(value);
  const scanned = redactSecrets(
    `${value.slice(0, units)}${boundary}${value.slice(units, units + detailsLimits.lookaheadUnits)}`,
  );
  const end = scanned.indexOf(boundary);
  const before = end < 0 ? '[OpenClaw persisted detail redacted: boundary marker removed]' : scanned.slice(0, end);
  const kept = before.slice(0, Math.max(0, units - detailsLimits.overlapUnits));
  const shown =
    halfSecret.test(kept) || halfKey.test(kept)
      ? '[OpenClaw persisted detail redacted: partial secret span omitted]'
      : kept;
  const gone = String(value.length - units);
  return `${shown}${shown === '' ? '' : '\n'}[OpenClaw persisted detail redacted: boundary overlap omitted]\n\n[OpenClaw persisted detail truncated: ${gone} original chars omitted]`;
};
