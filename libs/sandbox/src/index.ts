export type {
  CallAnswer,
  ChainRun,
  GuestCall,
  HandlerOutcome,
  HandlerRun,
  LoadOutcome,
  Realm,
  RunningChain,
  Sandbox,
  SandboxHealth,
  SandboxOptions,
} from './sandbox.js';
export { startSandbox } from './start-sandbox.js';
