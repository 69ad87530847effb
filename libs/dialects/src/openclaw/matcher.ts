export type Matcher =
  { readonly kind: 'tools'; readonly tools: readonly string[] } | { readonly kind: 'faulty'; readonly reason: string };

/** Other words for tools, which a matcher must not use: it names the tool. */
const aliases: readonly string[] = ['bash', 'exec_command', 'apply-patch', 'Write', 'Edit', 'agent'];

/** Reads the tools that a handler of a tool hook is for: canonical names in lower case (openclaw.md §5). */
export const normalizeMatcher = (matcher: unknown): Matcher => {
  if (!Array.isArray(matcher)) return faulty('must be a list of tool names');
  if (matcher.length === 0) return faulty('must name at least one tool');
  const tools = new Set<string>();
  for (const name of matcher as readonly unknown[]) {
    const canonical = typeof name === 'string' ? name.trim().toLowerCase() : '';
    if (canonical === '') return faulty('must hold names that are not blank');
    if (canonical === '*') return faulty('takes no wildcard: leave it out to match every tool');
    if (aliases.includes(canonical) || aliases.includes((name as string).trim())) {
      return faulty('must use the canonical names of tools');
    }
    tools.add(canonical);
  }
  return { kind: 'tools', tools: [...tools].sort() };
};

const faulty = (reason: string): Matcher => ({ kind: 'faulty', reason });
