import type { Condition, FieldRules, MergeMode } from '#hooks';
import type { Version } from './catalogue.js';
import type { Profile } from './profiles.js';

/** How the results of a modifying hook become one (openclaw.md §6, §11 to §18), as the engine takes it. */
export interface Merge {
  readonly fields: FieldRules;
  readonly chained?: MergeMode['chained'];
  readonly terminal?: Condition;
  readonly cancels?: NonNullable<MergeMode['cancels']>;
  readonly holds?: string;
  readonly controls?: readonly string[];
}

const first = { rule: 'first' } as const;
const last = { rule: 'last' } as const;
const sticky = { rule: 'sticky', on: 'true' } as const;
/** Left, a blank line, right; a later empty text erases what was gathered (openclaw.md §13). */
const text = { rule: 'join', separator: '\n\n', empty: 'erases' } as const;

const added = { prependContext: text, appendContext: text } as const;
const model = { modelOverride: first, providerOverride: first } as const;
const prompt = { systemPrompt: first, ...added, prependSystemContext: text, appendSystemContext: text } as const;

const block = { field: 'block', is: 'true' } as const;
const cancel = { field: 'cancel', is: 'true' } as const;
const blocked = { field: 'outcome', equals: 'block' } as const;

const toolCall = (version: Version): Merge => ({
  fields: {
    // Once an approval is asked for, what is approved is not changed any more: by others (2026.7), by anyone (2026.9).
    params: { ...last, until: { field: 'requireApproval', by: version === '2026.7' ? 'others' : 'anyone' } },
    block: sticky,
    blockReason: last,
    requireApproval: { ...first, stamp: 'pluginId' },
  },
  terminal: block,
  cancels: { when: block, reasonField: 'blockReason' },
  holds: 'requireApproval',
  controls: ['block', 'blockReason', 'requireApproval'],
});

/** Trusted policies see the parameters that the one before left (openclaw.md §7). */
export const policyMerge: Merge = {
  fields: { params: last, block: sticky, blockReason: last, requireApproval: { ...first, stamp: 'pluginId' } },
  chained: { params: 'params' },
  terminal: block,
  cancels: { when: block, reasonField: 'blockReason' },
  holds: 'requireApproval',
  controls: ['block', 'blockReason', 'requireApproval'],
};

const revised = { finalize: first, revise: text, continue: last } as const;
const finalizeOrder = ['finalize', 'revise', 'continue'] as const;

const merges: { readonly [hook: string]: (profile: Profile) => Merge } = {
  before_model_resolve: () => ({ fields: model }),
  agent_turn_prepare: () => ({ fields: added }),
  heartbeat_prompt_contribution: () => ({ fields: added }),
  // `toolsAllow` of 2026.9 is read by `tools-allow.ts`: names, groups and wildcards are more than an intersection.
  before_prompt_build: ({ version }) => ({
    fields: version === '2026.7' ? prompt : { ...prompt, toolsAllow: { rule: 'collect' } },
  }),
  before_agent_start: () => ({ fields: { ...prompt, ...model } }),
  before_agent_run: () => ({
    fields: {
      outcome: { rule: 'rank', order: ['block', 'pass'] },
      decision: { rule: 'of-winner', field: 'outcome', order: ['block', 'pass'], each: { block: first, pass: first } },
    },
    terminal: blocked,
    // The reason is the plugin's own matter: it stands in the record of its handler and nowhere else.
    cancels: { when: blocked, reasonField: null },
    controls: ['outcome', 'decision'],
  }),
  before_agent_finalize: () => ({
    fields: {
      action: { rule: 'rank', order: finalizeOrder },
      reason: { rule: 'of-winner', field: 'action', order: finalizeOrder, each: revised },
      retry: { rule: 'of-winner', field: 'action', order: finalizeOrder, each: { revise: { rule: 'collect' } } },
    },
  }),
  before_tool_call: ({ version }) => toolCall(version),
  resolve_exec_env: () => ({ fields: { env: { rule: 'overlay' } } }),
  message_sending: ({ chainsContent }) => ({
    fields: { content: last, cancel: sticky, cancelReason: last, metadata: last },
    ...(chainsContent ? { chained: { content: 'content' } } : {}),
    terminal: cancel,
    cancels: { when: cancel, reasonField: 'cancelReason' },
    controls: ['cancel', 'cancelReason', 'metadata'],
  }),
  reply_payload_sending: () => ({
    fields: { payload: last, cancel: sticky, reason: last },
    chained: { payload: 'payload' },
    terminal: cancel,
    cancels: { when: cancel, reasonField: 'reason' },
    controls: ['cancel', 'reason'],
  }),
  subagent_spawning: () => ({
    fields: {
      status: { rule: 'rank', order: ['error', 'ok'] },
      error: first,
      threadBindingReady: { rule: 'sticky', on: 'truthy' },
      deliveryOrigin: first,
    },
  }),
  subagent_delivery_target: () => ({ fields: { origin: first } }),
  before_install: () => ({
    fields: { findings: { rule: 'append' }, block: sticky, blockReason: last },
    terminal: block,
    cancels: { when: block, reasonField: 'blockReason' },
    controls: ['findings', 'block', 'blockReason'],
  }),
};

/** The merge of a modifying hook. Throws for a hook that has none, which the catalogue does not allow. */
export const mergeOf = (hook: string, profile: Profile): Merge => {
  const merge = Object.hasOwn(merges, hook) ? merges[hook] : undefined;
  if (merge === undefined) throw new Error(`${hook} merges nothing`);
  return merge(profile);
};
