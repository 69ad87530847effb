import { asData, digestOf, type NewEvent, type RecordedEvent, type Sealed } from '#record';

/**
 * What may happen to one clear of a session (MW-90 to MW-92): pure, over the events of the clear's own stream, so that
 * a session that is cleared every day is no longer to read than one that never was.
 */
export interface SessionClear {
  /** `open`: started and not completed. */
  readonly state: 'unknown' | 'open' | 'cleared';
  readonly agentId: string | null;
  /** What the first report of its completion said; later ones change nothing. */
  readonly deleted: Deleted | null;
}

/** What a clear deleted: direct subagents and peer threads only (MW-90). */
export interface Deleted {
  readonly deletedMessageCount: number;
  readonly deletedSubagentCount: number;
  readonly deletedPeerThreadCount: number;
}

/** What is about to be deleted, and what the user typed after the command. */
export interface ClearStart {
  readonly clearId: string;
  readonly trailingText: Sealed | null;
  readonly messageCount: number;
  readonly subagentCount: number;
  readonly peerThreadCount: number;
}

export const unknownClear: SessionClear = { state: 'unknown', agentId: null, deleted: null };

/**
 * Stream of one clear. Clear ids are their session's own, and a session's name may hold anything, so the two are told
 * apart by a digest.
 */
export const clearStream = (sessionId: string, clearId: string): string =>
  `session/${sessionId}/clear/${digestOf(JSON.stringify([sessionId, clearId])).slice(0, 32)}`;

/** The clear after one of its events. */
export const evolveClear = (
  clear: SessionClear,
  { type, data, agentId }: Pick<NewEvent | RecordedEvent, 'type' | 'data' | 'agentId'>,
): SessionClear => {
  const agent = clear.agentId ?? agentId ?? null;
  if (type === 'session.cleared') return { state: 'cleared', agentId: agent, deleted: data as unknown as Deleted };
  return type === 'session.clear_started' && clear.state === 'unknown'
    ? { ...clear, state: 'open', agentId: agent }
    : clear;
};

/** `session.clear_started` for a clear that was asked for; nothing when it was asked for before. */
export const decideClearStart = (clear: SessionClear, start: ClearStart): readonly NewEvent[] =>
  clear.state === 'unknown' ? [{ type: 'session.clear_started', data: asData(start) }] : [];

/** `session.cleared` for a clear that is done; nothing when it was written before (MW-92). */
export const decideClearDone = (clear: SessionClear, clearId: string, deleted: Deleted): readonly NewEvent[] =>
  clear.state === 'cleared'
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
