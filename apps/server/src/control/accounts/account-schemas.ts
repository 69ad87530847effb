/** JSON Schemas of what the account routes answer with, for the API's description. */
const text = { type: 'string' };
const instant = { type: 'string', format: 'date-time' };
const maybeInstant = { ...instant, nullable: true };
const content = { type: 'string', enum: ['full', 'none'] };
const role = { type: 'string', enum: ['runtime', 'admin', 'approver', 'auditor', 'operator'] };

const object = (properties: Readonly<Record<string, object>>) => ({
  type: 'object' as const,
  required: Object.keys(properties),
  properties,
});

const pageOf = (items: object) =>
  object({
    items: { type: 'array', items },
    nextCursor: { ...text, nullable: true },
    completeUpTo: { ...text, nullable: true, description: 'A position; null: the log is empty.' },
  });

/** Text of a person: shown, hidden by `content: none`, or erased. */
const shown = {
  nullable: true,
  oneOf: [
    text,
    object({ hidden: { type: 'boolean', enum: [true] }, size: { type: 'integer' } }),
    object({ erased: { type: 'boolean', enum: [true] }, size: { type: 'integer' } }),
  ],
};

export const accountSchema = object({ id: text, name: text, createdAt: instant });
export const accountsSchema = pageOf(accountSchema);

const key = { id: text, role, name: text, content, expiresAt: maybeInstant };
export const createdKeySchema = object({
  ...key,
  secret: { ...text, nullable: true, description: 'Null when a repetition comes after the master key was changed.' },
});
export const keysSchema = pageOf(object({ ...key, createdAt: instant, revokedAt: maybeInstant }));

export const secretSchema = object({
  name: text,
  digest: { ...text, description: 'Tells values apart; says nothing about them.' },
  version: { type: 'integer', minimum: 1 },
  setAt: instant,
});
export const secretsSchema = pageOf(secretSchema);

export const haltSchema = object({
  halted: { type: 'boolean', enum: [true] },
  failureMode: { type: 'string', enum: ['open', 'closed'] },
  until: maybeInstant,
  reason: shown,
  since: instant,
});
export const haltStateSchema = { oneOf: [haltSchema, object({ halted: { type: 'boolean', enum: [false] } })] };
