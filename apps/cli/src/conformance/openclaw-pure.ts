import { runInNewContext } from 'node:vm';
import {
  blockMessage,
  capDetails,
  extensionFault,
  filterExecEnv,
  injectedContext,
  judgeHook,
  openclawHooks,
  openclawProfiles,
  operatorBounds,
  policyFault,
  readInjection,
  timeoutFor,
  withoutPrompts,
} from '#dialects';
import type {
  CaseVersion,
  ExtensionClaim,
  HookGates,
  InjectionAsked,
  OpenClawCase,
  OpenClawSeen,
  OperatorTimeouts,
  Origin,
} from '#dialects';
import { decideDrain, decideEnqueue, emptyQueue, evolveQueue, type InjectionQueue } from '#lifecycles';
import { digestOf, type Json, type JsonObject, type NewEvent } from '#record';

/** What a case of a level that runs no chain comes to; null: its level runs one. */
export const seenWithoutChain = (one: OpenClawCase, version: CaseVersion): OpenClawSeen | null => {
  switch (one.level) {
    case 'exec-env-filter':
      return { result: filterExecEnv((one.event.env ?? {}) as JsonObject, version).env };
    case 'details-cap':
      return { result: projected(one, capDetails(detailsOf(one), version)) };
    case 'block-message':
      return { result: messageOf(one.event) };
    case 'legacy-strip':
      return stripped((one.event.result ?? {}) as JsonObject);
    case 'next-turn-injection':
      return injected(one.steps);
    case 'registration':
      return registered(one.setup, version);
    default:
      return null;
  }
};

/** Case files bring bodies of functions; they are the runner's own input, evaluated apart from its scope. */
const evaluated = (body: string, names: JsonObject = {}): Json =>
  JSON.parse(
    String(
      runInNewContext(
        `JSON.stringify((function (${Object.keys(names).join(', ')}) { ${body} })(${Object.keys(names).join(', ')}) ?? null)`,
        names,
        { timeout: 5000 },
      ),
    ),
  ) as Json;

const detailsOf = ({ event }: OpenClawCase): Json =>
  typeof event.generate === 'string' ? evaluated(event.generate) : (event.details ?? null);

const projected = ({ project }: OpenClawCase, r: Json): Json => (project === null ? r : evaluated(project, { r }));

const messageOf = (event: JsonObject): string => {
  const decision = (event.decision ?? event) as JsonObject;
  const blockedBy = event.blockedBy ?? event.pluginId ?? decision.blockedBy;
  return blockMessage(
    typeof decision.message === 'string' ? decision.message : null,
    typeof blockedBy === 'string' ? blockedBy : null,
  );
};

const stripped = (result: JsonObject): OpenClawSeen => {
  const left = withoutPrompts(result);
  return left === null ? { noResult: true } : { noResult: false, result: left };
};

const word = (value: Json | undefined): string => (typeof value === 'string' ? value : JSON.stringify(value ?? null));

const session = 'agent:main:main';
/** Plugins of the steps: the others are not loaded, or may not inject. */
const heard: readonly string[] = ['p1', 'p2'];

/** The queue of one session, as the platform keeps it, with its content in the clear. */
const injected = (steps: readonly JsonObject[]): OpenClawSeen => {
  let queue: InjectionQueue<InjectionAsked> = emptyQueue;
  let made = 0;
  const record = (events: readonly NewEvent[]): void => {
    queue = events.reduce((before, event) => evolveQueue(before, event), queue);
  };
  const enqueue = (step: JsonObject, asked: JsonObject): { readonly enqueued: boolean; readonly id: string } => {
    const key = asked.sessionKey ?? session;
    if (typeof key !== 'string' || key.trim() !== session) return { enqueued: false, id: '' };
    const read = readInjection(asked);
    if (read.kind === 'faulty') return { enqueued: false, id: '' };
    const { idempotencyKey, placement, ttlMs } = read.injection;
    const now = new Date(Number(step.at ?? 0));
    const wanted = {
      injectionId: idempotencyKey ?? `id-${String((made += 1))}`,
      pluginId: word(step.pluginId),
      keyDigest: idempotencyKey === null ? null : digestOf(idempotencyKey),
      placement,
      ttlMs,
      createdAt: now.toISOString(),
      content: read.injection,
    };
    const { kind, injectionId, events } = decideEnqueue(queue, wanted, now);
    record(events);
    return { enqueued: kind === 'enqueued', id: injectionId };
  };
  const drain = (step: JsonObject): Json => {
    const { events, injections } = decideDrain(queue, {
      by: 'runtime',
      run: null,
      invocationId: null,
      now: new Date(Number(step.at ?? 0)),
      lost: ({ pluginId }) => (heard.includes(pluginId) ? null : 'not_loaded'),
    });
    record(events);
    return {
      texts: injections.map(({ pluginId, content }) => `${pluginId}:${content.text}`),
      count: injections.length,
      ...injectedContext(injections.map(({ content }) => content)),
    };
  };
  return steps.map((step): Json => {
    switch (step.op) {
      case 'enqueue':
        return enqueue(step, (step.injection ?? {}) as JsonObject);
      case 'enqueueMany': {
        const tries = Array.from({ length: Number(step.count) }, (_, index) =>
          enqueue(step, { text: `text ${String(index)}` }),
        );
        return { accepted: tries.filter(({ enqueued }) => enqueued).length };
      }
      case 'drain':
        return drain(step);
      default:
        throw new Error(`the step ${JSON.stringify(step.op)} is not known here`);
    }
  });
};

const originOf = (setup: JsonObject): Origin => (setup.origin === 'bundled' ? 'bundled' : 'installed');

const registered = (setup: JsonObject, version: CaseVersion): OpenClawSeen => {
  if (setup.config !== undefined) return { ...operatorBounds };
  if (setup.policyId !== undefined) return policies(setup);
  if (setup.extensions !== undefined) return extensions(setup.extensions as unknown as readonly JsonObject[]);
  if (setup.variants !== undefined) return timeouts(setup, version);
  const gates = (setup.hookPolicy ?? {}) as HookGates;
  const names = (setup.names ?? openclawHooks.filter((name) => isIn(name, version))) as readonly string[];
  const judged = names.map((name) =>
    judgeHook(name, { profile: openclawProfiles[version], gates, origin: originOf(setup) }),
  );
  const isWarned = (one: (typeof judged)[number]): boolean =>
    one.kind !== 'registered' || one.deprecated || one.constrained;
  return {
    registered: judged.flatMap((one) => (one.kind === 'registered' ? [one.hook] : [])),
    refused: judged.flatMap((one) => (one.kind === 'refused' ? [one.hook] : [])),
    constrained: judged.flatMap((one) => (one.kind === 'registered' && one.constrained ? [one.hook] : [])),
    warnings: judged.filter(isWarned).length,
  };
};

const isIn = (name: string, version: CaseVersion): boolean =>
  judgeHook(name, { profile: openclawProfiles[version], gates: {}, origin: 'bundled' }).kind !== 'unknown';

const policies = (setup: JsonObject): JsonObject => {
  const claim = {
    id: word(setup.policyId),
    declared: (setup.declared ?? []) as readonly string[],
    origin: originOf(setup),
    enabled: setup.explicitlyEnabled !== false,
  };
  const taken: string[] = [];
  let errors = 0;
  for (let round = 0; round < (setup.twice === true ? 2 : 1); round += 1) {
    if (policyFault(claim, taken) === null) taken.push(claim.id);
    else errors += 1;
  }
  return { registered: taken, errors };
};

const extensions = (asked: readonly JsonObject[]): JsonObject => {
  const taken: ExtensionClaim[] = [];
  let errors = 0;
  for (const one of asked) {
    const claim = {
      namespace: typeof one.namespace === 'string' ? one.namespace : '',
      description: typeof one.description === 'string' ? one.description : '',
      project: one.project === 'async' ? 'async' : one.project === undefined ? 'absent' : 'function',
      cleanup: 'absent',
      ...(typeof one.sessionEntrySlotKey === 'string' ? { sessionEntrySlotKey: one.sessionEntrySlotKey } : {}),
    } as const;
    if (extensionFault(claim, taken) === null) taken.push(claim);
    else errors += 1;
  }
  return { registered: taken.map(({ namespace }) => namespace.trim()), errors };
};

const timeouts = (setup: JsonObject, version: CaseVersion): JsonObject => ({
  timeouts: (setup.variants as unknown as readonly OperatorTimeouts[]).map((operator) =>
    timeoutFor(word(setup.hook), operator, setup.pluginTimeoutMs, openclawProfiles[version]),
  ),
});
