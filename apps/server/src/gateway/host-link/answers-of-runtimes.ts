import type { HostAnswer } from '#firing';
import type { Json, JsonObject } from '#record';

/** Longest time that a runtime has for a call, ms; `ssh.command` brings its own, at most 90 s (MW-89). */
const ordinaryMs = 60_000;

/** What a runtime has beyond a command's own time, to kill it and say so, ms. */
const graceMs = 2_000;

/** Most bytes of each stream of a command that a plugin is given (MW-87). */
const maxStream = 1024 * 1024;

/** How long the answer to a call is waited for, ms. */
export const timeOf = (member: string, args: readonly Json[]): number => {
  if (member !== 'ssh.command') return ordinaryMs;
  const { timeoutSeconds } = (args[1] ?? {}) as { readonly timeoutSeconds?: number };
  return Math.ceil((timeoutSeconds ?? ordinaryMs / 1000) * 1000) + graceMs;
};

/** A runtime's answer as the plugin gets it: what a command gave has its documented shape, or the call fails. */
export const readAnswer = (member: string, answer: Extract<HostAnswer, { kind: 'value' }>): HostAnswer => {
  if (member !== 'ssh.command') return answer;
  const value = JSON.parse(answer.json) as Json;
  const { exitCode, output, errorOutput, isTruncated, durationMs } = isObject(value) ? value : {};
  if (!Number.isInteger(exitCode) || typeof output !== 'string' || typeof errorOutput !== 'string') {
    return {
      kind: 'error',
      code: 'bad_result',
      message: 'the runtime did not answer with exitCode, output and errorOutput',
    };
  }
  const [out, errors] = [cutStream(output), cutStream(errorOutput)];
  const result = {
    exitCode,
    output: out,
    errorOutput: errors,
    isTruncated: isTruncated === true || out !== output || errors !== errorOutput,
    ...(typeof durationMs === 'number' ? { durationMs } : {}),
  };
  return { kind: 'value', json: JSON.stringify(result) };
};

const isObject = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** At most 1 MiB of UTF-8, without a part of a character at the end. */
const cutStream = (text: string): string => {
  if (text.length * 3 <= maxStream || Buffer.byteLength(text) <= maxStream) return text;
  const bytes = Buffer.from(text);
  let end = maxStream;
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
};
