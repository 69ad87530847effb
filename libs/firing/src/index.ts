export type { Answer, HandlerAnswer, HandlerOutcomeWord, OutcomeWord, Rebuilding } from './answer.js';
export { accountHalted, answerFromEvents } from './answer.js';
export { FiringSuperseded } from './book.js';
export type { CauseClaims, LineageClaims, TokenFault, Verified } from './cause-token.js';
export { causeToken, lineageToken, verifyCause, verifyLineage } from './cause-token.js';
export type { Firing, FiringLink, FiringTools, Running } from './fire.js';
export { fire } from './fire.js';
export type { HostCallRequest, HostCalls } from './host-calls.js';
export { nobodyServes } from './host-calls.js';
