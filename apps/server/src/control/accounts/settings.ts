import { Ajv } from 'ajv';
import type { FieldFault } from '#platform';
import { escapePointer } from '#platform';
import type { Json, JsonObject } from '#record';

type DialectName = 'middleware' | 'openclaw' | 'kohaku';

/** A reference to one of the account's secrets. */
export interface SecretReference {
  readonly $secret: string;
}

/** Everything an account may set (api.md, settings). */
export interface Settings {
  /** Time limit of a handler whose plugin names none, ms; a dialect that is absent keeps its own. */
  readonly timeouts: { readonly [D in DialectName]?: number };
  /** Which of a dialect's profiles is followed (openclaw.md §22, kohaku.md). */
  readonly profiles: {
    readonly openclaw: 'documented' | '2026.7' | '2026.9';
    readonly kohaku: 'documented' | '2.1';
  };
  /** What OpenClaw's own configuration says per plugin. */
  readonly openclawHookGates: {
    readonly [pluginId: string]: {
      readonly allowConversationAccess?: boolean;
      readonly allowPromptInjection?: boolean;
    };
  };
  /** Hosts that `host.fetch` may reach: names, `*.example.org` for what is below one. Empty: none. */
  readonly fetchHosts: readonly string[];
  /** The same for single plugins: one that stands here has its own list in place of the account's. */
  readonly pluginFetchHosts: { readonly [pluginId: string]: readonly string[] };
  /** Where `host.llm` and `host.decide` go; null: to a runtime. */
  readonly modelEndpoint: {
    readonly url: string;
    readonly model: string;
    readonly apiKey?: SecretReference;
  } | null;
  /** Most messages of plugins that may descend from one root, and so most invocations; null: no limit (MW-103). */
  readonly breadthPerRoot: number | null;
  /** `allow-always` is kept as a revocable grant. */
  readonly approvalGrants: boolean;
  /** A parameter changed after the approval asks again. */
  readonly strictApprovals: boolean;
  /** Whether the person behind a request may decide on it. */
  readonly selfApproval: boolean;
  /** Judged before every install, version and rollback; null: everything may be installed. */
  readonly installPolicy: {
    readonly allow?: readonly string[];
    readonly deny?: readonly string[];
    readonly requireDigest?: boolean;
  } | null;
  /**
   * `off`: no guard is ever disabled by the platform on its own (MW-58a). Else a plugin whose handlers fail to decide
   * this often within this time is disabled, and the trip is on record.
   */
  readonly circuitBreaker: 'off' | { readonly failures: number; readonly windowSeconds: number };
}

/** What holds until an account says otherwise. */
export const defaultSettings: Settings = {
  timeouts: {},
  profiles: { openclaw: 'documented', kohaku: 'documented' },
  openclawHookGates: {},
  fetchHosts: [],
  pluginFetchHosts: {},
  modelEndpoint: null,
  breadthPerRoot: null,
  approvalGrants: true,
  strictApprovals: true,
  selfApproval: false,
  installPolicy: null,
  circuitBreaker: 'off',
};

const patterns = { type: 'array', maxItems: 1000, items: { type: 'string', minLength: 1, maxLength: 200 } } as const;
const milliseconds = (most: number) => ({ type: 'integer', minimum: 1, maximum: most }) as const;
const closed = (properties: object, required: readonly string[] = []) => ({
  type: 'object',
  additionalProperties: false,
  properties,
  required,
});
const hostName =
  '^(?:\\*\\.)?(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}))*(?::[0-9]{1,5})?$';
const hostList = {
  type: 'array',
  maxItems: 1000,
  uniqueItems: true,
  items: { type: 'string', pattern: hostName },
} as const;

const properties = {
  timeouts: {
    ...closed({ middleware: milliseconds(5_000), openclaw: milliseconds(600_000), kohaku: milliseconds(600_000) }),
    description: 'Time limit of a handler whose plugin names none, ms. A dialect that is absent keeps its own.',
  },
  profiles: {
    ...closed({
      openclaw: { type: 'string', enum: ['documented', '2026.7', '2026.9'] },
      kohaku: { type: 'string', enum: ['documented', '2.1'] },
    }),
    description: 'Which profile of a dialect is followed; absent: documented.',
  },
  openclawHookGates: {
    type: 'object',
    maxProperties: 1000,
    propertyNames: { minLength: 1, maxLength: 200 },
    additionalProperties: closed({
      allowConversationAccess: { type: 'boolean' },
      allowPromptInjection: { type: 'boolean' },
    }),
    description: 'OpenClaw: which hooks a plugin may have, by plugin id.',
  },
  fetchHosts: {
    ...hostList,
    description:
      'Hosts that host.fetch may reach: names, *.example.org for what is below one; without a port 80 and 443. Empty: none.',
  },
  pluginFetchHosts: {
    type: 'object',
    maxProperties: 1000,
    propertyNames: { minLength: 1, maxLength: 200 },
    additionalProperties: hostList,
    description: 'By plugin id: the list that this plugin has in place of fetchHosts.',
  },
  modelEndpoint: {
    ...closed(
      {
        url: { type: 'string', pattern: '^https?://[^\\s]{1,2000}$' },
        model: { type: 'string', minLength: 1, maxLength: 200 },
        apiKey: closed({ $secret: { type: 'string', minLength: 1, maxLength: 200 } }, ['$secret']),
      },
      ['url', 'model'],
    ),
    nullable: true,
    description: 'Where host.llm and host.decide go; null: to a runtime. Its key only as { "$secret": "name" }.',
  },
  breadthPerRoot: {
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000,
    nullable: true,
    description: 'Most messages of plugins, and so invocations, that may descend from one root; null: no limit.',
  },
  approvalGrants: { type: 'boolean', description: 'allow-always is kept as a revocable grant.' },
  strictApprovals: { type: 'boolean', description: 'A parameter changed after the approval asks again.' },
  selfApproval: { type: 'boolean', description: 'Whether the person behind a request may decide on it.' },
  installPolicy: {
    ...closed({ allow: patterns, deny: patterns, requireDigest: { type: 'boolean' } }),
    nullable: true,
    description: 'Plugin ids that may be installed, and that may not (* stands for any text); deny wins.',
  },
  circuitBreaker: {
    anyOf: [
      { type: 'string', enum: ['off'] },
      closed(
        {
          failures: { type: 'integer', minimum: 1, maximum: 500 },
          windowSeconds: { type: 'integer', minimum: 1, maximum: 86_400 },
        },
        ['failures', 'windowSeconds'],
      ),
    ],
    description:
      'off: no guard is ever disabled by the platform on its own. Else a plugin that fails to decide so often within this time is disabled.',
  },
} as const;

/** JSON Schema of the settings: what the API documents and what a change is checked against. */
export const settingsSchema = { type: 'object', additionalProperties: false, properties } as const;

const validatePatch = new Ajv({ allErrors: true, strict: false }).compile({
  ...settingsSchema,
  // null puts a setting back to its default (RFC 7396).
  properties: Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, { anyOf: [{ type: 'null' }, schema] }]),
  ),
});

/** What a change comes to, or what is wrong with it. */
export type SettingsChange =
  | { readonly kind: 'changed'; readonly after: Settings; readonly changed: readonly string[] }
  | { readonly kind: 'refused'; readonly faults: readonly FieldFault[] };

/** A change by RFC 7396 on the level of settings: each named one is replaced whole, null puts it back to its default. */
export const changeSettings = (before: Settings, patch: JsonObject): SettingsChange => {
  const faults = faultsOf(patch);
  if (faults.length > 0) return { kind: 'refused', faults };
  const defaults = defaultSettings as unknown as JsonObject;
  const after: Record<string, Json> = { ...(before as unknown as JsonObject) };
  for (const [name, value] of Object.entries(patch)) {
    const whole =
      name === 'profiles' && value !== null ? { ...defaultSettings.profiles, ...(value as JsonObject) } : value;
    after[name] = whole ?? defaults[name] ?? null;
  }
  const changed = Object.keys(patch).filter(
    (name) => JSON.stringify(after[name]) !== JSON.stringify((before as unknown as JsonObject)[name]),
  );
  return { kind: 'changed', after: after as unknown as Settings, changed };
};

const faultsOf = (patch: JsonObject): readonly FieldFault[] => {
  const known = Object.keys(properties);
  const unknown = Object.keys(patch).filter((name) => !known.includes(name));
  const faults: FieldFault[] = unknown.map((name) => ({
    pointer: `/${escapePointer(name)}`,
    reason: `unknown setting; known are ${known.join(', ')}`,
  }));
  if (validatePatch(patch)) return faults;
  for (const error of validatePatch.errors ?? []) {
    // `anyOf` and its null branch say only that the other branch failed.
    if (error.keyword === 'anyOf' || error.schemaPath.includes('/anyOf/0/')) continue;
    const { additionalProperty, allowedValues } = error.params as {
      additionalProperty?: string;
      allowedValues?: unknown[];
    };
    if (error.instancePath === '' && additionalProperty !== undefined) continue;
    const tail = additionalProperty === undefined ? '' : `/${escapePointer(additionalProperty)}`;
    const words = allowedValues === undefined ? '' : `: ${allowedValues.join(', ')}`;
    const reason = additionalProperty === undefined ? `${error.message ?? 'does not fit'}${words}` : 'unknown field';
    faults.push({ pointer: `${error.instancePath}${tail}`, reason });
  }
  return faults;
};
