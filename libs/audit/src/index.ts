export type { Projection, TableName, Target } from './projection.js';
export { together } from './projection.js';
export type { Generation, Handled, ReadModelStatus } from './read-models.js';
export {
  dropReadModel,
  dropRetired,
  openGenerations,
  followerName,
  handleEvents,
  openReadModels,
  readModelStatus,
  rebuildReadModel,
} from './read-models.js';
export type { RowDifference } from './compare-tables.js';
export type { ComparedSide } from './compare-tables.js';
export { compareTables } from './compare-tables.js';
export {
  abandonLoading,
  beginLoading,
  dropAbandoned,
  endLoading,
  indexLoaded,
  liveGeneration,
  loadEvents,
  takenApart,
  whileReplaying,
} from './rebuild.js';
export type { Reading } from './reading.js';
export { openReading, ReadModelMissing } from './reading.js';
export { record } from './record.js';
export { pluginLogs } from './plugin-logs.js';
export { allReadModels } from './all-read-models.js';
export type {
  HandlerFilter,
  InvocationQuery,
  InvocationSummary,
  SearchPage,
  SearchPlace,
} from './invocation-search.js';
export { searchInvocations } from './invocation-search.js';
export type { HandlerDetail, HostCallDetail, InvocationDetail } from './invocation-detail.js';
export { invocationDetail } from './invocation-detail.js';
export type { SessionSummary, TimelineItem, TurnInvocation, TurnPlace, TurnSummary } from './turn-queries.js';
export { sessionSummary, sessionTimeline, sessionTurns, turnInvocations, turnsNamed } from './turn-queries.js';
export type { LineageNode } from './lineage.js';
export { lineageOf } from './lineage.js';
export type { Operation } from './operations.js';
export { operationsNamed, orphanOperations } from './operations.js';
export type { ReportedJob } from './host-events.js';
export { reportedJobs } from './host-events.js';
export type { CronQuery, CronRunItem, ReportedRunItem } from './cron-runs.js';
export { cronDecisions, cronNotifications, cronSources, cronStates, findCronRuns } from './cron-runs.js';
export type { ClearQuery, ReportedClearItem, SessionClearItem } from './session-clears.js';
export { clearSources, findSessionClears, hookDeliveries } from './session-clears.js';
export type { UsageGroup, UsageItem, UsageQuery } from './usage.js';
export { usageGroups, usageItems } from './usage.js';
export type { PluginHealth } from './plugin-health.js';
export { pluginHealth } from './plugin-health.js';
export type { TextMatch } from './text-search.js';
export { hasTrigramIndex, matchText, SearchTooWide, textSearch, withinSearchTime } from './text-search.js';
export { longestSearch } from './text-parts.js';
export type { AuditRead, RecordRead } from './read-recorder.js';
export { ReadRecorder } from './read-recorder.js';
export type { LiveQuery, LiveStep } from './live-events.js';
export { followAccount } from './live-events.js';
export type { Span } from './applied.js';
export { withoutPurged } from './applied.js';
export type { PartitionEnd, PartitionHandled, PartitionReached } from './partitions.js';
export {
  completePosition,
  findGap,
  handlePartition,
  joinPartitions,
  passGap,
  reachedPartitions,
  savePlaces,
} from './partitions.js';
export type { PurgedRange } from './keeping-rows.js';
export { areTogether, dropPurgedRows, forgetTexts, purgedRanges, withPurged } from './keeping-rows.js';
export type { ApprovalQuery, ApprovalState, GrantQuery, GrantUses } from './approvals.js';
export { approvalStates, findApprovals, findGrants } from './approvals.js';
