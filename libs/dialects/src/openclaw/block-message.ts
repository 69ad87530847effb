const prefix = 'Your message could not be sent';

/** What the user is told when a run was blocked: the plugin's message, never its reason (openclaw.md §11). */
export const blockMessage = (message: string | null, blockedBy: string | null): string => {
  const words = message?.trim() ?? '';
  const blocker = blockedBy?.trim() ?? '';
  if (words !== '') return blocker === '' ? `${prefix}: ${words}` : `${prefix}: ${words} (blocked by ${blocker})`;
  return blocker === '' ? `${prefix}: blocked` : `${prefix}: blocked by ${blocker}`;
};
