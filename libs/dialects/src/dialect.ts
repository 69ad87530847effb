import type { Json, JsonObject } from '#record';
import type { Decision, Link, Point, Said, Warning } from '#hooks';
import type { DialectApprovals } from './held-call.js';
import type { Injection } from './openclaw/injections.js';
import type { Bundling } from './source/compile.js';

/** A fault in what the caller sent: a JSON Pointer and the mend. */
export interface Fault {
  readonly pointer: string;
  readonly reason: string;
}

/** What a host went through, of which it fires a hook: facts without content, and content. */
export interface ObservedFacts {
  readonly kind: 'session' | 'subagent' | 'cron' | 'gateway';
  /** Ids, words, numbers. */
  readonly facts: JsonObject;
  readonly content: JsonObject | null;
}

/** A hook's own arguments, checked against the catalogue. */
export type Opening =
  | {
      readonly kind: 'opened';
      /** What handlers get, JSON text: exactly the documented keys, byte for byte. */
      readonly input: string;
      /** What the record keeps in its place, where it must not keep all of it. */
      readonly recordedInput?: string;
      /** The mutable part in the form of the answer's `value`; null where the hook has none. */
      readonly value: Json;
      readonly sessionId: string | null;
      readonly agentId: string | null;
      readonly turnId: string | null;
      /** Joins the hooks before and after one operation, where the arguments name it. */
      readonly operationId?: string | null;
      /** ssh host, tool, cron job, recipient; null where there is none. */
      readonly target: string | null;
      readonly targetIsAddress: boolean;
      /** What it says of its host's sessions, subagents, cron jobs or gateway; absent: nothing. */
      readonly observed?: ObservedFacts;
    }
  | { readonly kind: 'refused'; readonly faults: readonly Fault[] };

/** What the invocation means for host members: decided before the chain runs. */
export interface HostView {
  /** MW-71, MW-101. */
  readonly session: { readonly state: 'granted' | 'withheld' | 'absent'; readonly id: string | null };
  readonly workspaceAgentId: string | null;
  readonly sshHostId: string | null;
}

/** What a load found: `LoadFindings` without the permissions, which come from the source. */
export interface LoadReport {
  readonly hooks: readonly string[];
  readonly gated: readonly string[];
  readonly warnings: readonly { readonly code: string; readonly detail?: string }[];
  readonly registrations: JsonObject;
  /** Ids that the source itself claims: the plugin must have the same. */
  readonly declaredIds?: readonly string[];
  /** It registers something that is no hook. */
  readonly registersMore?: boolean;
}

/** What an account says of how a dialect is followed, and of one plugin's hooks. */
export interface DialectRules {
  readonly profile?: string;
  readonly gates?: JsonObject;
}

/** The plugins of a chain, in load order, and what it is asked for. */
export interface ArrangeOrder {
  readonly hook: string;
  readonly plugins: readonly {
    readonly id: string;
    /** `LoadReport.registrations`. */
    readonly registrations: JsonObject;
    readonly gates: JsonObject;
  }[];
  /** What handlers get; null when nothing is fired and every handler counts. */
  readonly input: JsonObject | null;
}

/** One handler's place in a chain. */
export interface Arranged {
  /** Index into the order's plugins. */
  readonly plugin: number;
  /** The name under which its realm runs it. */
  readonly handler: string;
  /** It belongs to the policies, which run before the others. */
  readonly isPolicy: boolean;
  readonly priority: number | null;
  /** Limit that the plugin wrote itself, ms. */
  readonly timeoutMs: number | null;
  /** No limit but the longest holds for it, whatever anybody says. */
  readonly hasNoLimit: boolean;
  /** It is asked for this event. */
  readonly applies: boolean;
  /** Handed to `Dialect.read` with its results. */
  readonly readAs?: string;
  /** Names it among the evaluators of an outcome. */
  readonly evaluatorId?: string;
}

export interface HookEntry {
  readonly name: string;
  readonly group: string;
  /** The point as the chain engine sees it. */
  readonly point: Point;
  /** The point of handlers that are policies: they run first, and what they end stays ended. */
  readonly policyPoint?: Point;
  /** Whether any handler can veto the operation: what `failureMode: closed` needs. */
  readonly cancellable: boolean;
  readonly mutableFields: readonly string[];
  readonly defaultTimeoutMs: number;
  /** The dialect itself fails closed here, whatever the plugin's `failureMode`. */
  readonly failsClosed: boolean;
  /** A new inferred turn starts at this hook (api.md: every invocation belongs to a turn). */
  readonly startsTurn: 'always' | 'unless-just-started' | 'never';
  /** Context field that keys a hook which runs once per turn (MW-81: `sshHostId` of sshConnectionOpening). */
  readonly oncePerTurn?: string;
}

/** What an answer depends on beside the decision. */
export interface AnswerFacts {
  /** What handlers got, JSON text. */
  readonly input: string;
  /** Ids of the dialect's plugins that are in force. */
  readonly loaded: readonly string[];
  /** What earlier answers of the same run counted up, by key. */
  readonly counts: { readonly [key: string]: number };
  /** What the platform took out of the session's queue for this turn; absent: nothing was its own to take. */
  readonly injections?: readonly Injection[];
  /** What handlers wanted their host to do, in order (`Dialect.effects`). */
  readonly effects?: readonly JsonObject[];
}

/** How a hook takes what waits for a session's turn. */
export interface TurnQueue {
  /** The hook whose firing empties the session's queue. */
  readonly hook: string;
  /** Whether a firing's arguments bring injections of their own. */
  brings(input: JsonObject): boolean;
  /** The arguments with what was taken. */
  withInjections(input: JsonObject, injections: readonly Injection[]): JsonObject;
}

export interface Dialect {
  readonly name: 'middleware' | 'openclaw' | 'kohaku';
  readonly entries: ReadonlyMap<string, HookEntry>;
  /** Ways of following the dialect, by name; a firing is run by one of them. Absent: there is one way. */
  readonly profiles?: ReadonlyMap<string, Dialect>;
  /** How sources become scripts; absent: as they are. */
  readonly bundling?: Bundling;
  /** The file among a plugin's that describes it. */
  readonly manifest?: {
    readonly file: string;
    read(
      files: ReadonlyMap<string, string>,
    ):
      | { readonly kind: 'read'; readonly manifest: { readonly id?: string; readonly configSchema?: JsonObject } }
      | { readonly kind: 'faulty'; readonly reason: string };
  };
  /** Source of the guest program (libs/sandbox/src/guest-kit.md). */
  readonly guest: string;
  /** The same for plugins in other languages than JavaScript. */
  readonly guests?: { readonly python: string };
  /** Whether a plugin keeps state of a session, by its registrations; its member `set_state` changes it. */
  keepsState?(registrations: JsonObject): boolean;
  /** Members that only tell what the host is to do: each is recorded as a host call and stands in the answer. */
  readonly effects?: readonly string[];
  /** Bounds of `timeouts`, ms. */
  readonly timeoutBounds: { readonly min: number; readonly max: number };
  /** Fields of a firing's body that are the hook's own arguments; all others are the envelope's. */
  readonly ownFields: readonly string[];
  /** `fired`: whom the envelope names. */
  open(
    hook: string,
    body: JsonObject,
    fired?: { readonly sessionId: string | null; readonly agentId: string | null },
  ): Opening;
  hostView(hook: string, input: JsonObject, hop: number): HostView;
  /**
   * Whether a handler has a host member, by its plugin's permissions and this firing. The guest program shows no other;
   * a realm that was taken over may ask all the same, so the platform asks here.
   */
  grants(view: HostView, permissions: readonly string[], member: string): boolean;
  /** `Realm.setup`. */
  setup(plugin: {
    readonly permissions: readonly string[];
    readonly config: Json;
    readonly pluginId?: string;
    /** Of a source with several: which class is the plugin. */
    readonly className?: string;
    /** The name under which the plugin is registered, where it is not the id. */
    readonly pluginName?: string;
  }): string;
  /** `HandlerRun.args`. */
  args(hook: string, view: HostView): string;
  /** Reads what came out of the sandbox; `value` is the mutable part that the handler saw. Total: never throws. */
  read(hook: string, raw: string, value: Json, readAs?: string): Pick<Said<Json>, 'verdict' | 'warnings' | 'more'>;
  /** Warnings that a handler's notes hold when it failed before it was done. */
  readNotes(hook: string, notes: string): readonly Warning[];
  readReport(report: string, rules?: DialectRules): LoadReport;
  /** Hooks that a plugin registered and that the rules keep from it; absent: none are. */
  gated?(registrations: JsonObject, rules: DialectRules): readonly string[];
  /** What a compiled script is warned of for how it is written; `hooks` are those that it registers. */
  examine?(code: string, hooks: readonly string[]): LoadReport['warnings'];
  /** The handlers of a chain in the order they run; absent: one per plugin, named as the hook. */
  arrange?(order: ArrangeOrder): readonly Arranged[];
  /** The input with its mutable part as it is now; absent: its fields are the input's own. */
  inputWith?(hook: string, input: string, value: Json): string;
  /** Judges a host call of a handler; absent: as the middleware dialect does. */
  readonly checkCall?: CheckCall;
  /** Handlers have timers, which the platform serves without a record. */
  readonly hasTimers?: boolean;
  /**
   * Raw tags that end a chain at this hook (`HandlerRun.stopsOn`): those of a cancel, a claim; for a handler that
   * closes also those of "did not decide", `'failed'` included.
   */
  stopTags(hook: string, failureMode: 'open' | 'closed'): readonly string[];
  /** How chains wait for a person; absent: none does. */
  readonly approvals?: DialectApprovals;
  /** What plugins have said in a session's next turn; absent: nothing waits for turns. */
  readonly queue?: TurnQueue;
  /** Names under which the arguments know their session. */
  sessionNames?(input: JsonObject): readonly string[];
  /** `HandlerRun.args` of one plugin's handler, with what the session keeps for the plugin. */
  argsWith?(args: string, kept: readonly (readonly [namespace: string, json: string])[]): string;
  /** The profile under which this is the dialect; absent: it has none, or is none of them. */
  readonly profile?: string;
  readonly pausingMembers: readonly string[];
  /** Longest time that the clock of one handler run can stand still, ms (MW-52: 10 x 90 s). */
  readonly pauseCeilingMs: number;
  /** What a chain comes to beyond what its handlers said; absent: nothing else. */
  conclude?<L extends Link>(hook: string, decision: Decision<L, Json>, facts: AnswerFacts): Decision<L, Json>;
  /** The answer's `value`; absent = `decision.value`. */
  answerValue?(hook: string, decision: Decision<Link, Json>, facts?: AnswerFacts): Json;
  /** Fields that the answer has besides. */
  answerMore?(hook: string, decision: Decision<Link, Json>, facts: AnswerFacts): JsonObject;
  /** Warnings of a failure outside the guest: time, memory. `budgetMs` is the handler's limit. */
  failure(cause: 'timed_out' | 'crashed', detail: string, budgetMs?: number): Warning;
}

/**
 * Judges a call that a handler asked for (member and arguments as the guest program sends them), before it is recorded
 * as called: null when it may be made. The gateway records a refusal as `host.refused` with this code. `accepted` is how
 * many calls of this member the handler run has had accepted (MW-88); omitted = 0, the guest program's count alone holds.
 */
export type CheckCall = (
  member: string,
  args: string | null,
  misfit: string | null,
  accepted?: number,
) => { readonly code: string; readonly message: string } | null;
