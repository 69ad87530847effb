import { hookFacts, type Dialects, type HookFacts } from './generated/hooks.js';
import { isObject, type Json, type JsonObject } from './json.js';

/** Every hook that there is: `middleware/systemPrompt`, `openclaw/before_tool_call`, … */
export type HookName = {
  readonly [D in keyof Dialects]: `${D}/${Extract<keyof Dialects[D], string>}`;
}[keyof Dialects];

/** The catalogue's entry of a hook. */
export type HookOf<H extends HookName> = H extends `${infer D extends keyof Dialects}/${infer N}`
  ? N extends keyof Dialects[D]
    ? Extract<Dialects[D][N], Entry>
    : never
  : never;

interface Entry {
  readonly args: object;
  readonly value: unknown;
  readonly cancels: boolean;
}

/** What a firing says beside the hook's own arguments. */
export interface Envelope {
  /** Omitted: one is assigned per session, and the answer says so. */
  readonly turnId?: string | null;
  /** Omitted: taken from the hook's own arguments. */
  readonly sessionId?: string | null;
  readonly agentId?: string | null;
  /** Joins the hooks before and after one operation. */
  readonly operationId?: string | null;
  readonly correlationId?: string | null;
  /** The caller's clock, RFC 3339. */
  readonly occurredAt?: string | null;
  /** The token that came with the host call which led to this operation. */
  readonly cause?: string | null;
  /** The token of an earlier answer that this descends from through a model turn. */
  readonly lineage?: string | null;
  /** An earlier invocation whose chain is to be used. */
  readonly chainOf?: string | null;
  /** Whose data this is: the scope under which the content can be erased. */
  readonly dataSubject?: string | null;
}

/** What a hook is fired with. */
export type FireArgs<H extends HookName> = Envelope & HookOf<H>['args'];

/** The answer's value of a hook. */
export type Value<H extends HookName> = HookOf<H>['value'];

export interface Cancellation {
  readonly pluginId: string | null;
  /** Null where none was given, or where the dialect keeps it back. */
  readonly reason: string | null;
  readonly code: string | null;
}

/** Whether a tool call may go on, after policies, handlers and approvals. */
export interface Gate {
  readonly blocked: boolean;
  readonly kind: 'veto' | 'failure' | 'held' | null;
  readonly reason: string | null;
  /** What the tool is called with. */
  readonly params: Json;
  readonly deniedReason?: string;
  readonly approvalResolution?: string;
}

export interface HandlerRun {
  readonly pluginId: string;
  readonly pluginVersion: string;
  readonly revision: number;
  readonly outcome:
    'passed' | 'rewrote' | 'cancelled' | 'observed' | 'claimed' | 'held' | 'contributed' | 'skipped' | 'not_run';
  /** `skipped` and `not_run`: why. */
  readonly cause?: string;
  /** Mode `observe`: the outcome it would have had. */
  readonly wouldHave?: string;
  readonly durationMs: number;
  readonly warnings: readonly { readonly code: string; readonly detail: string | null }[];
}

/** What the server made of a firing. Every event of it was committed before it was answered. */
export interface RecordedAnswer<H extends HookName> {
  readonly decidedAlone: false;
  readonly hookName: H;
  readonly invocationId: string;
  readonly dialect: string;
  readonly hook: string;
  readonly turnId: string;
  readonly turnInferred: boolean;
  readonly hop: number;
  readonly hostSession: 'granted' | 'withheld' | 'absent';
  readonly metered: boolean;
  readonly attempt: number;
  readonly previousInvocationId?: string;
  /** Give it to what descends from this through a model turn. */
  readonly lineage: string;
  readonly handlers: readonly HandlerRun[];
  readonly positions: { readonly first: string; readonly last: string };
  /** A later opening of the same server in the same turn: the first answer. */
  readonly repeated?: boolean;
}

/** What this client decided while the server could not be reached. It is reported when the server is back. */
export interface LocalAnswer<H extends HookName> {
  readonly decidedAlone: true;
  readonly hookName: H;
  readonly dialect: string;
  readonly hook: string;
  /** The report in the outbox. */
  readonly reportId: string;
  /** The invocation, where the server had taken the firing before it went away; its chain may have run, or run yet. */
  readonly invocationId: string | null;
  readonly lineage: null;
}

/** What an answer says of the operation. */
export type Decision<H extends HookName> = Decided<H> | Cancelled<H> | Held<H>;

interface Decided<H extends HookName> {
  readonly outcome: 'passed' | 'rewritten' | 'observed' | 'claimed';
  readonly held: false;
  /** Whether the operation goes on. A tool call goes on with `gate.params`, others with `value`. */
  readonly proceed: boolean;
  readonly value: Value<H>;
  readonly cancellation: null;
}

type Cancelled<H extends HookName> = HookOf<H>['cancels'] extends true
  ? {
      readonly outcome: 'cancelled';
      readonly held: false;
      readonly proceed: false;
      /** Middleware: null. OpenClaw: the merged result, where there is one. */
      readonly value: Value<H> | null;
      readonly cancellation: Cancellation;
    }
  : never;

type Held<H extends HookName> = H extends `openclaw/${string}`
  ? {
      readonly outcome: 'held';
      readonly held: true;
      readonly proceed: false;
      readonly value: Value<H> | null;
      readonly approvalId: string;
      readonly cancellation: Cancellation | null;
    }
  : never;

type More<H extends HookName> = HookOf<H> extends { readonly more: infer M } ? M : unknown;

/** The answer to a firing, typed by its hook: narrow it by `outcome`, or by `held` and `proceed`. */
export type Answer<H extends HookName = HookName> = H extends HookName
  ? (RecordedAnswer<H> | LocalAnswer<H>) & Decision<H> & More<H>
  : never;

/** The dialect and the name in `dialect/name`. */
export const splitHook = (hook: string): { readonly dialect: string; readonly name: string } => {
  const slash = hook.indexOf('/');
  if (slash < 1) throw new TypeError(`a hook is named dialect/hook, as middleware/systemPrompt; ${hook} is not`);
  return { dialect: hook.slice(0, slash), name: hook.slice(slash + 1) };
};

/** The server's answer with what this client adds to it. */
export const readAnswer = <H extends HookName>(hookName: H, body: unknown): Answer<H> => {
  const told = body as JsonObject;
  const held = told.outcome === 'held';
  return { ...told, decidedAlone: false, hookName, held, proceed: proceeds(told) } as unknown as Answer<H>;
};

const proceeds = ({ outcome, gate, suppressed }: JsonObject): boolean => {
  if (outcome === 'cancelled' || outcome === 'held') return false;
  if (isObject(gate)) return gate.blocked !== true;
  return suppressed === undefined;
};

/** How a client decides when nobody can be asked. */
export type DecidedAs = 'open' | 'closed';

/** The answer that a client gives itself. A hook whose operation cannot be cancelled passes either way. */
export const localAnswer = <H extends HookName>(
  hookName: H,
  args: JsonObject,
  decided: DecidedAs,
  facts: { readonly reportId: string; readonly invocationId: string | null },
): Answer<H> => {
  const { dialect, name } = splitHook(hookName);
  const hook = hookFacts[dialect]?.[name] ?? { cancels: true };
  const base = { decidedAlone: true, hookName, dialect, hook: name, ...facts, lineage: null, held: false } as const;
  const cancelled = decided === 'closed' && hook.cancels;
  const reason = cancelled ? 'Hookledger could not be reached' : null;
  const more = name === 'before_tool_call' ? { gate: localGate(args, reason) } : {};
  const decision = cancelled
    ? {
        outcome: 'cancelled',
        proceed: false,
        value: null,
        cancellation: { pluginId: null, reason, code: 'unreachable' },
      }
    : { outcome: 'passed', proceed: true, value: localValue(args, hook), cancellation: null };
  return { ...base, ...decision, ...more } as unknown as Answer<H>;
};

const localGate = ({ event }: JsonObject, reason: string | null): Gate => ({
  blocked: reason !== null,
  kind: reason === null ? null : 'failure',
  reason,
  params: isObject(event) ? (event.params ?? null) : null,
});

const localValue = (args: JsonObject, { from, value = null }: HookFacts): Json => {
  if (from === undefined) return value;
  const [argument, ...fields] = from;
  const given = args[argument];
  const object = isObject(given) ? given : {};
  const [only] = fields;
  if (only !== undefined && fields.length === 1) return object[only] ?? null;
  return Object.fromEntries(fields.map((name) => [name, object[name] ?? null]));
};
