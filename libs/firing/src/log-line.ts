/** Lines of `host.log` that one handler run may leave (api.md, host calls); the rest is counted. */
export const maxLogLines = 100;

/** UTF-8 bytes of one line. */
const maxLineBytes = 8 * 1024;

/** Cuts the text of a log call, JSON text of `[level, message]`, to 8 KiB without splitting a character. */
export const cutLogLine = (args: string): string => {
  if (args.length * 3 <= maxLineBytes) return args;
  const [level, message, ...rest] = JSON.parse(args) as readonly unknown[];
  if (typeof message !== 'string' || Buffer.byteLength(message) <= maxLineBytes) return args;
  return JSON.stringify([level, cutToBytes(message), ...rest]);
};

const cutToBytes = (text: string): string => {
  let bytes = 0;
  let end = 0;
  for (const character of text) {
    bytes += Buffer.byteLength(character);
    if (bytes > maxLineBytes - 3) break;
    end += character.length;
  }
  return `${text.slice(0, end)}…`;
};
