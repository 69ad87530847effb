import type { EventType } from '#record';

/** The classes of events that have a retention of their own: the rows of events.md §2. */
export const eventClasses = ['invocation', 'plugin', 'session', 'cron', 'approval', 'account', 'instance'] as const;

export type EventClass = (typeof eventClasses)[number];

const invocationTypes = /^(?:invocation|handler|host)\.|^(?:session\.withheld|effect\.reported)$/u;

const listed: { readonly [name in Exclude<EventClass, 'invocation'>]: readonly EventType[] } = {
  plugin: ['plugin.tried', 'plugin.load_failed', 'plugin.instance_started', 'plugin.tripped'],
  session: [
    'session.clear_started',
    'session.cleared',
    'injection.enqueued',
    'injection.drained',
    'injection.expired',
    'injection.dropped',
    'extension.cleanup_called',
  ],
  cron: [],
  approval: [],
  account: ['audit.read', 'export.created', 'replay.started', 'replay.finished', 'alarm.raised'],
  instance: ['instance.started', 'instance.heartbeat'],
};

/** What is in force is read off these, however old they are. */
const inForce: readonly EventType[] = ['cron.job_declared', 'approval.grant_created', 'approval.grant_revoked'];

/**
 * The class whose retention an event's type has; null: it is never purged, since something in force is read off it, or
 * it says what was removed, held or set. The database's `event_class` says the same.
 */
export const classOf = (type: EventType): EventClass | null => {
  if (invocationTypes.test(type)) return 'invocation';
  if (inForce.includes(type)) return null;
  if (type.startsWith('cron.')) return 'cron';
  if (type.startsWith('approval.')) return 'approval';
  return eventClasses.find((name) => name !== 'invocation' && listed[name].includes(type)) ?? null;
};

/**
 * Classes whose streams live on, and are written to by the version of their newest event: that one stays, whatever its
 * age.
 */
export const newestStays = (name: EventClass): boolean => name === 'plugin' || name === 'account';
