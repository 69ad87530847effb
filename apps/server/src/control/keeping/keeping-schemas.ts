/** JSON Schemas of what the routes of keeping take and answer with, for the API's description. */
type Schema = { readonly type?: string } & Readonly<Record<string, unknown>>;

const text = { type: 'string' };
const maybeText = { ...text, nullable: true };
const count = { type: 'integer', minimum: 0 };
const instant = { type: 'string', format: 'date-time' };
const maybeInstant = { ...instant, nullable: true };

const object = (properties: Readonly<Record<string, object>>) => ({
  type: 'object' as const,
  required: Object.keys(properties),
  properties,
});

const list = (items: object) => ({ type: 'array', items });

const shown = {
  nullable: true,
  description: 'Text of a person: as it is, `{ "hidden": true, "size": n }` or `{ "erased": true, "size": n }`.',
};

const actor = {
  ...object({ kind: text, id: text }),
  properties: { kind: text, id: text, onBehalfOf: text },
  nullable: true,
};

const pageOf = (items: object) =>
  object({
    items: list(items),
    nextCursor: maybeText,
    completeUpTo: { ...maybeText, description: 'A position; null: the log is empty.' },
  });

const holdScope = {
  type: 'object',
  required: ['kind'],
  properties: {
    kind: { type: 'string', enum: ['account', 'session', 'subject', 'agent', 'plugin'] },
    id: { ...text, description: 'Of a subject: its HMAC.' },
    name: { ...shown, description: 'The subject as it was named; content.' },
  },
};

export const holdSchema = object({
  holdId: text,
  scope: holdScope,
  reason: shown,
  placedAt: instant,
  actor,
  position: text,
});
export const holdsSchema = pageOf(holdSchema);

const daysOf = { type: 'integer', nullable: true, minimum: 1, description: 'Days; null: kept for good.' };
const classes = (names: readonly string[]): object => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, daysOf])),
});

export const retentionSchema = (names: readonly string[]): Schema & { type: 'object' } => ({
  ...object({
    classes: classes(names),
    purges: {
      type: 'object',
      additionalProperties: list(text),
      description: 'The event types of each class; types that are in none are never purged.',
    },
    leastDaysWithoutReason: count,
    setAt: maybeInstant,
    version: count,
  }),
});

const erasureScope = object({
  kind: { type: 'string', enum: ['subject', 'session', 'account'] },
  id: { ...maybeText, description: 'Of a subject: its HMAC; null for the account.' },
});

export const erasureSchema = object({
  erasureId: text,
  state: { type: 'string', enum: ['begun', 'done'], description: '`begun`: on record, and being done.' },
  scope: erasureScope,
  keys: { ...list(text), description: 'Ids of the data keys that were destroyed.' },
  blobs: { ...count, description: 'Blobs that were removed.' },
  reason: shown,
  actor,
  begunAt: instant,
  doneAt: maybeInstant,
  positions: object({ begun: text, done: maybeText }),
});
export const erasuresSchema = pageOf(erasureSchema);

const range = object({ first: text, last: text, events: count });

export const purgeSchema = object({
  purgeId: { ...maybeText, description: 'Null of a dry run.' },
  dryRun: { type: 'boolean' },
  events: count,
  ranges: { ...list(range), description: 'Account positions that were, or would be, removed; at most 10,000 ranges.' },
  types: { type: 'object', additionalProperties: count },
  held: { ...count, description: 'Events past their retention that stay, since a hold is on them.' },
  holds: { ...list(text), description: 'The holds that are in force.' },
  policy: {
    type: 'object',
    additionalProperties: object({ days: count, before: instant }),
    description: 'The cutoff of every class that has a retention.',
  },
  blobs: { ...count, description: 'Blobs that no event names any more, removed.' },
  positions: { ...list(text), description: 'The `retention.purged` events that say so.' },
  purgedAt: maybeInstant,
});
export const purgesSchema = pageOf(purgeSchema);
