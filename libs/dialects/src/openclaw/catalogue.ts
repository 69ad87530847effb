/**
 * The hooks of OpenClaw as data: the union of 2026.7.1 and 2026.9.6. What a hook is, is one entry here; how what its
 * handlers give is put together stands in `merges.ts`, by the same names.
 */

/** A shipped version whose runner is followed. */
export type Version = '2026.7' | '2026.9';

/** What a documented field holds; `?`: it may be absent. Fields beyond these pass through. */
export type FieldType = 'string' | 'number' | 'boolean' | 'list' | 'strings' | 'object' | 'any';

export interface Fields {
  readonly [name: string]: FieldType | `${FieldType}?`;
}

/** How the handlers of a hook are run (openclaw.md §2). */
export type HookMode = 'modifying' | 'observe' | 'claim' | 'sync' | 'evaluate';

export interface OpenClawHook {
  readonly name: string;
  readonly group: string;
  readonly mode: HookMode;
  readonly event: Fields;
  readonly context: ContextName;
  /** Fields of the event that 2026.7 does not have. */
  readonly since9: readonly string[];
  /** Fields that are read off a result; what else it has is dropped by the merge. */
  readonly result: readonly string[];
  readonly versions: readonly Version[];
  /** Time that a handler has by default, ms; null: the real runner sets none. */
  readonly timeoutMs: { readonly [V in Version]: number | null };
  /** A handler that throws or runs out of time ends the operation (the host's policy, openclaw.md §3). */
  readonly failsClosed: boolean;
  /** Versions in which an installed plugin needs `allowConversationAccess`. */
  readonly conversation: readonly Version[];
  /** What `allowPromptInjection: false` does: the registration is refused, or its prompt fields are stripped. */
  readonly promptInjection: 'refused' | 'constrained' | null;
  readonly deprecated: Deprecation | null;
}

export interface Deprecation {
  readonly inVersion: string;
  readonly replacement: readonly string[];
  readonly removeAfter?: string;
  readonly removedBy?: string;
  /** Only what it returns is deprecated. */
  readonly resultOnly?: boolean;
}

export type ContextName =
  | 'agent'
  | 'tool'
  | 'tool-result'
  | 'message-write'
  | 'claim'
  | 'pairing'
  | 'message'
  | 'dispatch'
  | 'reply-dispatch'
  | 'session'
  | 'subagent'
  | 'gateway'
  | 'install'
  | 'skill';

/** What stands in a hook's second argument. */
export const contexts: { readonly [name in ContextName]: Fields } = {
  agent: {
    runId: 'string?',
    jobId: 'string?',
    trace: 'any?',
    agentId: 'string?',
    sessionKey: 'string?',
    sessionId: 'string?',
    workspaceDir: 'string?',
    activeProjectKeys: 'strings?',
    modelProviderId: 'string?',
    modelId: 'string?',
    messageProvider: 'string?',
    channel: 'string?',
    accountId: 'string?',
    chatId: 'string?',
    senderId: 'string?',
    trigger: 'string?',
    channelId: 'string?',
    inputProvenance: 'any?',
    contextTokenBudget: 'number?',
    contextWindowSource: 'string?',
    contextWindowReferenceTokens: 'number?',
    senderExternalId: 'string?',
    channelContext: 'any?',
    toolAuthority: 'any?',
    hookInvocation: 'any?',
  },
  tool: {
    agentId: 'string?',
    sessionKey: 'string?',
    sessionId: 'string?',
    runId: 'string?',
    abortSignal: 'any?',
    trace: 'any?',
    toolName: 'string?',
    toolKind: 'any?',
    toolInputKind: 'string?',
    toolCallId: 'string?',
    getSessionExtension: 'any?',
    channelId: 'string?',
    requester: 'any?',
  },
  'tool-result': { agentId: 'string?', sessionKey: 'string?', toolName: 'string?', toolCallId: 'string?' },
  'message-write': { agentId: 'string?', sessionKey: 'string?' },
  claim: {
    channelId: 'string?',
    accountId: 'string?',
    conversationId: 'string?',
    sessionKey: 'string?',
    runId: 'string?',
    messageId: 'string?',
    senderId: 'string?',
    replyToId: 'string?',
    replyToIdFull: 'string?',
    replyToBody: 'string?',
    replyToSender: 'string?',
    replyToIsQuote: 'boolean?',
    trace: 'any?',
    traceId: 'string?',
    spanId: 'string?',
    parentSpanId: 'string?',
    callDepth: 'number?',
    agentId: 'string?',
    parentConversationId: 'string?',
    pluginBinding: 'any?',
  },
  pairing: { channelId: 'string?', accountId: 'string?', senderId: 'string?' },
  message: {
    channelId: 'string?',
    accountId: 'string?',
    conversationId: 'string?',
    sessionKey: 'string?',
    runId: 'string?',
    messageId: 'string?',
    senderId: 'string?',
    replyToId: 'string?',
    replyToIdFull: 'string?',
    replyToBody: 'string?',
    replyToSender: 'string?',
    replyToIsQuote: 'boolean?',
    trace: 'any?',
    traceId: 'string?',
    spanId: 'string?',
    parentSpanId: 'string?',
    callDepth: 'number?',
  },
  dispatch: {
    messageId: 'string?',
    channelId: 'string?',
    accountId: 'string?',
    conversationId: 'string?',
    sessionKey: 'string?',
    senderId: 'string?',
    replyToId: 'string?',
    replyToIdFull: 'string?',
    replyToBody: 'string?',
    replyToSender: 'string?',
    replyToIsQuote: 'boolean?',
  },
  'reply-dispatch': {
    dispatchKind: 'string?',
    cfg: 'any?',
    dispatcher: 'any?',
    abortSignal: 'any?',
    onReplyStart: 'any?',
    onAgentRunStart: 'any?',
    userTurnTranscriptRecorder: 'any?',
    prepareAssistantTranscriptMessage: 'any?',
    recordProcessed: 'any?',
    markIdle: 'any?',
  },
  session: { agentId: 'string?', sessionId: 'string?', sessionKey: 'string?' },
  subagent: { runId: 'string?', childSessionKey: 'string?', requesterSessionKey: 'string?' },
  gateway: { port: 'number?', config: 'any?', workspaceDir: 'string?', getCron: 'any?', abortSignal: 'any?' },
  install: { targetType: 'string?', requestKind: 'string?', origin: 'string?' },
  skill: { workspaceDir: 'string?', agentId: 'string?' },
};

type Told = Pick<OpenClawHook, 'event' | 'context'> & Partial<OpenClawHook>;

const hook = (name: string, group: string, mode: HookMode, told: Told): OpenClawHook => ({
  name,
  group,
  mode,
  since9: [],
  result: [],
  versions: ['2026.7', '2026.9'],
  failsClosed: false,
  conversation: [],
  promptInjection: null,
  deprecated: null,
  ...told,
  timeoutMs: { '2026.7': null, '2026.9': null, ...told.timeoutMs },
});

const hooks: readonly OpenClawHook[] = [
  hook('before_model_resolve', 'agent-turn', 'modifying', {
    event: { prompt: 'string', attachments: 'list?' },
    context: 'agent',
    result: ['modelOverride', 'providerOverride'],
    conversation: ['2026.7', '2026.9'],
  }),
  hook('agent_turn_prepare', 'agent-turn', 'modifying', {
    event: { prompt: 'string', messages: 'list', queuedInjections: 'list' },
    context: 'agent',
    result: ['prependContext', 'appendContext'],
    conversation: ['2026.9'],
    promptInjection: 'refused',
  }),
  hook('before_prompt_build', 'agent-turn', 'modifying', {
    event: { prompt: 'string', currentUserMessage: 'string?', currentUserMessageId: 'string?', messages: 'list' },
    context: 'agent',
    since9: ['currentUserMessage', 'currentUserMessageId'],
    result: [
      'systemPrompt',
      'prependContext',
      'appendContext',
      'toolsAllow',
      'prependSystemContext',
      'appendSystemContext',
    ],
    timeoutMs: { '2026.7': 15000, '2026.9': 15000 },
    conversation: ['2026.9'],
    promptInjection: 'refused',
  }),
  hook('before_agent_start', 'agent-turn', 'modifying', {
    event: { prompt: 'string', runId: 'string?', messages: 'list?' },
    context: 'agent',
    result: [
      'systemPrompt',
      'prependContext',
      'appendContext',
      'prependSystemContext',
      'appendSystemContext',
      'modelOverride',
      'providerOverride',
    ],
    versions: ['2026.7'],
    timeoutMs: { '2026.7': 15000, '2026.9': null },
    promptInjection: 'constrained',
    deprecated: {
      inVersion: '2026.7.1',
      replacement: ['before_model_resolve', 'before_prompt_build'],
      removedBy: '2026.9.6',
    },
  }),
  hook('before_agent_run', 'agent-turn', 'modifying', {
    event: {
      prompt: 'string',
      messages: 'list',
      systemPrompt: 'string?',
      accountId: 'string?',
      channelId: 'string?',
      senderId: 'string?',
      senderIsOwner: 'boolean?',
    },
    context: 'agent',
    result: ['outcome', 'reason', 'message', 'category', 'metadata'],
    timeoutMs: { '2026.7': 15000, '2026.9': 15000 },
    failsClosed: true,
    conversation: ['2026.7', '2026.9'],
  }),
  hook('before_agent_reply', 'agent-turn', 'claim', {
    event: { cleanedBody: 'string' },
    context: 'agent',
    result: ['handled', 'reply', 'reason'],
    conversation: ['2026.7', '2026.9'],
  }),
  hook('before_agent_finalize', 'agent-turn', 'modifying', {
    event: {
      runId: 'string?',
      sessionId: 'string',
      sessionKey: 'string?',
      turnId: 'string?',
      provider: 'string?',
      model: 'string?',
      cwd: 'string?',
      transcriptPath: 'string?',
      stopHookActive: 'boolean',
      lastAssistantMessage: 'string?',
      messages: 'list?',
    },
    context: 'agent',
    result: ['action', 'reason', 'retry'],
    timeoutMs: { '2026.7': 15000, '2026.9': 15000 },
    conversation: ['2026.7', '2026.9'],
  }),
  hook('agent_end', 'agent-turn', 'observe', {
    event: { runId: 'string?', messages: 'list', success: 'boolean', error: 'string?', durationMs: 'number?' },
    context: 'agent',
    timeoutMs: { '2026.7': 30000, '2026.9': 30000 },
    conversation: ['2026.7', '2026.9'],
  }),
  hook('heartbeat_prompt_contribution', 'agent-turn', 'modifying', {
    event: { sessionKey: 'string?', agentId: 'string?', heartbeatName: 'string?' },
    context: 'agent',
    result: ['prependContext', 'appendContext'],
    promptInjection: 'refused',
  }),
  hook('model_call_started', 'conversation-observation', 'observe', {
    event: {
      runId: 'string',
      callId: 'string',
      sessionKey: 'string?',
      sessionId: 'string?',
      provider: 'string',
      model: 'string',
      api: 'string?',
      transport: 'string?',
      contextTokenBudget: 'number?',
      contextWindowSource: 'string?',
      contextWindowReferenceTokens: 'number?',
    },
    context: 'agent',
  }),
  hook('model_call_ended', 'conversation-observation', 'observe', {
    event: {
      runId: 'string',
      callId: 'string',
      sessionKey: 'string?',
      sessionId: 'string?',
      provider: 'string',
      model: 'string',
      api: 'string?',
      transport: 'string?',
      contextTokenBudget: 'number?',
      contextWindowSource: 'string?',
      contextWindowReferenceTokens: 'number?',
      durationMs: 'number',
      outcome: 'string',
      errorCategory: 'string?',
      failureKind: 'string?',
      requestPayloadBytes: 'number?',
      responseStreamBytes: 'number?',
      timeToFirstByteMs: 'number?',
      upstreamRequestIdHash: 'string?',
    },
    context: 'agent',
  }),
  hook('llm_input', 'conversation-observation', 'observe', {
    event: {
      runId: 'string',
      sessionId: 'string',
      provider: 'string',
      model: 'string',
      systemPrompt: 'string?',
      prompt: 'string',
      historyMessages: 'list',
      imagesCount: 'number',
      tools: 'list?',
    },
    context: 'agent',
    conversation: ['2026.7', '2026.9'],
  }),
  hook('llm_output', 'conversation-observation', 'observe', {
    event: {
      runId: 'string',
      sessionId: 'string',
      provider: 'string',
      model: 'string',
      contextTokenBudget: 'number?',
      contextWindowSource: 'string?',
      contextWindowReferenceTokens: 'number?',
      resolvedRef: 'string?',
      harnessId: 'string?',
      prompt: 'string?',
      assistantTexts: 'strings',
      lastAssistant: 'any?',
      usage: 'object?',
      reasoningEffort: 'string?',
      fastMode: 'boolean?',
    },
    context: 'agent',
    conversation: ['2026.7', '2026.9'],
  }),
  hook('before_tool_call', 'tools', 'modifying', {
    event: {
      toolName: 'string',
      params: 'object',
      toolKind: 'any?',
      toolInputKind: 'string?',
      runId: 'string?',
      toolCallId: 'string?',
      derivedPaths: 'strings?',
    },
    context: 'tool',
    result: ['params', 'block', 'blockReason', 'requireApproval'],
    timeoutMs: { '2026.7': null, '2026.9': 15000 },
    failsClosed: true,
  }),
  hook('after_tool_call', 'tools', 'observe', {
    event: {
      toolName: 'string',
      params: 'object',
      runId: 'string?',
      toolCallId: 'string?',
      result: 'any?',
      error: 'string?',
      durationMs: 'number?',
    },
    context: 'tool',
  }),
  hook('resolve_exec_env', 'tools', 'modifying', {
    event: { sessionKey: 'string?', toolName: 'string', host: 'string' },
    context: 'agent',
    timeoutMs: { '2026.7': 15000, '2026.9': 15000 },
  }),
  hook('tool_result_persist', 'tools', 'sync', {
    event: { toolName: 'string?', toolCallId: 'string?', message: 'object', isSynthetic: 'boolean?' },
    context: 'tool-result',
    result: ['message'],
  }),
  hook('before_message_write', 'tools', 'sync', {
    event: { message: 'object', sessionKey: 'string?', agentId: 'string?' },
    context: 'message-write',
    result: ['block', 'message'],
  }),
  hook('inbound_claim', 'messages', 'claim', {
    event: {
      content: 'string',
      body: 'string?',
      bodyForAgent: 'string?',
      transcript: 'string?',
      timestamp: 'number?',
      channel: 'string',
      accountId: 'string?',
      conversationId: 'string?',
      parentConversationId: 'string?',
      senderId: 'string?',
      senderName: 'string?',
      senderUsername: 'string?',
      replyToId: 'string?',
      replyToIdFull: 'string?',
      replyToBody: 'string?',
      replyToSender: 'string?',
      replyToIsQuote: 'boolean?',
      threadId: 'any?',
      messageId: 'string?',
      sessionKey: 'string?',
      runId: 'string?',
      trace: 'any?',
      traceId: 'string?',
      spanId: 'string?',
      parentSpanId: 'string?',
      isGroup: 'boolean',
      commandAuthorized: 'boolean?',
      senderIsOwner: 'boolean?',
      wasMentioned: 'boolean?',
      location: 'any?',
      providerUpdate: 'any?',
      media: 'list?',
      originalMedia: 'list?',
      mediaStagingPending: 'boolean?',
      metadata: 'any?',
    },
    context: 'claim',
    since9: ['location', 'providerUpdate', 'media', 'originalMedia', 'mediaStagingPending'],
    result: ['handled', 'reply'],
  }),
  hook('channel_pairing_requested', 'messages', 'observe', {
    event: { channel: 'string', accountId: 'string?', senderId: 'string', code: 'string', metadata: 'object?' },
    context: 'pairing',
    timeoutMs: { '2026.7': 2000, '2026.9': 2000 },
  }),
  hook('message_received', 'messages', 'observe', {
    event: {
      from: 'string',
      content: 'string',
      timestamp: 'number?',
      threadId: 'any?',
      messageId: 'string?',
      senderId: 'string?',
      replyToId: 'string?',
      replyToIdFull: 'string?',
      replyToBody: 'string?',
      replyToSender: 'string?',
      replyToIsQuote: 'boolean?',
      sessionKey: 'string?',
      runId: 'string?',
      trace: 'any?',
      traceId: 'string?',
      spanId: 'string?',
      parentSpanId: 'string?',
      location: 'any?',
      providerUpdate: 'any?',
      media: 'list?',
      originalMedia: 'list?',
      mediaStagingPending: 'boolean?',
      metadata: 'any?',
    },
    context: 'message',
    since9: ['location', 'providerUpdate', 'media', 'originalMedia', 'mediaStagingPending'],
  }),
  hook('message_sending', 'messages', 'modifying', {
    event: { to: 'string', content: 'string', replyToId: 'any?', threadId: 'any?', metadata: 'object?' },
    context: 'message',
    result: ['content', 'cancel', 'cancelReason', 'metadata'],
    timeoutMs: { '2026.7': null, '2026.9': 15000 },
  }),
  hook('reply_payload_sending', 'messages', 'modifying', {
    event: {
      payload: 'object',
      kind: 'string',
      channel: 'string?',
      sessionKey: 'string?',
      runId: 'string?',
      usageState: 'any?',
    },
    context: 'message',
    result: ['payload', 'cancel', 'reason'],
    timeoutMs: { '2026.7': null, '2026.9': 15000 },
  }),
  hook('message_sent', 'messages', 'observe', {
    event: {
      to: 'string',
      content: 'string',
      success: 'boolean',
      messageId: 'string?',
      sessionKey: 'string?',
      runId: 'string?',
      trace: 'any?',
      traceId: 'string?',
      spanId: 'string?',
      parentSpanId: 'string?',
      error: 'string?',
    },
    context: 'message',
  }),
  hook('before_dispatch', 'messages', 'claim', {
    event: {
      messageId: 'string?',
      content: 'string',
      body: 'string?',
      channel: 'string?',
      sessionKey: 'string?',
      senderId: 'string?',
      replyToId: 'string?',
      replyToIdFull: 'string?',
      replyToBody: 'string?',
      replyToSender: 'string?',
      replyToIsQuote: 'boolean?',
      isGroup: 'boolean?',
      timestamp: 'number?',
    },
    context: 'dispatch',
    since9: ['messageId'],
    result: ['handled', 'text'],
  }),
  hook('reply_dispatch', 'messages', 'claim', {
    event: {
      ctx: 'any',
      runId: 'string?',
      sessionKey: 'string?',
      toolsAllow: 'strings?',
      images: 'list?',
      inboundAudio: 'boolean',
      sessionTtsAuto: 'any?',
      ttsChannel: 'string?',
      suppressUserDelivery: 'boolean?',
      suppressReplyLifecycle: 'boolean?',
      sourceReplyDeliveryMode: 'any?',
      shouldRouteToOriginating: 'boolean',
      originatingChannel: 'string?',
      originatingTo: 'string?',
      originatingAccountId: 'string?',
      originatingThreadId: 'any?',
      originatingChatType: 'any?',
      shouldSendToolSummaries: 'boolean',
      shouldSendFullToolDetails: 'boolean',
      sendPolicy: 'string',
      isTailDispatch: 'boolean?',
    },
    context: 'reply-dispatch',
    since9: ['shouldSendFullToolDetails'],
    result: ['handled', 'queuedFinal', 'counts'],
  }),
  hook('session_start', 'sessions', 'observe', {
    event: { sessionId: 'string', sessionKey: 'string?', resumedFrom: 'string?' },
    context: 'session',
  }),
  hook('session_end', 'sessions', 'observe', {
    event: {
      sessionId: 'string',
      sessionKey: 'string?',
      messageCount: 'number',
      durationMs: 'number?',
      reason: 'string?',
      sessionFile: 'string?',
      transcriptArchived: 'boolean?',
      nextSessionId: 'string?',
      nextSessionKey: 'string?',
    },
    context: 'session',
  }),
  hook('before_compaction', 'sessions', 'observe', {
    event: {
      messageCount: 'number',
      compactingCount: 'number?',
      tokenCount: 'number?',
      messages: 'list?',
      sessionFile: 'string?',
    },
    context: 'agent',
    timeoutMs: { '2026.7': 30000, '2026.9': 30000 },
  }),
  hook('after_compaction', 'sessions', 'observe', {
    event: {
      messageCount: 'number',
      tokenCount: 'number?',
      compactedCount: 'number',
      sessionFile: 'string?',
      previousSessionId: 'string?',
    },
    context: 'agent',
    timeoutMs: { '2026.7': 30000, '2026.9': 30000 },
  }),
  hook('before_reset', 'sessions', 'observe', {
    event: { sessionFile: 'string?', messages: 'list?', reason: 'string?' },
    context: 'agent',
  }),
  hook('subagent_spawning', 'subagents', 'modifying', {
    event: {
      childSessionKey: 'string',
      agentId: 'string',
      label: 'string?',
      mode: 'string',
      requester: 'object?',
      threadRequested: 'boolean',
    },
    context: 'subagent',
    result: ['status', 'threadBindingReady', 'deliveryOrigin', 'error'],
    versions: ['2026.7'],
    deprecated: {
      inVersion: '2026.7.1',
      replacement: ['subagent_spawned'],
      removeAfter: '2026-08-30',
      removedBy: '2026.9.6',
    },
  }),
  hook('subagent_delivery_target', 'subagents', 'modifying', {
    event: {
      childSessionKey: 'string',
      requesterSessionKey: 'string',
      requesterOrigin: 'object?',
      childRunId: 'string?',
      spawnMode: 'string?',
      expectsCompletionMessage: 'boolean',
    },
    context: 'subagent',
    result: ['origin'],
    deprecated: { inVersion: '2026.7.1', replacement: ['core session binding routing'], resultOnly: true },
  }),
  hook('subagent_spawned', 'subagents', 'observe', {
    event: {
      childSessionKey: 'string',
      agentId: 'string',
      label: 'string?',
      mode: 'string',
      requester: 'any?',
      threadRequested: 'boolean',
      runId: 'string',
      resolvedModel: 'string?',
      resolvedProvider: 'string?',
    },
    context: 'subagent',
  }),
  hook('subagent_progress', 'subagents', 'observe', {
    event: { phase: 'string?', runId: 'string?', childSessionKey: 'string?', requester: 'any?', outcome: 'string?' },
    context: 'subagent',
    versions: ['2026.9'],
  }),
  hook('subagent_ended', 'subagents', 'observe', {
    event: {
      targetSessionKey: 'string',
      targetKind: 'string',
      reason: 'string',
      sendFarewell: 'boolean?',
      accountId: 'string?',
      runId: 'string?',
      endedAt: 'number?',
      outcome: 'string?',
      error: 'string?',
    },
    context: 'subagent',
  }),
  hook('deactivate', 'lifecycle', 'observe', {
    event: { reason: 'string?' },
    context: 'gateway',
    versions: ['2026.7'],
    deprecated: {
      inVersion: '2026.7.1',
      replacement: ['gateway_stop'],
      removeAfter: '2026-08-16',
      removedBy: '2026.9.6',
    },
  }),
  hook('gateway_start', 'lifecycle', 'observe', {
    event: { port: 'number' },
    context: 'gateway',
  }),
  hook('gateway_stop', 'lifecycle', 'observe', {
    event: { reason: 'string?' },
    context: 'gateway',
    timeoutMs: { '2026.7': null, '2026.9': 5000 },
  }),
  hook('cron_reconciled', 'lifecycle', 'observe', {
    event: { reason: 'string', enabled: 'boolean' },
    context: 'gateway',
    versions: ['2026.9'],
  }),
  hook('cron_changed', 'lifecycle', 'observe', {
    event: {
      action: 'string',
      jobId: 'string',
      job: 'any?',
      sessionTarget: 'string?',
      agentId: 'string?',
      runAtMs: 'number?',
      durationMs: 'number?',
      status: 'string?',
      completionStatus: 'string?',
      error: 'string?',
      summary: 'string?',
      delivered: 'boolean?',
      deliveryStatus: 'string?',
      deliveryError: 'string?',
      deliverySuppressionReason: 'string?',
      sessionId: 'string?',
      sessionKey: 'string?',
      runId: 'string?',
      nextRunAtMs: 'number?',
      model: 'string?',
      provider: 'string?',
    },
    context: 'gateway',
    since9: ['completionStatus', 'deliverySuppressionReason'],
  }),
  hook('before_install', 'lifecycle', 'modifying', {
    event: {
      targetType: 'string',
      targetName: 'string',
      sourcePath: 'string',
      sourcePathKind: 'string',
      origin: 'string?',
      request: 'any',
      builtinScan: 'any',
      skill: 'any?',
      plugin: 'any?',
    },
    context: 'install',
    result: ['findings', 'block', 'blockReason'],
    timeoutMs: { '2026.7': null, '2026.9': 15000 },
    failsClosed: true,
  }),
  hook('skill_proposal_evaluate', 'skills', 'evaluate', {
    event: {
      correlationId: 'string?',
      proposal: 'object',
      skill: 'object',
      candidate: 'any',
      baseline: 'any?',
      reason: 'string',
    },
    context: 'skill',
    result: ['summary', 'findings', 'metrics', 'evaluatorVersion', 'mode', 'decision', 'decisionReason'],
    versions: ['2026.9'],
    timeoutMs: { '2026.7': null, '2026.9': 120000 },
  }),
  hook('skill_proposal_changed', 'skills', 'observe', {
    event: {
      eventId: 'string',
      sequence: 'number',
      action: 'string',
      occurredAt: 'string',
      correlationId: 'string?',
      proposal: 'object',
      evaluations: 'list?',
    },
    context: 'skill',
    versions: ['2026.9'],
    timeoutMs: { '2026.7': null, '2026.9': 30000 },
  }),
  hook('skill_changed', 'skills', 'observe', {
    event: {
      action: 'string',
      source: 'string',
      occurredAt: 'string',
      before: 'any?',
      after: 'any?',
      proposal: 'object?',
    },
    context: 'skill',
    versions: ['2026.9'],
    timeoutMs: { '2026.7': null, '2026.9': 30000 },
  }),
];

/** The hooks by name, in the order of the documents. */
export const catalogue: ReadonlyMap<string, OpenClawHook> = new Map(hooks.map((one) => [one.name, one]));
