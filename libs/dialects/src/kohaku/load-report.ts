import type { Json, JsonObject } from '#record';
import type { DialectRules, LoadReport } from '../dialect.js';
import { catalogue, defaultPriority } from './catalogue.js';
import { profiles } from './profiles.js';

const maxWarnings = 100;
const maxDetail = 500;

/** Reads what the guest program reported of a load, without trusting it. Total. */
export const readLoadReport = (text: string, rules?: DialectRules): LoadReport => {
  const report = parsed(text);
  const hooks = list(report.hooks).filter((name): name is string => typeof name === 'string' && catalogue.has(name));
  const warnings = list(report.warnings).slice(0, maxWarnings).flatMap(warningOf);
  const isPrompt = report.prompt === true;
  const isRejected = isPrompt && rules?.profile === profiles['2.1'].name;
  const { priority } = report;
  return {
    hooks: isRejected ? [] : [...new Set(hooks)],
    gated: [],
    warnings: isRejected ? [...warnings, { code: 'prompt_plugin_rejected', detail: rejected }] : warnings,
    registrations: {
      priority: typeof priority === 'number' && Number.isFinite(priority) ? priority : defaultPriority,
      class: typeof report.class === 'string' ? report.class.slice(0, 200) : '',
      classGiven: report.classGiven === true,
      state: report.state === true,
      prompt: isPrompt,
      ...(typeof report.pluginName === 'string' ? { pluginName: report.pluginName } : {}),
    },
  };
};

const rejected = 'upstream 2.1 loads no class that is not a lifecycle BasePlugin';

const parsed = (text: string): JsonObject => {
  try {
    const value = JSON.parse(text) as Json;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
  } catch {
    return {};
  }
};

const list = (value: Json | undefined): readonly Json[] => (Array.isArray(value) ? (value as readonly Json[]) : []);

const warningOf = (item: Json): LoadReport['warnings'] => {
  const [code, detail] = list(item);
  if (typeof code !== 'string' || !/^[a-z_]{1,40}$/.test(code)) return [];
  return [{ code, ...(typeof detail === 'string' ? { detail: detail.slice(0, maxDetail) } : {}) }];
};
