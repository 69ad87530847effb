import type { Redacted } from './redact.js';
import { redact } from './redact.js';

/**
 * Takes keys, tokens and passwords out of what a model reads on a server, out of what agents tell each other, and out
 * of what people are told. What was found is logged by name, never by value.
 */

const report = (results: readonly Redacted[]): void => {
  const counts = new Map<string, number>();
  for (const name of results.flatMap(({ found }) => found)) counts.set(name, (counts.get(name) ?? 0) + 1);
  if (counts.size === 0) return;
  host.log('warn', `redacted ${[...counts].map(([name, count]) => `${count} × ${name}`).join(', ')}`);
};

globalThis.middleware.sshCommandCompleted = ({ output, errorOutput, isTruncated }) => {
  const out = output === null ? null : redact(output, isTruncated);
  const error = errorOutput === null ? null : redact(errorOutput, isTruncated);
  report([out, error].filter((result) => result !== null));
  return { output: out?.text, errorOutput: error?.text };
};

const redactText = ({ text }: { readonly text: string }): string => {
  const result = redact(text);
  report([result]);
  return result.text;
};

globalThis.middleware.interAgentMessage = redactText;
globalThis.middleware.assistantMessageOutbound = redactText;
