export { fileCheckpoints } from './file-checkpoints.js';
export { fileOutbox } from './file-outbox.js';
