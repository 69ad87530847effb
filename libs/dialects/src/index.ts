export type { CheckCall, Dialect, Fault, HookEntry, HostView, LoadReport, Opening } from './dialect.js';
