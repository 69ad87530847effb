export { emptyRoot, hashBytes, nodeHash, sameBytes } from './hashes.js';
export type { Tile, TilePlace, TileSource } from './tiles.js';
export { edgeTiles, entriesAt, tilePath, tileWidth, widthOf } from './tiles.js';
export { GrowingTree } from './growing-tree.js';
export type { ProofPlan, TreeHead } from './proofs.js';
export {
  consistencyProof,
  inclusionProof,
  leafProof,
  rootProof,
  verifyConsistency,
  verifyInclusion,
} from './proofs.js';
export type { FetchTiles } from './inclusion-walk.js';
export { InclusionWalk } from './inclusion-walk.js';
export type { NoteSigner, NoteVerifier, OpenedNote } from './signed-note.js';
export {
  noteSigner,
  noteVerifier,
  openNote,
  publicKeyOf,
  rawPublicKey,
  readVerifierKey,
  signNote,
  verifierKeyText,
} from './signed-note.js';
export type { Checkpoint, OpenedCheckpoint } from './checkpoint.js';
export { checkpointText, logKeyName, openCheckpoint, originOf, readCheckpoint, signCheckpoint } from './checkpoint.js';
export type { ReadRound, RoundAccount, SealingRound } from './sealing-round.js';
export { readRoundLine, roundLine } from './sealing-round.js';
export type { RowTagger, RowTagKey } from './row-tag.js';
export { rowTag, rowTagger, rowTagKey } from './row-tag.js';
export type {
  AccountRow,
  BlobRow,
  CheckpointRow,
  DataKeyRow,
  DataKeyState,
  EventRow,
  Hash,
  LogFacts,
  LogKeyRow,
  LogSource,
  SizeOfAccount,
  StreamRow,
  StreamStep,
  TileExtent,
  TileRow,
  TreeRow,
} from './verify/source.js';
export type { Fault, FaultCode, OnFault } from './verify/fault.js';
export { faultMeanings } from './verify/fault.js';
export type { AccountSummary } from './verify/account-walk.js';
export type { LogKey } from './verify/trusted-keys.js';
export type { CheckpointFileSummary, OutsideLine } from './verify/outside-check.js';
export { verifyCheckpointFile } from './verify/outside-check.js';
export type { DataKeyOpening, VerifyOptions, VerifyProgress, VerifySummary } from './verify/verify-log.js';
export { verifyLog } from './verify/verify-log.js';
export { TreeWalk } from './verify/tree-walk.js';
export type { LogFormat } from './log-format.js';
export { isLogFormat, logFormatMac } from './log-format.js';
export type { ExportOptions, ExportSource, ExportSummary } from './verify/export-check.js';
export { NoExport, verifyExport } from './verify/export-check.js';
