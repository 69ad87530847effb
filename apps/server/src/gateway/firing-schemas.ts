import type { ApiBodyOptions } from '@nestjs/swagger';

type Schema = NonNullable<Extract<ApiBodyOptions, { schema: unknown }>['schema']>;

const id = { type: 'string', minLength: 1, maxLength: 200, nullable: true } as const;
const text = (description: string) => ({ type: 'string', nullable: true, description }) as const;

const envelope = {
  turnId: { ...id, description: 'Omitted: one is assigned per session, and the answer says so.' },
  sessionId: { ...id, description: "Taken from the hook's own arguments where omitted." },
  agentId: id,
  operationId: { ...id, description: 'Joins the hooks before and after one operation.' },
  correlationId: id,
  occurredAt: { type: 'string', format: 'date-time', nullable: true, description: "The caller's clock." },
  cause: text('The token that came with the host call which led to this operation; it alone carries the hop count.'),
  lineage: text('The token of an earlier answer that this operation descends from through a model turn.'),
  chainOf: { ...id, description: 'An earlier invocation whose chain is to be used.' },
  dataSubject: { ...id, description: 'Whose data this is: the scope under which the content can be erased.' },
} as const;

const own = {
  context: {
    type: 'object',
    description:
      "Middleware: the hook's own context, exactly the documented keys. OpenClaw: the second argument, open.",
  },
  event: { type: 'object', description: 'OpenClaw: the first argument. Known fields are typed, others pass through.' },
  profile: {
    type: 'string',
    enum: ['documented', '2026.7', '2026.9'] as string[],
    description: "OpenClaw: the profile, when it is not the account's.",
  },
} as const;

/** The body of a firing. What the hook's own arguments must hold is the hook's; a misfit is 422 with a pointer. */
export const fireBodySchema: Schema = {
  type: 'object',
  additionalProperties: false,
  properties: { ...envelope, ...own },
};

export const batchBodySchema: Schema = {
  type: 'object',
  required: ['items'],
  additionalProperties: false,
  properties: {
    items: {
      type: 'array',
      minItems: 1,
      maxItems: 100,
      items: {
        type: 'object',
        required: ['dialect', 'hook'],
        properties: { dialect: { type: 'string' }, hook: { type: 'string' }, ...envelope, ...own },
      },
    },
  },
};

const cancellation: Schema = {
  type: 'object',
  nullable: true,
  properties: {
    pluginId: { type: 'string', nullable: true },
    reason: { type: 'string', nullable: true },
    code: { type: 'string', nullable: true },
  },
};

const handler: Schema = {
  type: 'object',
  properties: {
    pluginId: { type: 'string' },
    pluginVersion: { type: 'string' },
    revision: { type: 'integer' },
    outcome: {
      type: 'string',
      enum: ['passed', 'rewrote', 'cancelled', 'observed', 'claimed', 'held', 'contributed', 'skipped', 'not_run'],
    },
    cause: { type: 'string', description: 'Why it did not decide, or did not run.' },
    wouldHave: { type: 'string', description: 'Mode observe: the outcome it would have had.' },
    durationMs: { type: 'number' },
    warnings: {
      type: 'array',
      items: {
        type: 'object',
        properties: { code: { type: 'string' }, detail: { type: 'string', nullable: true } },
      },
    },
  },
};

/** The answer to a firing. */
export const answerSchema: Schema = {
  type: 'object',
  properties: {
    invocationId: { type: 'string' },
    dialect: { type: 'string' },
    hook: { type: 'string' },
    turnId: { type: 'string' },
    turnInferred: { type: 'boolean' },
    outcome: { type: 'string', enum: ['passed', 'rewritten', 'cancelled', 'observed', 'claimed', 'held'] },
    value: {
      nullable: true,
      description:
        'Middleware: the final value of the one field that can change, an object of all such fields, or null: none, or cancelled. OpenClaw: the merged result, null where there is none.',
    },
    gate: {
      type: 'object',
      description: 'OpenClaw, before_tool_call: whether the call may go on, after policies and handlers.',
      properties: {
        blocked: { type: 'boolean' },
        kind: { type: 'string', nullable: true, enum: ['veto', 'failure', 'held', null] },
        deniedReason: { type: 'string' },
        reason: { type: 'string', nullable: true },
        params: { description: 'What the tool is called with.' },
      },
    },
    notice: { type: 'string', description: 'OpenClaw, before_agent_run: what the user of a blocked run is told.' },
    suppressed: {
      type: 'string',
      description: 'OpenClaw, message_sending and reply_payload_sending: why the message is not delivered.',
    },
    retries: {
      type: 'array',
      items: { type: 'string' },
      description: 'OpenClaw, before_agent_finalize: keys of the retries that were asked for.',
    },
    cancellation,
    hop: { type: 'integer' },
    hostSession: { type: 'string', enum: ['granted', 'withheld', 'absent'] },
    metered: { type: 'boolean' },
    attempt: { type: 'integer' },
    previousInvocationId: { type: 'string' },
    lineage: { type: 'string' },
    handlers: { type: 'array', items: handler },
    positions: { type: 'object', properties: { first: { type: 'string' }, last: { type: 'string' } } },
    repeated: {
      type: 'boolean',
      description: 'A later opening of the same server in the same turn: the first answer.',
    },
  },
};

export const batchSchema: Schema = {
  type: 'object',
  properties: {
    items: {
      type: 'array',
      items: {
        anyOf: [answerSchema, { type: 'object', properties: { problem: { type: 'object' } } }],
      },
    },
  },
};

/** A firing whose chain still runs. */
export const runningSchema: Schema = {
  type: 'object',
  properties: {
    invocationId: { type: 'string' },
    turnId: { type: 'string' },
    running: { type: 'boolean', enum: [true] },
  },
};
