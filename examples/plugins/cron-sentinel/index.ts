/**
 * Holds scheduled missions during maintenance: a slot that falls into a window is cancelled with the window's reason,
 * every other run is told of the windows that touch its day. Windows come from the configuration; the time comes from
 * the clock of the realm, in UTC or in a fixed offset.
 */

interface Weekly {
  /** Days on which it starts: "mon" … "sun"; omitted = every day. */
  readonly days?: readonly string[];
  /** "HH:MM"; an end that is not after the start is on the next day. */
  readonly from: string;
  readonly to: string;
  readonly reason: string;
}

interface Once {
  /** RFC 3339 with an offset. */
  readonly start: string;
  readonly end: string;
  readonly reason: string;
}

interface Config {
  readonly weekly?: readonly Weekly[];
  readonly once?: readonly Once[];
  /** Minutes east of UTC in which `weekly` is meant. */
  readonly offsetMinutes?: number;
  /** Names or ids of jobs that run all the same. */
  readonly always?: readonly string[];
  /** Whether heartbeats are held as well. */
  readonly holdHeartbeats?: boolean;
}

const minute = 60_000;
const day = 24 * 60 * minute;
const dayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

const config = (host.config ?? {}) as Config;

const minutesOf = (clock: string): number => {
  const [hours = '', minutes = ''] = clock.split(':');
  return Number(hours) * 60 + Number(minutes);
};

/** When the window that starts on the day of `midnight` (local, as UTC) is open; null when none starts then. */
const windowOn = (window: Weekly, midnight: number): { from: number; to: number } | null => {
  const name = dayNames[new Date(midnight).getUTCDay()] ?? '';
  if (window.days !== undefined && !window.days.includes(name)) return null;
  const from = minutesOf(window.from);
  const to = minutesOf(window.to);
  const length = to > from ? to - from : to - from + 24 * 60;
  return { from: midnight + from * minute, to: midnight + (from + length) * minute };
};

const holdsWeekly = (window: Weekly, now: number): boolean => {
  const local = now + (config.offsetMinutes ?? 0) * minute;
  const today = Math.floor(local / day) * day;
  // A window may have started yesterday and go past midnight.
  return [today - day, today].some((midnight) => {
    const open = windowOn(window, midnight);
    return open !== null && local >= open.from && local < open.to;
  });
};

/** A window that cannot be read holds: a typing mistake must not let missions run into a maintenance. */
const holdsOnce = (window: Once, now: number): boolean => {
  const start = Date.parse(window.start);
  const end = Date.parse(window.end);
  return Number.isNaN(start) || Number.isNaN(end) || (now >= start && now < end);
};

const heldBy = (now: number): string | null =>
  config.once?.find((window) => holdsOnce(window, now))?.reason ??
  config.weekly?.find((window) => holdsWeekly(window, now))?.reason ??
  null;

globalThis.middleware.cronJobFiring = (context, tools) => {
  const { name, cronJobId, kind, prompt } = context;
  const exempt =
    (config.always ?? []).some((job) => job === name || job === cronJobId) ||
    (kind === 'heartbeat' && config.holdHeartbeats !== true);
  const reason = heldBy(Date.now());
  if (reason !== null && !exempt) {
    host.log('info', `held ${kind} "${name}" (${cronJobId}): ${reason}`);
    return tools.cancel(`maintenance: ${reason}`);
  }
  host.log('info', `firing ${kind} "${name}" (${cronJobId})`);
  if (reason === null) return prompt;
  return `${prompt}\n\n[A maintenance is under way: ${reason}. Change nothing that it touches.]`;
};

globalThis.middleware.cronJobCompleted = ({ cronJobId, cronJobRunId, status }) => {
  host.log('info', `run ${cronJobRunId} of ${cronJobId} ended: ${status}`);
};
