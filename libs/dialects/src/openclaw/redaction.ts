/**
 * Secrets out of texts that are kept: what looks like one is masked, wherever it stands. A mask keeps the first six and
 * the last four characters of a long secret and nothing of a short one.
 */
const patterns: readonly RegExp[] = [
  // name=value, name: value, "name": "value", --name value; the value is the last group.
  /(\b(?:[A-Z0-9]+_)*(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PRIVATE_KEY|CREDENTIAL)\b["']?\s*[:=]\s*["']?)([^\s"',;}\])]{4,})/gi,
  /((?:api[-_]?key|access[-_]?token|refresh[-_]?token|id[-_]?token|auth[-_]?token|client[-_]?secret|app[-_]?secret|private[-_]?key)["']?\s*[:=]\s*["']?)([^\s"',;}\])]{4,})/gi,
  /(--(?:api[-_]?key|access[-_]?token|token|secret|password|passwd|client[-_]?secret)(?:\s+|=)["']?)([^\s"']+)/gi,
  /((?:Authorization|Proxy-Authorization)\s*[:=]\s*(?:Bearer|Basic|Bot)\s+)([A-Za-z0-9._\-+/=]{4,})/gi,
  /(\bBearer\s+)([A-Za-z0-9._\-+=]{18,})/g,
  /((?:X-Api-Key|X-Auth-Token|Cookie|Set-Cookie)\s*[:=]\s*)([^\s"',;]+)/gi,
  /(\b[a-z][a-z0-9+]{1,15}:\/\/[^/\s:@]{0,200}:)([^/\s@]+)(?=@)/gi,
  /()(-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?-----END [A-Z ]*PRIVATE KEY-----)/g,
  /(\b)((?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,})/g,
  /(\b)((?:gh[poushr]_|github_pat_|glpat-|xox[baprs]-|xapp-|gsk_|pplx-|fal_|npm_|hf_|ya29\.)[A-Za-z0-9_\-.=]{10,})/g,
  /(\b)(AIza[0-9A-Za-z\-_]{20,})/g,
  /(\b)((?:AKIA|ASIA)[0-9A-Z]{16})\b/g,
  /(\b)(eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})/g,
];

const sensitiveKey =
  /^(?:api[-_]?key|api[-_]?token|bearer[-_]?token|token|secret|password|passwd|credential|authorization|private[-_]?key|access[-_]?token|refresh[-_]?token|id[-_]?token|auth[-_]?token|client[-_]?secret|app[-_]?secret|card[-_]?number|cvc|cvv|(?:[A-Z0-9]+[_-])+(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD))$/i;

/** Whether a field's name says that its value is a secret. */
export const isSensitiveKey = (key: string): boolean => sensitiveKey.test(key);

/** A secret as it may be shown. */
export const maskSecret = (secret: string): string => {
  if (secret === '***' || secret.length < 18) return '***';
  return `${secret.slice(0, 6)}…${secret.slice(-4)}`;
};

/** A text with everything masked that looks like a secret. */
export const redactSecrets = (text: string): string =>
  patterns.reduce(
    (redacted, pattern) =>
      redacted.replace(pattern, (_all, before: string, secret: string) => `${before}${maskSecret(secret)}`),
    text,
  );

/** Most characters of an error in a log line. */
const logUnits = 500;

/** An error's text as a log line has it: one line, no control characters, no secrets, 500 characters (openclaw.md §3). */
export const oneLine = (text: string): string => {
  const line = redactSecrets(text)
    // eslint-disable-next-line no-control-regex -- control characters are what it is about
    .replace(/[\u0000-\u001f\u007f\u2028\u2029]/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  const cut = line.slice(0, logUnits);
  return (/[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut) || 'unknown error';
};

/** The first line of an error's text, as outcomes carry it. */
export const firstLine = (text: string): string => (text.split('\n')[0] ?? '').trim() || 'unknown error';
