import type { Version } from './catalogue.js';

/** Which of the three ways of following OpenClaw (openclaw.md §22). */
export type ProfileName = 'documented' | '2026.7' | '2026.9';

/** What a profile means, said once: everything else asks these fields and no profile's name. */
export interface Profile {
  readonly name: ProfileName;
  /** Whose runner is followed. */
  readonly version: Version;
  /** Every handler finds `event.context.pluginConfig`. */
  readonly injectsConfig: boolean;
  /** Content that `message_sending` rewrote is what the next handler sees. */
  readonly chainsContent: boolean;
  /** Most bytes of a cancellation's metadata as JSON text; null: no bound. */
  readonly maxMetadataBytes: number | null;
  /** `jobId` of a tool's context reaches the handlers. */
  readonly toolJobId: boolean;
  /** Time limits that a plugin wrote itself are bounded as an operator's are. */
  readonly boundsOwnTimeouts: boolean;
  /** The account's `approvalGrants` and `strictApprovals` count. */
  readonly followsApprovalSettings: boolean;
}

const exact = {
  injectsConfig: false,
  chainsContent: false,
  maxMetadataBytes: null,
  toolJobId: false,
  boundsOwnTimeouts: false,
  followsApprovalSettings: false,
} as const;

/** The profiles by name; `documented` is what an account has that says nothing. */
export const profiles: { readonly [name in ProfileName]: Profile } = {
  documented: {
    name: 'documented',
    version: '2026.7',
    injectsConfig: true,
    chainsContent: true,
    maxMetadataBytes: 16 * 1024,
    toolJobId: true,
    boundsOwnTimeouts: true,
    followsApprovalSettings: true,
  },
  '2026.7': { ...exact, name: '2026.7', version: '2026.7' },
  '2026.9': { ...exact, name: '2026.9', version: '2026.9' },
};

/** Whose failure policy holds: the host's, or that of the library by itself, in which one hook alone fails closed. */
export type FailurePolicy = 'host' | 'library';

/** Most that any limit of ours lets a handler have where the real runner sets none, ms. */
export const longestMs = 600_000;
/** Most that a timer of the real runner holds, ms. */
export const timerCeilingMs = 2_147_000_000;
