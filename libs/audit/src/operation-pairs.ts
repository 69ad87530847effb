import type { RecordedEvent } from '#record';

/** Hooks that a host fires before and after one and the same operation. */
const pairs: readonly {
  readonly dialect: string;
  readonly before: readonly string[];
  readonly after: readonly string[];
}[] = [
  { dialect: 'middleware', before: ['sshCommandSending'], after: ['sshCommandCompleted'] },
  { dialect: 'middleware', before: ['notifyScheduled'], after: ['notifyDelivered'] },
  { dialect: 'middleware', before: ['sessionClearing'], after: ['sessionClearCompleted'] },
  { dialect: 'middleware', before: ['cronJobFiring'], after: ['cronJobCompleted'] },
  { dialect: 'openclaw', before: ['before_tool_call'], after: ['after_tool_call'] },
  { dialect: 'openclaw', before: ['model_call_started', 'llm_input'], after: ['model_call_ended', 'llm_output'] },
  { dialect: 'openclaw', before: ['message_sending'], after: ['message_sent'] },
  { dialect: 'openclaw', before: ['before_compaction'], after: ['after_compaction'] },
  { dialect: 'openclaw', before: ['subagent_spawning'], after: ['subagent_spawned'] },
  { dialect: 'kohaku', before: ['pre_llm_call'], after: ['post_llm_call'] },
  { dialect: 'kohaku', before: ['pre_tool_dispatch', 'pre_tool_execute'], after: ['post_tool_execute'] },
  { dialect: 'kohaku', before: ['pre_subagent_run'], after: ['post_subagent_run'] },
  { dialect: 'kohaku', before: ['on_compact_start'], after: ['on_compact_end'] },
];

export interface Phase {
  /** Name of the pair: the first hook before the operation. */
  readonly pair: string;
  readonly phase: 'before' | 'after';
}

const phases: ReadonlyMap<string, Phase> = new Map(
  pairs.flatMap(({ dialect, before, after }) => {
    const pair = before[0] ?? '';
    return [
      ...before.map((hook): [string, Phase] => [`${dialect}/${hook}`, { pair, phase: 'before' }]),
      ...after.map((hook): [string, Phase] => [`${dialect}/${hook}`, { pair, phase: 'after' }]),
    ];
  }),
);

/** Which side of an operation this invocation is; null for a hook that stands alone or without an `operationId`. */
export const phaseOf = (event: Pick<RecordedEvent, 'dialect' | 'hook' | 'operationId'>): Phase | null => {
  if (event.operationId === undefined) return null;
  return phases.get(`${event.dialect ?? ''}/${event.hook ?? ''}`) ?? null;
};
