export type { Dialect, Fault, HookEntry, HostView, LoadReport, Opening } from './dialect.js';
