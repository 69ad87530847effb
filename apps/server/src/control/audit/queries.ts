import { longestSearch, usageGroups, type UsageGroup } from '#audit';
import {
  pagingFields,
  queryId,
  queryMaybeInt,
  queryPosition,
  queryText,
  queryWord,
  rangeFields,
  type QueryField,
} from '#platform';
import { eventTypes, type EventType } from '#record';

const outcomes = ['passed', 'rewritten', 'cancelled', 'observed', 'claimed', 'held', 'lost'] as const;
const handlerOutcomes = [
  'passed',
  'rewrote',
  'cancelled',
  'observed',
  'claimed',
  'held',
  'skipped',
  'not_run',
] as const;
const causes = ['threw', 'timed_out', 'malformed', 'crashed', 'not_loaded', 'not_applicable', 'after_cancel'] as const;

export const orderField = queryWord('Newest or oldest first.', ['newest', 'oldest'], 'newest');

/** What is looked for in texts. */
const searchText: QueryField<string | null> = {
  ...queryText(
    'Text within reasons, warnings and content, without case. For keys with `content: full`.',
    longestSearch,
  ),
  schema: { type: 'string', minLength: 1, maxLength: longestSearch },
  read: (text) =>
    text.length >= 1 && text.length <= longestSearch
      ? { value: text }
      : { reason: `must have 1 to ${longestSearch} characters` },
};

/** Filters of `GET …/invocations` (api.md). */
export const searchFields = {
  dialect: queryWord('The dialect.', ['middleware', 'openclaw', 'kohaku'], null),
  hook: queryText('The hook.', 200),
  pluginId: queryId('A plugin in whose run the other handler filters hold.'),
  pluginVersion: queryText('A version of a plugin that ran.', 200),
  outcome: queryWord('How the invocation ended.', outcomes, null),
  handlerOutcome: queryWord('How a handler ended.', handlerOutcomes, null),
  cause: queryWord('Why a handler did not decide, or did not run.', causes, null),
  reasonCode: queryText('A code of the cancellation, of a handler, or of a refused host call.', 200),
  agentId: queryId('The agent.'),
  sessionId: queryId('The session.'),
  turnId: queryId('The turn.'),
  correlationId: queryId('The correlation.'),
  operationId: queryId('The operation.'),
  root: queryId('The invocation that everything began with.'),
  dataSubject: queryId('Whose data it is, as the runtime named them.'),
  actor: queryId('The key that fired, or the person behind it.'),
  target: queryText('SSH host, tool, cron job or recipient.'),
  hop: queryMaybeInt('Hops from the original event.', { least: 0, most: 1_000_000 }),
  effect: queryWord('What became of the answer.', ['applied', 'not_applied', 'different', 'unknown'], null),
  clock: queryWord('The clock that `from`, `to` and the order go by.', ['occurred', 'recorded'], 'occurred'),
  text: searchText,
  order: orderField,
  ...rangeFields,
  ...pagingFields,
} as const;

export const turnFields = {
  sessionId: queryId('Only in this session.'),
  ...pagingFields,
} as const;

export const sessionTurnFields = { order: orderField, ...rangeFields, ...pagingFields } as const;

export const timelineFields = { order: orderField, ...pagingFields } as const;

export const lineageFields = pagingFields;

export const orphanFields = {
  side: queryWord('Which side is missing.', ['no_after', 'no_before', 'any'], 'any'),
  order: orderField,
  ...rangeFields,
  ...pagingFields,
} as const;

/** A list of event types; `plugin.*` means all that begin so. */
const typesField: QueryField<readonly EventType[] | null> = {
  absent: null,
  description: 'Event types, with commas between; `plugin.*` means all that begin so.',
  schema: { type: 'string' },
  read: (text) => {
    const found: EventType[] = [];
    for (const word of text.split(',')) {
      const prefix = word.endsWith('.*') ? word.slice(0, -1) : null;
      const types = eventTypes.filter((type) => (prefix === null ? type === word : type.startsWith(prefix)));
      if (types.length === 0) return { reason: `"${word.slice(0, 80)}" is no event type` };
      found.push(...types);
    }
    return { value: [...new Set(found)] };
  },
};

const eventFilterFields = {
  type: typesField,
  sessionId: queryId('Only events of this session.'),
  stream: queryText('Only events of this stream, such as `invocation/{id}`.', 500),
  content: queryWord('`open`: sealed values opened, for keys with `content: full`.', ['open', 'sealed'], 'sealed'),
} as const;

export const eventFields = {
  after: queryPosition('Events after this position.'),
  until: queryPosition('Events up to and with this position.'),
  ...eventFilterFields,
  ...pagingFields,
} as const;

export const streamFields = {
  after: queryPosition('Begin after this position. `Last-Event-ID` counts before it; without either: from now on.'),
  ...eventFilterFields,
} as const;

const groupsField: QueryField<readonly UsageGroup[]> = {
  absent: ['day', 'pluginId', 'hook'],
  description: `By what the runs are summed: ${usageGroups.join(', ')}, with commas between.`,
  schema: { type: 'string', default: 'day,pluginId,hook' },
  read: (text) => {
    const words = text.split(',');
    const unknown = words.find((word) => !(usageGroups as readonly string[]).includes(word));
    if (unknown !== undefined) return { reason: `"${unknown.slice(0, 80)}" is not among ${usageGroups.join(', ')}` };
    return { value: [...new Set(words)] as readonly UsageGroup[] };
  },
};

export const usageFields = {
  pluginId: queryId('Only this plugin.'),
  dialect: searchFields.dialect,
  hook: searchFields.hook,
  groupBy: groupsField,
  ...rangeFields,
  ...pagingFields,
} as const;
