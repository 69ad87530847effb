/**
 * What a middleware plugin finds in its realm. Put a copy beside your own plugin and the compiler checks it; nothing of
 * this is loaded when the plugin runs.
 */
export {};

declare global {
  /** The opaque token of `tools.cancel`; returning it stops the operation. */
  interface Cancellation {
    readonly [cancellation]: true;
  }

  interface Tools {
    /** At most 500 characters of the reason are recorded. */
    cancel(reason?: string): Cancellation;
  }

  type Handled<T> = T | Promise<T>;
  type SshKind = 'command' | 'list_files' | 'read_file' | 'write_file' | 'edit_file' | 'delete_file';

  interface SshPlace {
    sessionId: string;
    agentId: string;
    sshHostId: string;
    hostDisplayName: string;
  }

  interface SystemPrompt {
    sessionId: string;
    agentId: string;
    sessionKind: string;
    systemPrompt: string;
  }

  interface UserMessage {
    sessionId: string;
    channelId: string | null;
    text: string;
    mediaIds: string[];
  }

  interface InterAgentMessage {
    senderSessionId: string;
    senderAgentId: string;
    targetSessionId: string;
    isSubagentReport: boolean;
    text: string;
  }

  interface AssistantMessage {
    sessionId: string;
    channelId: string | null;
    text: string;
  }

  interface SshConnection extends SshPlace {
    hostname: string;
    port: number | null;
    connectionType: 'direct' | 'tunnel';
    username: string;
  }

  interface SshCommand extends SshPlace {
    kind: SshKind;
    command: string | null;
    path: string | null;
    content: string | null;
    intent?: string;
  }

  interface SshOutput extends SshPlace {
    kind: SshKind;
    command: string | null;
    path: string | null;
    exitCode: number;
    output: string | null;
    errorOutput: string | null;
    isTruncated: boolean;
    durationMs: number;
  }

  interface SessionClearing {
    sessionId: string;
    agentId: string;
    trailingText: string | null;
    messageCount: number;
    subagentCount: number;
    peerThreadCount: number;
  }

  interface SessionCleared {
    sessionId: string;
    agentId: string;
    deletedMessageCount: number;
    deletedSubagentCount: number;
    deletedPeerThreadCount: number;
  }

  interface CronJobFiring {
    cronJobId: string;
    agentId: string;
    kind: string;
    name: string;
    prompt: string;
  }

  interface CronJobCompleted {
    cronJobId: string;
    cronJobRunId: string;
    sessionId: string;
    agentId: string;
    status: string;
  }

  /** The fourteen hook points. A plugin assigns the ones that it handles. */
  interface Middleware {
    systemPrompt?: (context: SystemPrompt) => Handled<string>;
    userMessageInbound?: (context: UserMessage, tools: Tools) => Handled<string | Cancellation>;
    interAgentMessage?: (context: InterAgentMessage, tools: Tools) => Handled<string | Cancellation>;
    assistantMessageOutbound?: (context: AssistantMessage, tools: Tools) => Handled<string | Cancellation>;
    todoAdded?: (context: { sessionId: string; texts: string[] }, tools: Tools) => Handled<string[] | Cancellation>;
    notifyScheduled?: (
      context: { sessionId: string; message: string; delaySeconds: number },
      tools: Tools,
    ) => Handled<{ message?: string; delaySeconds?: number } | Cancellation>;
    notifyDelivered?: (
      context: { sessionId: string; notifyId: string; message: string },
      tools: Tools,
    ) => Handled<string | Cancellation>;
    // `unknown` for what the chain ignores: a handler may return nothing, or a token where one counts.
    sshConnectionOpening?: (context: SshConnection, tools: Tools) => unknown;
    sshCommandSending?: (
      context: SshCommand,
      tools: Tools,
    ) => Handled<{ command?: string; path?: string; content?: string } | Cancellation>;
    sshCommandCompleted?: (
      context: SshOutput,
      tools: Tools,
    ) => Handled<{ output?: string | undefined; errorOutput?: string | undefined } | Cancellation>;
    sessionClearing?: (context: SessionClearing) => unknown;
    sessionClearCompleted?: (context: SessionCleared) => unknown;
    cronJobFiring?: (context: CronJobFiring, tools: Tools) => Handled<string | Cancellation>;
    cronJobCompleted?: (context: CronJobCompleted) => unknown;
  }

  interface SshResult {
    exitCode: number;
    output: string;
    errorOutput: string;
    isTruncated: boolean;
    durationMs: number;
  }

  /** Members that need a permission, or that a hook does not have, are `undefined`. */
  interface Host {
    log(level: 'debug' | 'info' | 'warn' | 'error', message: string): void;
    /** The configuration of the running revision, deep-frozen. */
    readonly config: unknown;
    readonly session?: {
      readonly id: string;
      readonly conversation: { read(): Promise<unknown> };
      readonly peer: { send(targetSessionId: string, text: string): Promise<unknown> };
    };
    readonly workspace?: { readonly agentId: string };
    readonly agents?: { list(): Promise<{ agents: { id: string }[] }> };
    readonly fetch?: (url: string, options?: unknown) => Promise<{ status: number; body: string }>;
    readonly llm?: (request: unknown) => Promise<unknown>;
    readonly decide?: (request: unknown) => Promise<unknown>;
    readonly ssh?: { command(command: string, options?: { timeoutSeconds?: number }): Promise<SshResult> };
  }

  var middleware: Middleware;
  var host: Host;
}

declare const cancellation: unique symbol;
