import type { Json, JsonObject } from '#record';
import type { Decision, Link, Point, Said, Warning } from '#hooks';

/** A fault in what the caller sent: a JSON Pointer and the mend. */
export interface Fault {
  readonly pointer: string;
  readonly reason: string;
}

/** A hook's own arguments, checked against the catalogue. */
export type Opening =
  | {
      readonly kind: 'opened';
      /** What handlers get, JSON text: exactly the documented keys, byte for byte. */
      readonly input: string;
      /** The mutable part in the form of the answer's `value`; null where the hook has none. */
      readonly value: Json;
      readonly sessionId: string | null;
      readonly agentId: string | null;
      readonly turnId: string | null;
      /** ssh host, tool, cron job, recipient; null where there is none. */
      readonly target: string | null;
      readonly targetIsAddress: boolean;
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
}

export interface HookEntry {
  readonly name: string;
  readonly group: string;
  /** The point as the chain engine sees it. */
  readonly point: Point;
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

export interface Dialect {
  readonly name: 'middleware' | 'openclaw' | 'kohaku';
  readonly entries: ReadonlyMap<string, HookEntry>;
  /** Source of the guest program (libs/sandbox/src/guest-kit.md). */
  readonly guest: string;
  /** Bounds of `timeouts`, ms. */
  readonly timeoutBounds: { readonly min: number; readonly max: number };
  /** Fields of a firing's body that are the hook's own arguments; all others are the envelope's. */
  readonly ownFields: readonly string[];
  open(hook: string, body: JsonObject): Opening;
  hostView(hook: string, input: JsonObject, hop: number): HostView;
  /**
   * Whether a handler has a host member, by its plugin's permissions and this firing. The guest program shows no other;
   * a realm that was taken over may ask all the same, so the platform asks here.
   */
  grants(view: HostView, permissions: readonly string[], member: string): boolean;
  /** `Realm.setup`. */
  setup(plugin: { readonly permissions: readonly string[]; readonly config: Json }): string;
  /** `HandlerRun.args`. */
  args(hook: string, view: HostView): string;
  /** Reads what came out of the sandbox; `value` is the mutable part that the handler saw. Total: never throws. */
  read(
    hook: string,
    raw: string,
    value: Json,
  ): { readonly verdict: Said<Json>['verdict']; readonly warnings: readonly Warning[] };
  /** Warnings that a handler's notes hold when it failed before it was done. */
  readNotes(hook: string, notes: string): readonly Warning[];
  readReport(report: string): LoadReport;
  /**
   * Raw tags that end a chain at this hook (`HandlerRun.stopsOn`): those of a cancel, a claim; for a handler that
   * closes also those of "did not decide", `'failed'` included.
   */
  stopTags(hook: string, failureMode: 'open' | 'closed'): readonly string[];
  readonly pausingMembers: readonly string[];
  /** Longest time that the clock of one handler run can stand still, ms (MW-52: 10 x 90 s). */
  readonly pauseCeilingMs: number;
  /** The answer's `value`; absent = `decision.value`. */
  answerValue?(hook: string, decision: Decision<Link, Json>): Json;
  /** Warnings of a failure outside the guest: time, memory. */
  failure(cause: 'timed_out' | 'crashed', detail: string): Warning;
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
