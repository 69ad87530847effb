/**
 * The fourteen middleware hooks as data (spec of the middleware dialect, profile mw-1). What a hook is, is one entry
 * here; nothing else in the program knows a hook's name.
 */

export type FieldType =
  /** 1-200 characters, no control characters, no lone surrogates; never a number (MW-10). */
  | 'id'
  | 'ids'
  /** Any text: empty, with NUL, with lone surrogates (MW-15). */
  | 'text'
  | 'texts'
  | 'boolean'
  /** Non-negative safe integer. */
  | 'count'
  /** 1-65535. */
  | 'port'
  /** Safe integer. */
  | 'exit-code'
  /** Milliseconds, finite, not negative. */
  | 'duration'
  /** Seconds, finite, 0 to 2147483647 (MW-66). */
  | 'delay';

export interface ContextField {
  readonly name: string;
  readonly type: FieldType;
  /** May be null. It is there all the same (MW-14). */
  readonly nullable: boolean;
  /** May be absent. */
  readonly optional: boolean;
  /** The only values it may have. */
  readonly oneOf: readonly string[] | null;
}

export interface MiddlewareHook {
  readonly name: string;
  readonly group: string;
  /** Every key of the context, in the order handlers see them. */
  readonly context: readonly ContextField[];
  readonly mutable: readonly string[];
  /** A mutable field whose current value is null does not apply to the operation (MW-84). */
  readonly nullMeansNotApplicable: boolean;
  readonly vetoable: boolean;
  /** Handlers get a second argument (MW-41). */
  readonly hasTools: boolean;
  /** Context field of the session the hook fires for (MW-71); null where there is none yet. */
  readonly sessionField: string | null;
  /** Context field of the agent it carries (MW-73). */
  readonly agentField: string | null;
  /** Context field that says what the operation is aimed at: server, job, recipient. */
  readonly targetField: string | null;
  /** `host.ssh` exists here, for the server of this field (MW-87). */
  readonly sshHostField: string | null;
  readonly startsTurn: 'always' | 'unless-just-started' | 'never';
  /** Context field that keys a hook which fires once per turn (MW-81). */
  readonly oncePerTurn: string | null;
  readonly cancelMeans: string;
  /** Operations that fire this hook, and those near it that do not. The first is the ordinary one. */
  readonly operations: { readonly fire: readonly string[]; readonly silent: readonly string[] };
}

const field = (name: string, type: FieldType, more: Partial<ContextField> = {}): ContextField => ({
  name,
  type,
  nullable: false,
  optional: false,
  oneOf: null,
  ...more,
});
const nullable = { nullable: true } as const;

const sessionId = field('sessionId', 'id');
const agentId = field('agentId', 'id');
const sshHost = [field('sshHostId', 'id'), field('hostDisplayName', 'text')] as const;
const sshKind = field('kind', 'text', {
  oneOf: ['command', 'list_files', 'read_file', 'write_file', 'edit_file', 'delete_file'],
});
const command = field('command', 'text', nullable);
const path = field('path', 'text', nullable);

const ordinary = {
  mutable: [],
  nullMeansNotApplicable: false,
  vetoable: true,
  hasTools: true,
  sessionField: 'sessionId',
  agentField: null,
  targetField: null,
  sshHostField: null,
  startsTurn: 'never',
  oncePerTurn: null,
} as const;
const told = { ...ordinary, vetoable: false, hasTools: false, agentField: 'agentId' } as const;
const ssh = { ...ordinary, agentField: 'agentId', targetField: 'sshHostId', sshHostField: 'sshHostId' } as const;

const hooks: readonly MiddlewareHook[] = [
  {
    ...ordinary,
    name: 'systemPrompt',
    group: 'prompt',
    context: [sessionId, agentId, field('sessionKind', 'text'), field('systemPrompt', 'text')],
    mutable: ['systemPrompt'],
    vetoable: false,
    hasTools: false,
    agentField: 'agentId',
    startsTurn: 'unless-just-started',
    cancelMeans: 'not cancellable',
    operations: { fire: ['prompt_composed'], silent: [] },
  },
  {
    ...ordinary,
    name: 'userMessageInbound',
    group: 'message',
    context: [sessionId, field('channelId', 'id', nullable), field('text', 'text'), field('mediaIds', 'ids')],
    mutable: ['text'],
    startsTurn: 'always',
    cancelMeans: 'the message is not given to the agent and starts no turn',
    operations: { fire: ['user_message'], silent: ['agent_message', 'timer_due', 'cron_prompt'] },
  },
  {
    ...ordinary,
    name: 'interAgentMessage',
    group: 'message',
    context: [
      field('senderSessionId', 'id'),
      field('senderAgentId', 'id'),
      field('targetSessionId', 'id'),
      field('isSubagentReport', 'boolean'),
      field('text', 'text'),
    ],
    mutable: ['text'],
    sessionField: 'senderSessionId',
    agentField: 'senderAgentId',
    targetField: 'targetSessionId',
    cancelMeans:
      'the message is not delivered; the sender is refused with the reason, a waiting parent is told "withheld"',
    operations: {
      fire: ['message_agent', 'send_message_to_session', 'report_to_caller', 'automatic_reply_back', 'host_peer_send'],
      silent: ['start_subagent'],
    },
  },
  {
    ...ordinary,
    name: 'assistantMessageOutbound',
    group: 'message',
    context: [sessionId, field('channelId', 'id', nullable), field('text', 'text')],
    mutable: ['text'],
    targetField: 'channelId',
    cancelMeans: 'the reply is not delivered to the person',
    operations: { fire: ['turn_answer', 'reply_to_human', 'send_to_channel'], silent: ['agent_message'] },
  },
  {
    ...ordinary,
    name: 'todoAdded',
    group: 'planning',
    context: [sessionId, field('texts', 'texts')],
    mutable: ['texts'],
    cancelMeans: "none of this call's todos is added; the agent's tool call is refused with the reason",
    operations: { fire: ['agent_todo'], silent: ['human_todo'] },
  },
  {
    ...ordinary,
    name: 'notifyScheduled',
    group: 'timer',
    context: [sessionId, field('message', 'text'), field('delaySeconds', 'delay')],
    mutable: ['message', 'delaySeconds'],
    cancelMeans: 'the timer is not set; the tool call is refused with the reason',
    operations: { fire: ['notify_session_in'], silent: [] },
  },
  {
    ...ordinary,
    name: 'notifyDelivered',
    group: 'timer',
    context: [sessionId, field('notifyId', 'id'), field('message', 'text')],
    mutable: ['message'],
    startsTurn: 'always',
    cancelMeans: 'the wake-up is dropped: no turn starts and the timer is consumed',
    operations: { fire: ['timer_due'], silent: [] },
  },
  {
    ...ssh,
    name: 'sshConnectionOpening',
    group: 'ssh',
    context: [
      sessionId,
      agentId,
      ...sshHost,
      field('hostname', 'text'),
      field('port', 'port', nullable),
      field('connectionType', 'text', { oneOf: ['direct', 'tunnel'] }),
      field('username', 'text'),
    ],
    oncePerTurn: 'sshHostId',
    cancelMeans: 'the connection is refused for the rest of the turn, without firing again',
    operations: { fire: ['first_ssh_of_turn'], silent: ['later_ssh_of_turn', 'host_ssh_command'] },
  },
  {
    ...ssh,
    name: 'sshCommandSending',
    group: 'ssh',
    context: [
      sessionId,
      agentId,
      ...sshHost,
      sshKind,
      command,
      path,
      field('content', 'text', nullable),
      field('intent', 'text', { optional: true }),
    ],
    mutable: ['command', 'path', 'content'],
    nullMeansNotApplicable: true,
    cancelMeans: "nothing is sent; the agent's tool call is refused with the reason",
    operations: { fire: ['ssh_operation'], silent: ['host_ssh_command'] },
  },
  {
    ...ssh,
    name: 'sshCommandCompleted',
    group: 'ssh',
    context: [
      sessionId,
      agentId,
      ...sshHost,
      sshKind,
      command,
      path,
      field('exitCode', 'exit-code'),
      field('output', 'text', nullable),
      field('errorOutput', 'text', nullable),
      field('isTruncated', 'boolean'),
      field('durationMs', 'duration'),
    ],
    mutable: ['output', 'errorOutput'],
    cancelMeans: 'the output is withheld from the model; the command already ran, exit code and duration stay visible',
    operations: { fire: ['ssh_operation_ran'], silent: ['never_ran', 'host_ssh_command'] },
  },
  {
    ...told,
    name: 'sessionClearing',
    group: 'session',
    context: [
      sessionId,
      agentId,
      field('trailingText', 'text', nullable),
      field('messageCount', 'count'),
      field('subagentCount', 'count'),
      field('peerThreadCount', 'count'),
    ],
    cancelMeans: 'not cancellable',
    operations: { fire: ['clear_asked'], silent: [] },
  },
  {
    ...told,
    name: 'sessionClearCompleted',
    group: 'session',
    context: [
      sessionId,
      agentId,
      field('deletedMessageCount', 'count'),
      field('deletedSubagentCount', 'count'),
      field('deletedPeerThreadCount', 'count'),
    ],
    cancelMeans: 'not cancellable',
    operations: { fire: ['clear_done'], silent: [] },
  },
  {
    ...ordinary,
    name: 'cronJobFiring',
    group: 'schedule',
    context: [field('cronJobId', 'id'), agentId, field('kind', 'text'), field('name', 'text'), field('prompt', 'text')],
    mutable: ['prompt'],
    sessionField: null,
    agentField: 'agentId',
    targetField: 'cronJobId',
    startsTurn: 'always',
    cancelMeans: 'the run is shown as Cancelled in the history and the mission never starts',
    operations: { fire: ['slot_due'], silent: ['overlap'] },
  },
  {
    ...told,
    name: 'cronJobCompleted',
    group: 'schedule',
    context: [field('cronJobId', 'id'), field('cronJobRunId', 'id'), sessionId, agentId, field('status', 'text')],
    targetField: 'cronJobId',
    cancelMeans: 'not cancellable',
    operations: { fire: ['run_closed'], silent: ['run_was_cancelled', 'overlap', 'crash_before_notify'] },
  },
];

/** The hooks by name, in the order of the document. */
export const catalogue: ReadonlyMap<string, MiddlewareHook> = new Map(hooks.map((hook) => [hook.name, hook]));

/** Limits of the dialect. */
export const limits = {
  /** One handler run, ms (MW-51). */
  handlerMs: 5000,
  /** UTF-16 code units of a recorded reason (MW-42) and of a thrown value's text (MW-54). */
  reasonUnits: 500,
  /** Last hop that has `host.session` (MW-101). */
  maxHopWithSession: 4,
  /** UTF-8 bytes of one result (MW-39). */
  resultBytes: 8 * 1024 * 1024,
  /** Items of `texts` (MW-39). */
  textsItems: 1000,
  /** Keys looked at in a patch (MW-39). */
  patchKeys: 200,
  /** Seconds (MW-66). */
  maxDelaySeconds: 2147483647,
  ssh: { callsPerRun: 10, defaultSeconds: 60, maxSeconds: 90 },
} as const;

/** Whether an operation fires a hook; undefined when the catalogue does not know the operation there. */
export const firesOn = (hook: MiddlewareHook, operation: string): boolean | undefined => {
  if (hook.operations.fire.includes(operation)) return true;
  return hook.operations.silent.includes(operation) ? false : undefined;
};

/** The same by the hook's name; undefined also for a hook that does not exist. */
export const firesHook = (name: string, operation: string): boolean | undefined => {
  const hook = catalogue.get(name);
  return hook === undefined ? undefined : firesOn(hook, operation);
};
