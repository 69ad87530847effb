import type { Json } from '#record';

/** What an install, a version or a rollback brings, as far as the account's policy asks. */
export interface Candidate {
  readonly pluginId: string;
  readonly sourceDigest: string;
}

export type PolicyVerdict =
  | { readonly kind: 'allowed' }
  /** `about`: what of the candidate the refusing rule looks at. */
  | { readonly kind: 'refused'; readonly about: 'plugin' | 'source'; readonly reason: string };

/**
 * Judges a candidate by the account's `installPolicy`: `{ allow?, deny?, requireDigest? }`. A rule is a plugin id, in
 * which `*` stands for any characters, a `sha256:` digest of a source, or both as `id@sha256:…`.
 * - `deny`: what a rule names is refused, whatever else is said.
 * - `allow`: only what a rule names may come in.
 * - `requireDigest: true`: an `allow` rule must name the source's digest.
 * No policy allows everything. A policy that cannot be read refuses everything: it may have meant to.
 */
export const judgeInstall = (policy: Json | undefined, candidate: Candidate): PolicyVerdict => {
  if (policy === undefined || policy === null) return { kind: 'allowed' };
  const rules = readPolicy(policy);
  if (rules === null) return no('plugin', "the account's installPolicy cannot be read, so nothing may be installed");
  const denying = rules.deny.find((rule) => matches(rule, candidate));
  if (denying !== undefined) {
    return no(denying.digest === null ? 'plugin' : 'source', "the account's installPolicy denies this plugin");
  }
  const allowing = rules.allow?.filter((rule) => matches(rule, candidate));
  if (allowing?.length === 0) {
    const named = rules.allow?.some((rule) => namesPlugin(rule, candidate)) === true;
    return no(named ? 'source' : 'plugin', "the account's installPolicy does not allow this plugin");
  }
  if (rules.requireDigest && allowing?.some((rule) => rule.digest !== null) !== true) {
    return no('source', "the account's installPolicy requires an allow rule with the digest of this source");
  }
  return { kind: 'allowed' };
};

interface Rule {
  /** A glob, in which `*` stands for any characters. */
  readonly id: string | null;
  readonly digest: string | null;
}

interface Rules {
  readonly allow: readonly Rule[] | null;
  readonly deny: readonly Rule[];
  readonly requireDigest: boolean;
}

const no = (about: 'plugin' | 'source', reason: string): PolicyVerdict => ({ kind: 'refused', about, reason });

/** Whether a value can be read as an `installPolicy`; settings may refuse what cannot. */
export const isInstallPolicy = (policy: Json): boolean => readPolicy(policy) !== null;

const readPolicy = (policy: Json): Rules | null => {
  if (typeof policy !== 'object' || policy === null || Array.isArray(policy)) return null;
  const { allow, deny, requireDigest, ...unknown } = policy as { readonly [key: string]: Json };
  if (Object.keys(unknown).length > 0) return null;
  if (requireDigest !== undefined && requireDigest !== null && typeof requireDigest !== 'boolean') return null;
  const allowed = allow === undefined || allow === null ? null : readRules(allow);
  const denied = deny === undefined || deny === null ? [] : readRules(deny);
  if (allowed === 'unreadable' || denied === 'unreadable') return null;
  return { allow: allowed, deny: denied, requireDigest: requireDigest === true };
};

const readRules = (value: Json): readonly Rule[] | 'unreadable' => {
  if (!Array.isArray(value)) return 'unreadable';
  const rules: Rule[] = [];
  for (const item of value as readonly Json[]) {
    const rule = typeof item === 'string' ? readRule(item) : null;
    if (rule === null) return 'unreadable';
    rules.push(rule);
  }
  return rules;
};

const digestForm = /^(?:(?<id>[\s\S]+)@)?sha256:(?<digest>[0-9a-fA-F]{64})$/;

const readRule = (text: string): Rule | null => {
  if (text === '') return null;
  const pinned = digestForm.exec(text)?.groups;
  if (pinned === undefined) return /(?:^|@)sha256:/.test(text) ? null : { id: text, digest: null };
  return { id: pinned.id ?? null, digest: (pinned.digest ?? '').toLowerCase() };
};

const matches = (rule: Rule, candidate: Candidate): boolean =>
  namesPlugin(rule, candidate) && (rule.digest === null || rule.digest === candidate.sourceDigest);

const namesPlugin = ({ id }: Rule, { pluginId }: Candidate): boolean => id === null || matchesGlob(id, pluginId);

/** Goes back to the last `*` only, so the cost is rule × id whatever the rule. */
const matchesGlob = (glob: string, text: string): boolean => {
  let [at, star, from] = [0, -1, 0];
  let index = 0;
  while (index < text.length) {
    if (glob[at] === '*') {
      star = at;
      at += 1;
      from = index;
    } else if (at < glob.length && glob[at] === text[index]) {
      at += 1;
      index += 1;
    } else if (star >= 0) {
      from += 1;
      index = from;
      at = star + 1;
    } else {
      return false;
    }
  }
  while (glob[at] === '*') at += 1;
  return at === glob.length;
};
