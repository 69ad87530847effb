export type {
  ConsumedMessage,
  GroupBatch,
  GroupMember,
  GroupOptions,
  Kafka,
  OutgoingMessage,
  PartitionOffsets,
  ProducedTopic,
  Producer,
  ReadTopicOptions,
  TopicPolicy,
  Topics,
  TopicSpec,
  TopicState,
} from './port.js';
export { KafkaFailure } from './port.js';
export type {
  BlobHead,
  CheckpointRecord,
  DataKeyRecord,
  DecodedBlobPart,
  DecodedCheckpoint,
  DecodedEvent,
  DecodedKey,
  EncodeOptions,
  EventRecord,
  LogKeyRecord,
} from './messages.js';
export {
  blobTombstones,
  dataKeyTombstone,
  decodeBlobPart,
  decodeCheckpoint,
  decodeEvent,
  decodeKey,
  encodeBlob,
  encodeCheckpoint,
  encodeDataKey,
  encodeEvent,
  encodeLogKey,
  eventKey,
  eventRecord,
  eventSource,
  messageSize,
  withBytes,
} from './messages.js';
export { partitionOf } from './partitions.js';
export type { TopicNames } from './topic-names.js';
export { topicNames } from './topic-names.js';
export type { KafkaSettings } from './kafkajs-connections.js';
export { openKafka } from './kafkajs-client.js';
export type { Gap, Merge, MergedEvent, MergeOptions, TopicPlaces } from './merge.js';
export { lowerPlace, mergeTopics } from './merge.js';
export type { WholeBlob } from './blob-reading.js';
export { BlobParts, findBlob } from './blob-reading.js';
export type { LeavesRecord } from './leaves.js';
export { decodeLeaves, encodeLeaves } from './leaves.js';
