import { runInNewContext } from 'node:vm';
import {
  blockMessage,
  capDetails,
  drainInjections,
  enqueueInjection,
  extensionFault,
  filterExecEnv,
  judgeHook,
  openclawHooks,
  openclawProfiles,
  operatorBounds,
  policyFault,
  timeoutFor,
  withoutPrompts,
} from '#dialects';
import type {
  CaseVersion,
  ExtensionClaim,
  HookGates,
  InjectionQueue,
  OpenClawCase,
  OpenClawSeen,
  OperatorTimeouts,
  Origin,
} from '#dialects';
import type { Json, JsonObject } from '#record';

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

const injected = (steps: readonly JsonObject[]): OpenClawSeen => {
  let queue: InjectionQueue = [];
  let made = 0;
  const enqueue = (step: JsonObject, injection: JsonObject): { readonly enqueued: boolean; readonly id: string } => {
    const key = injection.sessionKey ?? session;
    if (typeof key !== 'string' || key.trim() !== session) return { enqueued: false, id: '' };
    const now = Number(step.at ?? 0);
    const result = enqueueInjection(queue, word(step.pluginId), injection, {
      now,
      newId: () => `id-${String((made += 1))}`,
    });
    queue = result.queue;
    return { enqueued: result.enqueued, id: result.id };
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
      case 'drain': {
        const drained = drainInjections(queue, Number(step.at ?? 0), (plugin) => heard.includes(plugin));
        queue = [];
        const { injections, ...context } = drained;
        return {
          texts: injections.map(({ pluginId, text }) => `${pluginId}:${text}`),
          count: injections.length,
          ...context,
        };
      }
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
