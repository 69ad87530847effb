/** Every kind of fault with what it means, for whoever reads the report. */
const meanings = {
  'event-missing': 'Events are gone, and no recorded purge covers them.',
  'event-repeated': 'Two rows claim one position.',
  'position-changed': 'A row stands at another position than it was recorded at.',
  'event-unreadable': 'The stored bytes are no event.',
  'bytes-changed': 'The stored bytes are not those that were recorded.',
  'leaf-changed': 'The leaf hash beside the bytes was changed; the bytes are as recorded.',
  'tag-changed': 'The tag of the row was changed; the bytes are as recorded.',
  'tag-missing': 'The row has no tag, though rows had tags when it was written.',
  'column-changed': 'An index column does not say what the stored bytes say.',
  'changed-after-sealing':
    'Another event was sealed at this position: the row was replaced, with its hashes made anew.',
  forged: 'The row was not written by the gateway: its tag is of another key, account, position or content.',
  'out-of-order': 'The global position is not above that of the event before.',
  'position-missing': 'Rows of the whole log are gone, or were given other global positions.',
  'position-repeated': 'Two rows claim one global position.',
  'head-changed': 'The head row does not say where the log ends.',
  'account-head-changed': 'The head row of the account does not say how many events it has.',
  'stream-changed': 'The row of a stream does not say where the stream ends.',
  'stream-missing': 'There are events of a stream, and no row of it.',
  'stream-gap': 'A stream lacks versions.',
  'stream-repeated': 'A stream has a version twice.',
  'format-changed': 'The log’s own facts were changed: its id, or since which row there are tags.',
  'tree-changed': 'What is noted of how far the log is sealed does not fit its tiles and checkpoints.',
  'sealing-refused': 'The sealer found a row that is not right, and seals nothing from there on.',
  'tile-changed': 'A hash in a tile is not the one of what it stands for.',
  'tile-missing': 'Hashes of sealed events are not in the tiles.',
  'tile-unexpected': 'A tile holds more than was sealed.',
  'checkpoint-changed': 'A checkpoint’s columns do not say what its signed note says.',
  'checkpoint-missing': 'A checkpoint that was given out is not in the database.',
  'checkpoint-unreadable': 'A checkpoint’s note is none, or of another log or account.',
  'checkpoint-unsigned': 'No known key of the log signed a checkpoint.',
  'checkpoint-key': 'The key that signed a checkpoint was not in force at that time.',
  'checkpoint-root': 'A signed checkpoint does not fit the log: what is here now is not what was sealed.',
  'log-truncated': 'A signed checkpoint covers more events than there are: the end of the log is gone.',
  'log-key-changed': 'A log key is not what the events say that put it in force, or not among those that were given.',
  'blob-changed': 'A blob is not what its hash says.',
  'blob-missing': 'An event names a blob that is not there, and no erasure covers it.',
  'blob-key-changed': 'The row of a blob names another data key than the event that names the blob.',
  'key-missing': 'An event names a data key that is not there.',
  'key-changed': 'A data key does not open under the master key: its row was changed.',
  'key-of-another': 'An event names a data key of another account.',
  'erasure-unrecorded': 'A data key was destroyed, and no event says so.',
  'erasure-undone': 'A data key that was destroyed on record is there again.',
  'purge-differs': 'The record of a purge does not fit what is missing.',
  'outside-unreadable': 'A line of the checkpoint file cannot be read.',
  'outside-unsigned': 'No known key of the log signed a line of the checkpoint file.',
  'outside-shrinks': 'The checkpoint file contradicts itself: an account shrank, vanished or changed at one size.',
  'outside-ahead':
    'The checkpoint file covers more events than there are: an older copy was restored, or the end is gone.',
  'outside-differs': 'The log is not the one that the checkpoint file is of: it was rewritten.',
  'account-vanished': 'An account that was sealed or noted before is not there.',
  'proof-wrong': 'An event’s inclusion proof does not lead to the checkpoint.',
  'consistency-wrong': 'Two checkpoints are not of one log.',
  'file-changed': 'A file of the export is not the one that its manifest names.',
  'manifest-wrong': 'The manifest of the export does not say what its files hold.',
} as const;

/** The kinds of faults. */
export type FaultCode = keyof typeof meanings;

/** Every code, with what it means. */
export const faultMeanings: Readonly<Record<FaultCode, string>> = meanings;

/** Something that is not as it was recorded. */
export interface Fault {
  readonly code: FaultCode;
  /** Null where it is of the log as a whole. */
  readonly account: string | null;
  /** The account position it is at; of a range the first. Null where it has none. */
  readonly position: number | null;
  /** The last position of a range; absent where it is one. */
  readonly last?: number;
  /** What is not right: a table and column, a stream, a hash, a key id. Never content. */
  readonly at: string;
  /** What was found, in a sentence. */
  readonly found: string;
}

/** Takes faults as they are found. */
export type OnFault = (fault: Fault) => void;
