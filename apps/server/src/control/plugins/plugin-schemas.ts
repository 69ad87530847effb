/** JSON Schemas of the answers about plugins, for the published document. */

const text = { type: 'string' } as const;
const texts = { type: 'array', items: text } as const;
const content = {
  description: 'Content: the value, or `{ "hidden": true, "size" }`, or after erasure `{ "erased": true, "size" }`.',
} as const;

export const pluginSchema = {
  type: 'object',
  required: ['id', 'name', 'dialect', 'version', 'revision', 'enabled', 'hooks', 'permissions', 'warnings'],
  properties: {
    id: text,
    name: text,
    dialect: { type: 'string', enum: ['middleware', 'openclaw', 'kohaku'] },
    language: { type: 'string', enum: ['javascript', 'typescript', 'python'] },
    version: text,
    revision: { type: 'integer', minimum: 1 },
    enabled: { type: 'boolean' },
    priority: { type: 'number', nullable: true },
    failureMode: { type: 'string', enum: ['open', 'closed'] },
    mode: { type: 'string', enum: ['enforce', 'observe'] },
    isolation: { type: 'string', enum: ['warm', 'fresh'] },
    timeouts: { type: 'object' },
    permissions: texts,
    requestedPermissions: texts,
    hooks: texts,
    gated: texts,
    warnings: { type: 'array', items: { type: 'object', properties: { code: text, detail: text } } },
    config: content,
    configDigest: text,
    configSchema: content,
    sourceDigest: text,
    compiledDigest: text,
    compiler: { type: 'string', nullable: true },
  },
};
