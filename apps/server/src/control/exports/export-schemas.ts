const text = { type: 'string' } as const;
const count = { type: 'integer', minimum: 0 } as const;

/** An export, as answers show it. */
export const exportSchema = {
  type: 'object',
  required: ['id', 'state', 'format', 'content', 'query', 'range', 'createdAt', 'events', 'manifest'],
  properties: {
    id: text,
    state: { type: 'string', enum: ['waiting', 'running', 'done', 'failed'] },
    format: { type: 'string', enum: ['jsonl', 'csv'] },
    content: { type: 'string', enum: ['full', 'none'] },
    query: { type: 'object', description: 'As it was asked for; hidden from keys without content.' },
    range: {
      type: 'object',
      required: ['first', 'last'],
      properties: { first: text, last: text },
      description: 'Positions that it is pinned to.',
    },
    createdAt: { type: 'string', format: 'date-time' },
    events: { ...count, description: 'That are done.' },
    manifest: {
      type: 'object',
      nullable: true,
      description: '`manifest.json`: see docs/verification.md.',
      additionalProperties: true,
    },
  },
};
