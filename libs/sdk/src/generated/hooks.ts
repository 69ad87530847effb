// Made by `npm run sdk-types` from the catalogues of libs/dialects. Do not edit.
import type { Gate } from '../answer.js';
import type { Json, JsonObject } from '../json.js';

/** The middleware hooks: `context` has exactly these keys. */
export interface MiddlewareHooks {
  /** Cancelled: not cancellable. */
  readonly systemPrompt: {
    readonly args: {
      readonly context: {
        readonly sessionId: string;
        readonly agentId: string;
        readonly sessionKind: string;
        readonly systemPrompt: string;
      };
    };
    readonly value: string;
    readonly cancels: false;
  };
  /** Cancelled: the message is not given to the agent and starts no turn. */
  readonly userMessageInbound: {
    readonly args: {
      readonly context: {
        readonly sessionId: string;
        readonly channelId: string | null;
        readonly text: string;
        readonly mediaIds: readonly string[];
      };
    };
    readonly value: string;
    readonly cancels: true;
  };
  /** Cancelled: the message is not delivered; the sender is refused with the reason, a waiting parent is told "withheld". */
  readonly interAgentMessage: {
    readonly args: {
      readonly context: {
        readonly senderSessionId: string;
        readonly senderAgentId: string;
        readonly targetSessionId: string;
        readonly isSubagentReport: boolean;
        readonly text: string;
      };
    };
    readonly value: string;
    readonly cancels: true;
  };
  /** Cancelled: the reply is not delivered to the person. */
  readonly assistantMessageOutbound: {
    readonly args: {
      readonly context: { readonly sessionId: string; readonly channelId: string | null; readonly text: string };
    };
    readonly value: string;
    readonly cancels: true;
  };
  /** Cancelled: none of this call's todos is added; the agent's tool call is refused with the reason. */
  readonly todoAdded: {
    readonly args: { readonly context: { readonly sessionId: string; readonly texts: readonly string[] } };
    readonly value: readonly string[];
    readonly cancels: true;
  };
  /** Cancelled: the timer is not set; the tool call is refused with the reason. */
  readonly notifyScheduled: {
    readonly args: {
      readonly context: { readonly sessionId: string; readonly message: string; readonly delaySeconds: number };
    };
    readonly value: { readonly message: string; readonly delaySeconds: number };
    readonly cancels: true;
  };
  /** Cancelled: the wake-up is dropped: no turn starts and the timer is consumed. */
  readonly notifyDelivered: {
    readonly args: {
      readonly context: { readonly sessionId: string; readonly notifyId: string; readonly message: string };
    };
    readonly value: string;
    readonly cancels: true;
  };
  /** Cancelled: the connection is refused for the rest of the turn, without firing again. */
  readonly sshConnectionOpening: {
    readonly args: {
      readonly context: {
        readonly sessionId: string;
        readonly agentId: string;
        readonly sshHostId: string;
        readonly hostDisplayName: string;
        readonly hostname: string;
        readonly port: number | null;
        readonly connectionType: 'direct' | 'tunnel';
        readonly username: string;
      };
    };
    readonly value: null;
    readonly cancels: true;
  };
  /** Cancelled: nothing is sent; the agent's tool call is refused with the reason. */
  readonly sshCommandSending: {
    readonly args: {
      readonly context: {
        readonly sessionId: string;
        readonly agentId: string;
        readonly sshHostId: string;
        readonly hostDisplayName: string;
        readonly kind: 'command' | 'list_files' | 'read_file' | 'write_file' | 'edit_file' | 'delete_file';
        readonly command: string | null;
        readonly path: string | null;
        readonly content: string | null;
        readonly intent?: string;
      };
    };
    readonly value: { readonly command: string | null; readonly path: string | null; readonly content: string | null };
    readonly cancels: true;
  };
  /** Cancelled: the output is withheld from the model; the command already ran, exit code and duration stay visible. */
  readonly sshCommandCompleted: {
    readonly args: {
      readonly context: {
        readonly sessionId: string;
        readonly agentId: string;
        readonly sshHostId: string;
        readonly hostDisplayName: string;
        readonly kind: 'command' | 'list_files' | 'read_file' | 'write_file' | 'edit_file' | 'delete_file';
        readonly command: string | null;
        readonly path: string | null;
        readonly exitCode: number;
        readonly output: string | null;
        readonly errorOutput: string | null;
        readonly isTruncated: boolean;
        readonly durationMs: number;
      };
    };
    readonly value: { readonly output: string | null; readonly errorOutput: string | null };
    readonly cancels: true;
  };
  /** Cancelled: not cancellable. */
  readonly sessionClearing: {
    readonly args: {
      readonly context: {
        readonly sessionId: string;
        readonly agentId: string;
        readonly trailingText: string | null;
        readonly messageCount: number;
        readonly subagentCount: number;
        readonly peerThreadCount: number;
      };
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** Cancelled: not cancellable. */
  readonly sessionClearCompleted: {
    readonly args: {
      readonly context: {
        readonly sessionId: string;
        readonly agentId: string;
        readonly deletedMessageCount: number;
        readonly deletedSubagentCount: number;
        readonly deletedPeerThreadCount: number;
      };
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** Cancelled: the run is shown as Cancelled in the history and the mission never starts. */
  readonly cronJobFiring: {
    readonly args: {
      readonly context: {
        readonly cronJobId: string;
        readonly agentId: string;
        readonly kind: string;
        readonly name: string;
        readonly prompt: string;
      };
    };
    readonly value: string;
    readonly cancels: true;
  };
  /** Cancelled: not cancellable. */
  readonly cronJobCompleted: {
    readonly args: {
      readonly context: {
        readonly cronJobId: string;
        readonly cronJobRunId: string;
        readonly sessionId: string;
        readonly agentId: string;
        readonly status: string;
      };
    };
    readonly value: null;
    readonly cancels: false;
  };
}

/** The hooks of OpenClaw plugins: known fields are typed, others pass through. */
export interface OpenClawHooks {
  /** agent-turn, modifying. */
  readonly before_model_resolve: {
    readonly args: {
      readonly event: JsonObject & { readonly prompt: string; readonly attachments?: readonly Json[] };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly modelOverride?: string; readonly providerOverride?: string } | null;
    readonly cancels: false;
  };
  /** agent-turn, modifying. */
  readonly agent_turn_prepare: {
    readonly args: {
      readonly event: JsonObject & {
        readonly prompt: string;
        readonly messages: readonly Json[];
        readonly queuedInjections: readonly Json[];
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly prependContext?: string; readonly appendContext?: string } | null;
    readonly cancels: false;
  };
  /** agent-turn, modifying. */
  readonly before_prompt_build: {
    readonly args: {
      readonly event: JsonObject & {
        readonly prompt: string;
        readonly currentUserMessage?: string;
        readonly currentUserMessageId?: string;
        readonly messages: readonly Json[];
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: {
      readonly systemPrompt?: string;
      readonly prependContext?: string;
      readonly appendContext?: string;
      readonly toolsAllow?: readonly string[];
      readonly prependSystemContext?: string;
      readonly appendSystemContext?: string;
    } | null;
    readonly cancels: false;
  };
  /** agent-turn, modifying. Only in 2026.7. Deprecated: use before_model_resolve, before_prompt_build. */
  readonly before_agent_start: {
    readonly args: {
      readonly event: JsonObject & {
        readonly prompt: string;
        readonly runId?: string;
        readonly messages?: readonly Json[];
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: {
      readonly systemPrompt?: string;
      readonly prependContext?: string;
      readonly appendContext?: string;
      readonly prependSystemContext?: string;
      readonly appendSystemContext?: string;
      readonly modelOverride?: string;
      readonly providerOverride?: string;
    } | null;
    readonly cancels: false;
  };
  /** agent-turn, modifying. */
  readonly before_agent_run: {
    readonly args: {
      readonly event: JsonObject & {
        readonly prompt: string;
        readonly messages: readonly Json[];
        readonly systemPrompt?: string;
        readonly accountId?: string;
        readonly channelId?: string;
        readonly senderId?: string;
        readonly senderIsOwner?: boolean;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: {
      readonly decision: { readonly outcome: 'pass' | 'block' | null; readonly message?: string };
      readonly pluginId: string;
    } | null;
    readonly cancels: true;
    readonly more: { readonly notice?: string };
  };
  /** agent-turn, claim. */
  readonly before_agent_reply: {
    readonly args: {
      readonly event: JsonObject & { readonly cleanedBody: string };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly handled: true; readonly reply?: Json; readonly reason?: string } | null;
    readonly cancels: false;
  };
  /** agent-turn, modifying. */
  readonly before_agent_finalize: {
    readonly args: {
      readonly event: JsonObject & {
        readonly runId?: string;
        readonly sessionId: string;
        readonly sessionKey?: string;
        readonly turnId?: string;
        readonly provider?: string;
        readonly model?: string;
        readonly cwd?: string;
        readonly transcriptPath?: string;
        readonly stopHookActive: boolean;
        readonly lastAssistantMessage?: string;
        readonly messages?: readonly Json[];
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: {
      readonly action: 'continue' | 'revise' | 'finalize';
      readonly reason?: string;
      readonly retry?: JsonObject;
    } | null;
    readonly cancels: false;
    readonly more: { readonly retries?: readonly string[] };
  };
  /** agent-turn, observe. */
  readonly agent_end: {
    readonly args: {
      readonly event: JsonObject & {
        readonly runId?: string;
        readonly messages: readonly Json[];
        readonly success: boolean;
        readonly error?: string;
        readonly durationMs?: number;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** agent-turn, modifying. */
  readonly heartbeat_prompt_contribution: {
    readonly args: {
      readonly event: JsonObject & {
        readonly sessionKey?: string;
        readonly agentId?: string;
        readonly heartbeatName?: string;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly prependContext?: string; readonly appendContext?: string } | null;
    readonly cancels: false;
  };
  /** conversation-observation, observe. */
  readonly model_call_started: {
    readonly args: {
      readonly event: JsonObject & {
        readonly runId: string;
        readonly callId: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly provider: string;
        readonly model: string;
        readonly api?: string;
        readonly transport?: string;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** conversation-observation, observe. */
  readonly model_call_ended: {
    readonly args: {
      readonly event: JsonObject & {
        readonly runId: string;
        readonly callId: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly provider: string;
        readonly model: string;
        readonly api?: string;
        readonly transport?: string;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly durationMs: number;
        readonly outcome: string;
        readonly errorCategory?: string;
        readonly failureKind?: string;
        readonly requestPayloadBytes?: number;
        readonly responseStreamBytes?: number;
        readonly timeToFirstByteMs?: number;
        readonly upstreamRequestIdHash?: string;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** conversation-observation, observe. */
  readonly llm_input: {
    readonly args: {
      readonly event: JsonObject & {
        readonly runId: string;
        readonly sessionId: string;
        readonly provider: string;
        readonly model: string;
        readonly systemPrompt?: string;
        readonly prompt: string;
        readonly historyMessages: readonly Json[];
        readonly imagesCount: number;
        readonly tools?: readonly Json[];
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** conversation-observation, observe. */
  readonly llm_output: {
    readonly args: {
      readonly event: JsonObject & {
        readonly runId: string;
        readonly sessionId: string;
        readonly provider: string;
        readonly model: string;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly resolvedRef?: string;
        readonly harnessId?: string;
        readonly prompt?: string;
        readonly assistantTexts: readonly string[];
        readonly lastAssistant?: Json;
        readonly usage?: JsonObject;
        readonly reasoningEffort?: string;
        readonly fastMode?: boolean;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** tools, modifying. */
  readonly before_tool_call: {
    readonly args: {
      readonly event: JsonObject & {
        readonly toolName: string;
        readonly params: JsonObject;
        readonly toolKind?: Json;
        readonly toolInputKind?: string;
        readonly runId?: string;
        readonly toolCallId?: string;
        readonly derivedPaths?: readonly string[];
      };
      readonly context?: JsonObject & {
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly runId?: string;
        readonly abortSignal?: Json;
        readonly trace?: Json;
        readonly toolName?: string;
        readonly toolKind?: Json;
        readonly toolInputKind?: string;
        readonly toolCallId?: string;
        readonly getSessionExtension?: Json;
        readonly channelId?: string;
        readonly requester?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
      readonly approvalMode?: 'ask' | 'report' | 'deny' | 'unavailable';
    };
    readonly value: {
      readonly params?: JsonObject;
      readonly block?: true;
      readonly blockReason?: string;
      readonly requireApproval?: JsonObject;
    } | null;
    readonly cancels: true;
    readonly more: { readonly gate: Gate };
  };
  /** tools, observe. */
  readonly after_tool_call: {
    readonly args: {
      readonly event: JsonObject & {
        readonly toolName: string;
        readonly params: JsonObject;
        readonly runId?: string;
        readonly toolCallId?: string;
        readonly result?: Json;
        readonly error?: string;
        readonly durationMs?: number;
      };
      readonly context?: JsonObject & {
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly runId?: string;
        readonly abortSignal?: Json;
        readonly trace?: Json;
        readonly toolName?: string;
        readonly toolKind?: Json;
        readonly toolInputKind?: string;
        readonly toolCallId?: string;
        readonly getSessionExtension?: Json;
        readonly channelId?: string;
        readonly requester?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** tools, modifying. */
  readonly resolve_exec_env: {
    readonly args: {
      readonly event: JsonObject & { readonly sessionKey?: string; readonly toolName: string; readonly host: string };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly [name: string]: string };
    readonly cancels: false;
  };
  /** tools, sync. */
  readonly tool_result_persist: {
    readonly args: {
      readonly event: JsonObject & {
        readonly toolName?: string;
        readonly toolCallId?: string;
        readonly message: JsonObject;
        readonly isSynthetic?: boolean;
      };
      readonly context?: JsonObject & {
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly toolName?: string;
        readonly toolCallId?: string;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly message?: Json } | null;
    readonly cancels: false;
  };
  /** tools, sync. */
  readonly before_message_write: {
    readonly args: {
      readonly event: JsonObject & {
        readonly message: JsonObject;
        readonly sessionKey?: string;
        readonly agentId?: string;
      };
      readonly context?: JsonObject & { readonly agentId?: string; readonly sessionKey?: string };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly block?: true; readonly message?: Json } | null;
    readonly cancels: true;
  };
  /** messages, claim. */
  readonly inbound_claim: {
    readonly args: {
      readonly event: JsonObject & {
        readonly content: string;
        readonly body?: string;
        readonly bodyForAgent?: string;
        readonly transcript?: string;
        readonly timestamp?: number;
        readonly channel: string;
        readonly accountId?: string;
        readonly conversationId?: string;
        readonly parentConversationId?: string;
        readonly senderId?: string;
        readonly senderName?: string;
        readonly senderUsername?: string;
        readonly replyToId?: string;
        readonly replyToIdFull?: string;
        readonly replyToBody?: string;
        readonly replyToSender?: string;
        readonly replyToIsQuote?: boolean;
        readonly threadId?: Json;
        readonly messageId?: string;
        readonly sessionKey?: string;
        readonly runId?: string;
        readonly trace?: Json;
        readonly traceId?: string;
        readonly spanId?: string;
        readonly parentSpanId?: string;
        readonly isGroup: boolean;
        readonly commandAuthorized?: boolean;
        readonly senderIsOwner?: boolean;
        readonly wasMentioned?: boolean;
        readonly location?: Json;
        readonly providerUpdate?: Json;
        readonly media?: readonly Json[];
        readonly originalMedia?: readonly Json[];
        readonly mediaStagingPending?: boolean;
        readonly metadata?: Json;
      };
      readonly context?: JsonObject & {
        readonly channelId?: string;
        readonly accountId?: string;
        readonly conversationId?: string;
        readonly sessionKey?: string;
        readonly runId?: string;
        readonly messageId?: string;
        readonly senderId?: string;
        readonly replyToId?: string;
        readonly replyToIdFull?: string;
        readonly replyToBody?: string;
        readonly replyToSender?: string;
        readonly replyToIsQuote?: boolean;
        readonly trace?: Json;
        readonly traceId?: string;
        readonly spanId?: string;
        readonly parentSpanId?: string;
        readonly callDepth?: number;
        readonly agentId?: string;
        readonly parentConversationId?: string;
        readonly pluginBinding?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value:
      | { readonly handled: true; readonly reply?: Json }
      | { readonly status: 'missing_plugin' | 'no_handler' | 'declined' }
      | { readonly status: 'handled'; readonly result: Json }
      | { readonly status: 'error'; readonly error: string }
      | null;
    readonly cancels: false;
  };
  /** messages, observe. */
  readonly channel_pairing_requested: {
    readonly args: {
      readonly event: JsonObject & {
        readonly channel: string;
        readonly accountId?: string;
        readonly senderId: string;
        readonly code: string;
        readonly metadata?: JsonObject;
      };
      readonly context?: JsonObject & {
        readonly channelId?: string;
        readonly accountId?: string;
        readonly senderId?: string;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** messages, observe. */
  readonly message_received: {
    readonly args: {
      readonly event: JsonObject & {
        readonly from: string;
        readonly content: string;
        readonly timestamp?: number;
        readonly threadId?: Json;
        readonly messageId?: string;
        readonly senderId?: string;
        readonly replyToId?: string;
        readonly replyToIdFull?: string;
        readonly replyToBody?: string;
        readonly replyToSender?: string;
        readonly replyToIsQuote?: boolean;
        readonly sessionKey?: string;
        readonly runId?: string;
        readonly trace?: Json;
        readonly traceId?: string;
        readonly spanId?: string;
        readonly parentSpanId?: string;
        readonly location?: Json;
        readonly providerUpdate?: Json;
        readonly media?: readonly Json[];
        readonly originalMedia?: readonly Json[];
        readonly mediaStagingPending?: boolean;
        readonly metadata?: Json;
      };
      readonly context?: JsonObject & {
        readonly channelId?: string;
        readonly accountId?: string;
        readonly conversationId?: string;
        readonly sessionKey?: string;
        readonly runId?: string;
        readonly messageId?: string;
        readonly senderId?: string;
        readonly replyToId?: string;
        readonly replyToIdFull?: string;
        readonly replyToBody?: string;
        readonly replyToSender?: string;
        readonly replyToIsQuote?: boolean;
        readonly trace?: Json;
        readonly traceId?: string;
        readonly spanId?: string;
        readonly parentSpanId?: string;
        readonly callDepth?: number;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** messages, modifying. */
  readonly message_sending: {
    readonly args: {
      readonly event: JsonObject & {
        readonly to: string;
        readonly content: string;
        readonly replyToId?: Json;
        readonly threadId?: Json;
        readonly metadata?: JsonObject;
      };
      readonly context?: JsonObject & {
        readonly channelId?: string;
        readonly accountId?: string;
        readonly conversationId?: string;
        readonly sessionKey?: string;
        readonly runId?: string;
        readonly messageId?: string;
        readonly senderId?: string;
        readonly replyToId?: string;
        readonly replyToIdFull?: string;
        readonly replyToBody?: string;
        readonly replyToSender?: string;
        readonly replyToIsQuote?: boolean;
        readonly trace?: Json;
        readonly traceId?: string;
        readonly spanId?: string;
        readonly parentSpanId?: string;
        readonly callDepth?: number;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: {
      readonly content?: string;
      readonly cancel?: true;
      readonly cancelReason?: string;
      readonly metadata?: Json;
    } | null;
    readonly cancels: true;
    readonly more: { readonly suppressed?: string };
  };
  /** messages, modifying. */
  readonly reply_payload_sending: {
    readonly args: {
      readonly event: JsonObject & {
        readonly payload: JsonObject;
        readonly kind: string;
        readonly channel?: string;
        readonly sessionKey?: string;
        readonly runId?: string;
        readonly usageState?: Json;
      };
      readonly context?: JsonObject & {
        readonly channelId?: string;
        readonly accountId?: string;
        readonly conversationId?: string;
        readonly sessionKey?: string;
        readonly runId?: string;
        readonly messageId?: string;
        readonly senderId?: string;
        readonly replyToId?: string;
        readonly replyToIdFull?: string;
        readonly replyToBody?: string;
        readonly replyToSender?: string;
        readonly replyToIsQuote?: boolean;
        readonly trace?: Json;
        readonly traceId?: string;
        readonly spanId?: string;
        readonly parentSpanId?: string;
        readonly callDepth?: number;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly payload?: Json; readonly cancel?: true; readonly reason?: string } | null;
    readonly cancels: true;
    readonly more: { readonly suppressed?: string };
  };
  /** messages, observe. */
  readonly message_sent: {
    readonly args: {
      readonly event: JsonObject & {
        readonly to: string;
        readonly content: string;
        readonly success: boolean;
        readonly messageId?: string;
        readonly sessionKey?: string;
        readonly runId?: string;
        readonly trace?: Json;
        readonly traceId?: string;
        readonly spanId?: string;
        readonly parentSpanId?: string;
        readonly error?: string;
      };
      readonly context?: JsonObject & {
        readonly channelId?: string;
        readonly accountId?: string;
        readonly conversationId?: string;
        readonly sessionKey?: string;
        readonly runId?: string;
        readonly messageId?: string;
        readonly senderId?: string;
        readonly replyToId?: string;
        readonly replyToIdFull?: string;
        readonly replyToBody?: string;
        readonly replyToSender?: string;
        readonly replyToIsQuote?: boolean;
        readonly trace?: Json;
        readonly traceId?: string;
        readonly spanId?: string;
        readonly parentSpanId?: string;
        readonly callDepth?: number;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** messages, claim. */
  readonly before_dispatch: {
    readonly args: {
      readonly event: JsonObject & {
        readonly messageId?: string;
        readonly content: string;
        readonly body?: string;
        readonly channel?: string;
        readonly sessionKey?: string;
        readonly senderId?: string;
        readonly replyToId?: string;
        readonly replyToIdFull?: string;
        readonly replyToBody?: string;
        readonly replyToSender?: string;
        readonly replyToIsQuote?: boolean;
        readonly isGroup?: boolean;
        readonly timestamp?: number;
      };
      readonly context?: JsonObject & {
        readonly messageId?: string;
        readonly channelId?: string;
        readonly accountId?: string;
        readonly conversationId?: string;
        readonly sessionKey?: string;
        readonly senderId?: string;
        readonly replyToId?: string;
        readonly replyToIdFull?: string;
        readonly replyToBody?: string;
        readonly replyToSender?: string;
        readonly replyToIsQuote?: boolean;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly handled: true; readonly text?: string } | null;
    readonly cancels: false;
  };
  /** messages, claim. */
  readonly reply_dispatch: {
    readonly args: {
      readonly event: JsonObject & {
        readonly ctx: Json;
        readonly runId?: string;
        readonly sessionKey?: string;
        readonly toolsAllow?: readonly string[];
        readonly images?: readonly Json[];
        readonly inboundAudio: boolean;
        readonly sessionTtsAuto?: Json;
        readonly ttsChannel?: string;
        readonly suppressUserDelivery?: boolean;
        readonly suppressReplyLifecycle?: boolean;
        readonly sourceReplyDeliveryMode?: Json;
        readonly shouldRouteToOriginating: boolean;
        readonly originatingChannel?: string;
        readonly originatingTo?: string;
        readonly originatingAccountId?: string;
        readonly originatingThreadId?: Json;
        readonly originatingChatType?: Json;
        readonly shouldSendToolSummaries: boolean;
        readonly shouldSendFullToolDetails: boolean;
        readonly sendPolicy: string;
        readonly isTailDispatch?: boolean;
      };
      readonly context?: JsonObject & {
        readonly dispatchKind?: string;
        readonly cfg?: Json;
        readonly dispatcher?: Json;
        readonly abortSignal?: Json;
        readonly onReplyStart?: Json;
        readonly onAgentRunStart?: Json;
        readonly userTurnTranscriptRecorder?: Json;
        readonly prepareAssistantTranscriptMessage?: Json;
        readonly recordProcessed?: Json;
        readonly markIdle?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly handled: true; readonly queuedFinal?: boolean; readonly counts?: Json } | null;
    readonly cancels: false;
  };
  /** sessions, observe. */
  readonly session_start: {
    readonly args: {
      readonly event: JsonObject & {
        readonly sessionId: string;
        readonly sessionKey?: string;
        readonly resumedFrom?: string;
      };
      readonly context?: JsonObject & {
        readonly agentId?: string;
        readonly sessionId?: string;
        readonly sessionKey?: string;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** sessions, observe. */
  readonly session_end: {
    readonly args: {
      readonly event: JsonObject & {
        readonly sessionId: string;
        readonly sessionKey?: string;
        readonly messageCount: number;
        readonly durationMs?: number;
        readonly reason?: string;
        readonly sessionFile?: string;
        readonly transcriptArchived?: boolean;
        readonly nextSessionId?: string;
        readonly nextSessionKey?: string;
      };
      readonly context?: JsonObject & {
        readonly agentId?: string;
        readonly sessionId?: string;
        readonly sessionKey?: string;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** sessions, observe. */
  readonly before_compaction: {
    readonly args: {
      readonly event: JsonObject & {
        readonly messageCount: number;
        readonly compactingCount?: number;
        readonly tokenCount?: number;
        readonly messages?: readonly Json[];
        readonly sessionFile?: string;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** sessions, observe. */
  readonly after_compaction: {
    readonly args: {
      readonly event: JsonObject & {
        readonly messageCount: number;
        readonly tokenCount?: number;
        readonly compactedCount: number;
        readonly sessionFile?: string;
        readonly previousSessionId?: string;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** sessions, observe. */
  readonly before_reset: {
    readonly args: {
      readonly event: JsonObject & {
        readonly sessionFile?: string;
        readonly messages?: readonly Json[];
        readonly reason?: string;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly jobId?: string;
        readonly trace?: Json;
        readonly agentId?: string;
        readonly sessionKey?: string;
        readonly sessionId?: string;
        readonly workspaceDir?: string;
        readonly activeProjectKeys?: readonly string[];
        readonly modelProviderId?: string;
        readonly modelId?: string;
        readonly messageProvider?: string;
        readonly channel?: string;
        readonly accountId?: string;
        readonly chatId?: string;
        readonly senderId?: string;
        readonly trigger?: string;
        readonly channelId?: string;
        readonly inputProvenance?: Json;
        readonly contextTokenBudget?: number;
        readonly contextWindowSource?: string;
        readonly contextWindowReferenceTokens?: number;
        readonly senderExternalId?: string;
        readonly channelContext?: Json;
        readonly toolAuthority?: Json;
        readonly hookInvocation?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** subagents, modifying. Only in 2026.7. Deprecated: use subagent_spawned. */
  readonly subagent_spawning: {
    readonly args: {
      readonly event: JsonObject & {
        readonly childSessionKey: string;
        readonly agentId: string;
        readonly label?: string;
        readonly mode: string;
        readonly requester?: JsonObject;
        readonly threadRequested: boolean;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly childSessionKey?: string;
        readonly requesterSessionKey?: string;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: {
      readonly status: 'ok' | 'error';
      readonly threadBindingReady?: boolean;
      readonly deliveryOrigin?: Json;
      readonly error?: string;
    } | null;
    readonly cancels: false;
  };
  /** subagents, modifying. Deprecated: use core session binding routing. */
  readonly subagent_delivery_target: {
    readonly args: {
      readonly event: JsonObject & {
        readonly childSessionKey: string;
        readonly requesterSessionKey: string;
        readonly requesterOrigin?: JsonObject;
        readonly childRunId?: string;
        readonly spawnMode?: string;
        readonly expectsCompletionMessage: boolean;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly childSessionKey?: string;
        readonly requesterSessionKey?: string;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: { readonly origin?: Json } | null;
    readonly cancels: false;
  };
  /** subagents, observe. */
  readonly subagent_spawned: {
    readonly args: {
      readonly event: JsonObject & {
        readonly childSessionKey: string;
        readonly agentId: string;
        readonly label?: string;
        readonly mode: string;
        readonly requester?: Json;
        readonly threadRequested: boolean;
        readonly runId: string;
        readonly resolvedModel?: string;
        readonly resolvedProvider?: string;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly childSessionKey?: string;
        readonly requesterSessionKey?: string;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** subagents, observe. Only in 2026.9. */
  readonly subagent_progress: {
    readonly args: {
      readonly event: JsonObject & {
        readonly phase?: string;
        readonly runId?: string;
        readonly childSessionKey?: string;
        readonly requester?: Json;
        readonly outcome?: string;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly childSessionKey?: string;
        readonly requesterSessionKey?: string;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** subagents, observe. */
  readonly subagent_ended: {
    readonly args: {
      readonly event: JsonObject & {
        readonly targetSessionKey: string;
        readonly targetKind: string;
        readonly reason: string;
        readonly sendFarewell?: boolean;
        readonly accountId?: string;
        readonly runId?: string;
        readonly endedAt?: number;
        readonly outcome?: string;
        readonly error?: string;
      };
      readonly context?: JsonObject & {
        readonly runId?: string;
        readonly childSessionKey?: string;
        readonly requesterSessionKey?: string;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** lifecycle, observe. Only in 2026.7. Deprecated: use gateway_stop. */
  readonly deactivate: {
    readonly args: {
      readonly event: JsonObject & { readonly reason?: string };
      readonly context?: JsonObject & {
        readonly port?: number;
        readonly config?: Json;
        readonly workspaceDir?: string;
        readonly getCron?: Json;
        readonly abortSignal?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** lifecycle, observe. */
  readonly gateway_start: {
    readonly args: {
      readonly event: JsonObject & { readonly port: number };
      readonly context?: JsonObject & {
        readonly port?: number;
        readonly config?: Json;
        readonly workspaceDir?: string;
        readonly getCron?: Json;
        readonly abortSignal?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** lifecycle, observe. */
  readonly gateway_stop: {
    readonly args: {
      readonly event: JsonObject & { readonly reason?: string };
      readonly context?: JsonObject & {
        readonly port?: number;
        readonly config?: Json;
        readonly workspaceDir?: string;
        readonly getCron?: Json;
        readonly abortSignal?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** lifecycle, observe. Only in 2026.9. */
  readonly cron_reconciled: {
    readonly args: {
      readonly event: JsonObject & { readonly reason: string; readonly enabled: boolean };
      readonly context?: JsonObject & {
        readonly port?: number;
        readonly config?: Json;
        readonly workspaceDir?: string;
        readonly getCron?: Json;
        readonly abortSignal?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** lifecycle, observe. */
  readonly cron_changed: {
    readonly args: {
      readonly event: JsonObject & {
        readonly action: string;
        readonly jobId: string;
        readonly job?: Json;
        readonly sessionTarget?: string;
        readonly agentId?: string;
        readonly runAtMs?: number;
        readonly durationMs?: number;
        readonly status?: string;
        readonly completionStatus?: string;
        readonly error?: string;
        readonly summary?: string;
        readonly delivered?: boolean;
        readonly deliveryStatus?: string;
        readonly deliveryError?: string;
        readonly deliverySuppressionReason?: string;
        readonly sessionId?: string;
        readonly sessionKey?: string;
        readonly runId?: string;
        readonly nextRunAtMs?: number;
        readonly model?: string;
        readonly provider?: string;
      };
      readonly context?: JsonObject & {
        readonly port?: number;
        readonly config?: Json;
        readonly workspaceDir?: string;
        readonly getCron?: Json;
        readonly abortSignal?: Json;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** lifecycle, modifying. */
  readonly before_install: {
    readonly args: {
      readonly event: JsonObject & {
        readonly targetType: string;
        readonly targetName: string;
        readonly sourcePath: string;
        readonly sourcePathKind: string;
        readonly origin?: string;
        readonly request: Json;
        readonly builtinScan: Json;
        readonly skill?: Json;
        readonly plugin?: Json;
      };
      readonly context?: JsonObject & {
        readonly targetType?: string;
        readonly requestKind?: string;
        readonly origin?: string;
      };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: {
      readonly findings?: readonly Json[];
      readonly block?: true;
      readonly blockReason?: string;
    } | null;
    readonly cancels: true;
  };
  /** skills, evaluate. Only in 2026.9. */
  readonly skill_proposal_evaluate: {
    readonly args: {
      readonly event: JsonObject & {
        readonly correlationId?: string;
        readonly proposal: JsonObject;
        readonly skill: JsonObject;
        readonly candidate: Json;
        readonly baseline?: Json;
        readonly reason: string;
      };
      readonly context?: JsonObject & { readonly workspaceDir?: string; readonly agentId?: string };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value:
      | readonly {
          readonly evaluatorId: string;
          readonly pluginId: string;
          readonly status: 'completed' | 'skipped' | 'error';
          readonly result?: Json;
          readonly error?: string;
        }[]
      | null;
    readonly cancels: false;
  };
  /** skills, observe. Only in 2026.9. */
  readonly skill_proposal_changed: {
    readonly args: {
      readonly event: JsonObject & {
        readonly eventId: string;
        readonly sequence: number;
        readonly action: string;
        readonly occurredAt: string;
        readonly correlationId?: string;
        readonly proposal: JsonObject;
        readonly evaluations?: readonly Json[];
      };
      readonly context?: JsonObject & { readonly workspaceDir?: string; readonly agentId?: string };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
  /** skills, observe. Only in 2026.9. */
  readonly skill_changed: {
    readonly args: {
      readonly event: JsonObject & {
        readonly action: string;
        readonly source: string;
        readonly occurredAt: string;
        readonly before?: Json;
        readonly after?: Json;
        readonly proposal?: JsonObject;
      };
      readonly context?: JsonObject & { readonly workspaceDir?: string; readonly agentId?: string };
      readonly profile?: 'documented' | '2026.7' | '2026.9';
    };
    readonly value: null;
    readonly cancels: false;
  };
}

/** The hooks of KohakuTerrarium: `value` is the first argument, what else there is stands in `kwargs`. */
export interface KohakuHooks {
  /** lifecycle, load. */
  readonly on_load: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: null;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** lifecycle, unload. */
  readonly on_unload: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: null;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** lifecycle, applies. */
  readonly should_apply: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: { readonly [plugin: string]: Json };
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** llm, transform. */
  readonly pre_llm_call: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: Json;
    readonly cancels: true;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** llm, text. */
  readonly post_llm_call: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: string;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** tool_visibility, visibility. */
  readonly get_tool_visibility: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: {
      readonly allowed_tools: Json;
      readonly allowed_subagents: Json;
      readonly tools?: readonly string[];
      readonly subagents?: readonly string[];
      readonly provider_native?: readonly string[];
    };
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** tool, transform. */
  readonly pre_tool_dispatch: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: Json;
    readonly cancels: true;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** tool, transform. */
  readonly pre_tool_execute: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: Json;
    readonly cancels: true;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** tool, transform. */
  readonly post_tool_execute: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: Json;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** subagent, transform. */
  readonly pre_subagent_run: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: Json;
    readonly cancels: true;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** subagent, transform. */
  readonly post_subagent_run: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: Json;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** callback, callback. */
  readonly on_agent_start: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: null;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** callback, callback. */
  readonly on_agent_stop: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: null;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** callback, callback. */
  readonly on_event: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: null;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** callback, callback. */
  readonly on_interrupt: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: null;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** callback, callback. */
  readonly on_task_promoted: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: null;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** callback, veto. */
  readonly on_compact_start: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: boolean;
    readonly cancels: true;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** callback, callback. */
  readonly on_compact_end: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: null;
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** contribution, commands. */
  readonly contribute_commands: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: {
      readonly registered: readonly string[];
      readonly commands: { readonly [name: string]: string };
      readonly error: string | null;
      readonly collision?: string;
    };
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** contribution, user-commands. */
  readonly contribute_user_commands: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: {
      readonly registered: readonly string[];
      readonly commands: { readonly [name: string]: string };
      readonly error: string | null;
      readonly collision?: string;
    };
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** contribution, vote. */
  readonly contribute_termination_check: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: { readonly should_stop: boolean; readonly reason: string };
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** contribution, prompt. */
  readonly get_prompt_content: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: { readonly parts: readonly string[]; readonly text: string };
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** contribution, services. */
  readonly runtime_services: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: { readonly [name: string]: Json };
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
  /** prompt_plugin, prompt. */
  readonly get_content: {
    readonly args: {
      readonly input: JsonObject & { readonly value?: Json; readonly kwargs?: JsonObject; readonly agent?: JsonObject };
      readonly profile?: 'documented' | '2.1';
    };
    readonly value: { readonly parts: readonly string[]; readonly text: string };
    readonly cancels: false;
    readonly more: {
      readonly effects?: readonly Json[];
      readonly activities?: readonly JsonObject[];
      readonly surface?: JsonObject;
    };
  };
}

/** The hooks of every dialect, by its name. */
export interface Dialects {
  readonly middleware: MiddlewareHooks;
  readonly openclaw: OpenClawHooks;
  readonly kohaku: KohakuHooks;
}

/** What a client must know of a hook when it decides without the server. */
export interface HookFacts {
  /** Whether its operation can be cancelled. */
  readonly cancels: boolean;
  /** The argument, and its fields, whose value is the answer's when nothing changes it. */
  readonly from?: readonly [argument: string, ...fields: readonly string[]];
  /** The answer's value when nobody was asked; null where this is not there either. */
  readonly value?: Json;
}

export const hookFacts: { readonly [dialect: string]: { readonly [hook: string]: HookFacts } } = {
  middleware: {
    systemPrompt: { cancels: false, from: ['context', 'systemPrompt'] },
    userMessageInbound: { cancels: true, from: ['context', 'text'] },
    interAgentMessage: { cancels: true, from: ['context', 'text'] },
    assistantMessageOutbound: { cancels: true, from: ['context', 'text'] },
    todoAdded: { cancels: true, from: ['context', 'texts'] },
    notifyScheduled: { cancels: true, from: ['context', 'message', 'delaySeconds'] },
    notifyDelivered: { cancels: true, from: ['context', 'message'] },
    sshConnectionOpening: { cancels: true },
    sshCommandSending: { cancels: true, from: ['context', 'command', 'path', 'content'] },
    sshCommandCompleted: { cancels: true, from: ['context', 'output', 'errorOutput'] },
    sessionClearing: { cancels: false },
    sessionClearCompleted: { cancels: false },
    cronJobFiring: { cancels: true, from: ['context', 'prompt'] },
    cronJobCompleted: { cancels: false },
  },
  openclaw: {
    before_model_resolve: { cancels: false },
    agent_turn_prepare: { cancels: false },
    before_prompt_build: { cancels: false },
    before_agent_start: { cancels: false },
    before_agent_run: { cancels: true },
    before_agent_reply: { cancels: false },
    before_agent_finalize: { cancels: false },
    agent_end: { cancels: false },
    heartbeat_prompt_contribution: { cancels: false },
    model_call_started: { cancels: false },
    model_call_ended: { cancels: false },
    llm_input: { cancels: false },
    llm_output: { cancels: false },
    before_tool_call: { cancels: true },
    after_tool_call: { cancels: false },
    resolve_exec_env: { cancels: false, value: {} },
    tool_result_persist: { cancels: false },
    before_message_write: { cancels: true },
    inbound_claim: { cancels: false },
    channel_pairing_requested: { cancels: false },
    message_received: { cancels: false },
    message_sending: { cancels: true },
    reply_payload_sending: { cancels: true },
    message_sent: { cancels: false },
    before_dispatch: { cancels: false },
    reply_dispatch: { cancels: false },
    session_start: { cancels: false },
    session_end: { cancels: false },
    before_compaction: { cancels: false },
    after_compaction: { cancels: false },
    before_reset: { cancels: false },
    subagent_spawning: { cancels: false },
    subagent_delivery_target: { cancels: false },
    subagent_spawned: { cancels: false },
    subagent_progress: { cancels: false },
    subagent_ended: { cancels: false },
    deactivate: { cancels: false },
    gateway_start: { cancels: false },
    gateway_stop: { cancels: false },
    cron_reconciled: { cancels: false },
    cron_changed: { cancels: false },
    before_install: { cancels: true },
    skill_proposal_evaluate: { cancels: false },
    skill_proposal_changed: { cancels: false },
    skill_changed: { cancels: false },
  },
  kohaku: {
    on_load: { cancels: false },
    on_unload: { cancels: false },
    should_apply: { cancels: false, value: {} },
    pre_llm_call: { cancels: true, from: ['input', 'value'] },
    post_llm_call: { cancels: false, from: ['input', 'value'] },
    get_tool_visibility: { cancels: false, value: { allowed_tools: null, allowed_subagents: null } },
    pre_tool_dispatch: { cancels: true, from: ['input', 'value'] },
    pre_tool_execute: { cancels: true, from: ['input', 'value'] },
    post_tool_execute: { cancels: false, from: ['input', 'value'] },
    pre_subagent_run: { cancels: true, from: ['input', 'value'] },
    post_subagent_run: { cancels: false, from: ['input', 'value'] },
    on_agent_start: { cancels: false },
    on_agent_stop: { cancels: false },
    on_event: { cancels: false },
    on_interrupt: { cancels: false },
    on_task_promoted: { cancels: false },
    on_compact_start: { cancels: true, value: true },
    on_compact_end: { cancels: false },
    contribute_commands: { cancels: false, value: { registered: [], commands: {}, error: null } },
    contribute_user_commands: { cancels: false, value: { registered: [], commands: {}, error: null } },
    contribute_termination_check: { cancels: false, value: { should_stop: false, reason: '' } },
    get_prompt_content: { cancels: false, value: { parts: [], text: '' } },
    runtime_services: { cancels: false, value: {} },
    get_content: { cancels: false, value: { parts: [], text: '' } },
  },
};
