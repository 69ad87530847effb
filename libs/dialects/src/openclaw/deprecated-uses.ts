import { parse } from 'acorn';
import type { AssignmentProperty, MemberExpression, Property } from 'acorn';
import { simple } from 'acorn-walk';
import type { LoadReport } from '../dialect.js';

/**
 * Deprecated fields that a compiled plugin names (openclaw.md §22): only what is written as a member or as a key counts.
 * Code that does not parse names nothing.
 */
export const deprecatedUses = (code: string, hooks: readonly string[]): LoadReport['warnings'] => {
  const { members, allowsOnTimeout } = namesIn(code);
  const readsEnvelopes = hooks.includes('inbound_claim') || hooks.includes('message_received');
  return [
    ...(members.has('senderExternalId') ? ['senderExternalId: use channelContext.sender'] : []),
    ...(allowsOnTimeout ? ['timeoutBehavior: 2026.9 ignores it, an approval that nobody gives is denied'] : []),
    ...(readsEnvelopes && (members.has('body') || members.has('Body'))
      ? ['plaintext envelopes (body): use bodyForAgent and the structured fields']
      : []),
  ].map((detail) => ({ code: 'deprecated', detail }));
};

const namesIn = (code: string): { readonly members: ReadonlySet<string>; readonly allowsOnTimeout: boolean } => {
  const members = new Set<string>();
  let allowsOnTimeout = false;
  try {
    simple(parse(code, { ecmaVersion: 'latest', sourceType: 'script' }), {
      MemberExpression: ({ computed, property }: MemberExpression) => {
        if (!computed && property.type === 'Identifier') members.add(property.name);
      },
      Property: ({ computed, key, value }: Property | AssignmentProperty) => {
        if (computed || key.type !== 'Identifier' || key.name !== 'timeoutBehavior') return;
        allowsOnTimeout ||= value.type === 'Literal' && value.value === 'allow';
      },
    });
  } catch {
    // Nested deeper than the stack, or no script: what could not be looked at names nothing.
  }
  return { members, allowsOnTimeout };
};
