/** The command was not given as it must be: exit code 2. */
export class Misuse extends Error {
  override readonly name = 'Misuse';
}

/** What was asked for cannot be done; the message is for the person who asked: exit code 1. */
export class Failure extends Error {
  override readonly name = 'Failure';
}

/**
 * Text of others on one line of a terminal: control characters and marks that turn the direction of writing could
 * make it look like something else.
 */
export const plain = (text: string): string => text.replace(unsafe, ' ');

/**
 * JSON text as one line that is safe to show and to split: the same JSON, with escapes for what a terminal obeys
 * (C1 controls, marks of direction) and for what some readers take for the end of a line (U+2028, U+2029).
 */
export const jsonLine = (text: string): string =>
  text
    .replace(/[\r\n]+/gu, ' ')
    .trim()
    .replace(unsafe, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);

// eslint-disable-next-line no-control-regex -- controls are what is looked for
const unsafe = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
