import { parse } from 'acorn';
import type { CallExpression, Expression, MemberExpression, Program, Super } from 'acorn';
import { simple } from 'acorn-walk';

/** Written member calls that need a grant (MW-72). `host.log`, `config`, `session` and `workspace` need none. */
const permissions: ReadonlyMap<string, string> = new Map([
  ['host.agents.list', 'host:agents:list'],
  ['host.fetch', 'host:fetch'],
  ['host.llm', 'host:llm'],
  ['host.decide', 'host:decide'],
  ['host.ssh.command', 'host:ssh:command'],
]);

/** Every permission that a grant can name, in the order of the document. */
export const knownPermissions: readonly string[] = [...permissions.values()];

/**
 * The permissions that the calls in a compiled script ask for (MW-72). Only a written member call counts:
 * `host.ssh.command(…)`, with `?.`, with `globalThis.` before it. A computed access, an alias or a member that is only
 * mentioned derives nothing. Code that does not parse derives nothing.
 */
export const derivePermissions = (code: string): readonly string[] => {
  const program = programOf(code);
  if (program === null) return [];
  const found = new Set<string>();
  try {
    simple(program, {
      CallExpression: (call: CallExpression) => {
        const permission = permissions.get(pathOf(call.callee) ?? '');
        if (permission !== undefined) found.add(permission);
      },
    });
  } catch {
    // Nested deeper than the stack: what could not be looked at derives nothing.
    return [];
  }
  return knownPermissions.filter((permission) => found.has(permission));
};

const programOf = (code: string): Program | null => {
  for (const sourceType of ['script', 'module'] as const) {
    try {
      return parse(code, { ecmaVersion: 'latest', sourceType });
    } catch {
      continue;
    }
  }
  return null;
};

/** `host.ssh.command` for that expression, however it is parenthesised or `?.`-ed; null for anything else. */
const pathOf = (expression: Expression | Super): string | null => {
  switch (expression.type) {
    case 'Identifier':
      return expression.name;
    case 'ChainExpression':
    case 'ParenthesizedExpression':
      return pathOf(expression.expression);
    case 'MemberExpression':
      return memberPath(expression);
    default:
      return null;
  }
};

const memberPath = ({ computed, object, property }: MemberExpression): string | null => {
  if (computed || property.type !== 'Identifier') return null;
  const before = pathOf(object);
  if (before === null) return null;
  return before === 'globalThis' ? property.name : `${before}.${property.name}`;
};
