import type { NewEvent } from '#record';

/**
 * The clears of one session (MW-90 to MW-92): pure, over the events of the session's stream. `session.cleared` is
 * written once per clear, keyed by the clear's id, however often its completion is reported.
 */
export interface SessionClears {
  readonly clears: ReadonlyMap<string, 'started' | 'cleared'>;
}

export const noClears: SessionClears = { clears: new Map() };

/** Stream of one session. */
export const sessionStream = (sessionId: string): string => `session/${sessionId}`;

/** What a completed clear deleted: direct subagents and peer threads only (MW-90). */
export interface Deleted {
  readonly deletedMessageCount: number;
  readonly deletedSubagentCount: number;
  readonly deletedPeerThreadCount: number;
}

/** The session's clears after one of its events. */
export const evolveClears = (state: SessionClears, { type, data }: Pick<NewEvent, 'type' | 'data'>): SessionClears => {
  const { clearId } = data as { readonly clearId?: string };
  if (clearId === undefined) return state;
  if (type === 'session.cleared') return { clears: new Map(state.clears).set(clearId, 'cleared') };
  if (type !== 'session.clear_started' || state.clears.has(clearId)) return state;
  return { clears: new Map(state.clears).set(clearId, 'started') };
};

/** `session.clear_started` for a clear that was asked for; nothing when it was asked for before. */
export const decideClearStart = (state: SessionClears, clearId: string): readonly NewEvent[] =>
  state.clears.has(clearId) ? [] : [{ type: 'session.clear_started', data: { clearId } }];

/** `session.cleared` for a clear that is done; nothing when it was written before. The hooks fire either way (MW-91). */
export const decideClearDone = (state: SessionClears, clearId: string, deleted: Deleted): readonly NewEvent[] =>
  state.clears.get(clearId) === 'cleared'
    ? []
    : [
        {
          type: 'session.cleared',
          data: {
            clearId,
            deletedMessageCount: deleted.deletedMessageCount,
            deletedSubagentCount: deleted.deletedSubagentCount,
            deletedPeerThreadCount: deleted.deletedPeerThreadCount,
          },
        },
      ];
