import type { JsonObject } from '#record';

/** Fields of `before_agent_start` that put text into a prompt. */
const promptFields: readonly string[] = [
  'systemPrompt',
  'prependContext',
  'appendContext',
  'prependSystemContext',
  'appendSystemContext',
];

/** What is left of a result under `allowPromptInjection: false`; null: nothing is (openclaw.md §5). */
export const withoutPrompts = (result: JsonObject): JsonObject | null => {
  const left = Object.entries(result).filter(([field]) => !promptFields.includes(field));
  return left.length === 0 ? null : Object.fromEntries(left);
};
