export type { Ask, Link, Said, Step, Verdict, Warning } from './chain.js';
