/** What was looked at, and how it is. */
export interface Finding {
  /** A stable word for programs. */
  readonly check: string;
  /** `problem`: the server would not start, or not keep its promises. `warning`: it would, and something is amiss. */
  readonly state: 'ok' | 'warning' | 'problem';
  /** A sentence for whoever runs the server; with what to do where something is not fine. Never a secret. */
  readonly words: string;
}

export const fine = (check: string, words: string): Finding => ({ check, state: 'ok', words });
export const warning = (check: string, words: string): Finding => ({ check, state: 'warning', words });
export const problem = (check: string, words: string): Finding => ({ check, state: 'problem', words });

/** The code of a system's or driver's error, also where it was given another name; messages may quote what is secret. */
export const codeOf = (error: unknown): string => {
  const { code, cause } = (error ?? {}) as { readonly code?: unknown; readonly cause?: unknown };
  if (typeof code === 'string') return code;
  return cause === undefined ? 'no answer' : codeOf(cause);
};
