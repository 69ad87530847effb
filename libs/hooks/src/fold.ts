import type { Condition } from './point.js';

/** How one field of many contributions becomes one. "Defined" means neither undefined nor null. */
export type FieldRule =
  /** The last defined one wins, whole. `until`: not taken once that field was contributed, by others or by anyone. */
  | { readonly rule: 'last'; readonly until?: { readonly field: string; readonly by: 'others' | 'anyone' } }
  /** The first defined one wins. `stamp`: this key of an object is overwritten with the plugin's id. */
  | { readonly rule: 'first'; readonly stamp?: string }
  /** True once anyone said so; nobody can take it back. */
  | { readonly rule: 'sticky'; readonly on: 'true' | 'truthy' }
  /** Texts joined in chain order. `erases`: a later empty text drops what was gathered; `skips`: it adds nothing. */
  | { readonly rule: 'join'; readonly separator: string; readonly empty: 'erases' | 'skips' }
  /** Lists appended in chain order. */
  | { readonly rule: 'append' }
  /** Objects laid over each other, later keys win. */
  | { readonly rule: 'overlay' }
  /** Lists of names intersected; who says nothing has no opinion; what is no list of names allows nothing. */
  | { readonly rule: 'intersect' }
  /** Every defined one, in chain order. */
  | { readonly rule: 'collect' }
  /** The highest word wins, in whatever order they came. */
  | { readonly rule: 'rank'; readonly order: readonly string[] }
  /** Folded only among the contributions that carry the winning word of a `rank` field, by that word's own rule. */
  | {
      readonly rule: 'of-winner';
      readonly field: string;
      readonly order: readonly string[];
      readonly each: { readonly [word: string]: FieldRule };
    };

export interface FieldRules {
  readonly [field: string]: FieldRule;
}

export interface Contribution {
  readonly pluginId: string;
  readonly value: unknown;
}

/** Folds contributions field by field, in chain order. Own keys only; the result has no prototype. */
export const foldFields = (
  rules: FieldRules,
  others: FieldRule | null,
  contributions: readonly Contribution[],
): { readonly [field: string]: unknown } => {
  const folded = Object.create(null) as { [field: string]: unknown };
  for (const field of fieldsOf(rules, others, contributions)) {
    const rule = Object.hasOwn(rules, field) ? rules[field] : others;
    if (!rule) continue;
    const value = foldField(field, rule, contributions);
    if (value !== undefined) folded[field] = value;
  }
  return folded;
};

/** One field of the folded result; undefined when nobody said anything. */
export const foldField = (field: string, rule: FieldRule, contributions: readonly Contribution[]): unknown => {
  switch (rule.rule) {
    case 'last':
      return said(field, rule.until ? before(rule.until, contributions) : contributions).at(-1)?.value;
    case 'first':
      return stamped(said(field, contributions)[0], rule.stamp);
    case 'sticky':
      return sticky(said(field, contributions), rule.on);
    case 'join':
      return joined(said(field, contributions), rule.separator, rule.empty);
    case 'append':
      return listOrNothing(
        said(field, contributions).flatMap(({ value }) => (Array.isArray(value) ? (value as readonly unknown[]) : [])),
      );
    case 'overlay':
      return overlaid(said(field, contributions));
    case 'intersect':
      return intersected(said(field, contributions));
    case 'collect':
      return listOrNothing(said(field, contributions).map(({ value }) => value));
    case 'rank':
      return winner(field, rule.order, contributions);
    case 'of-winner':
      return ofWinner(field, rule, contributions);
  }
};

/** Whether a result (folded, or one contribution alone) meets a condition. */
export const meets = (condition: Condition, result: unknown): boolean => {
  const value = own(result, condition.field);
  if ('equals' in condition) return value === condition.equals;
  switch (condition.is) {
    case 'true':
      return value === true;
    case 'truthy':
      return Boolean(value);
    case 'defined':
      return value !== undefined && value !== null;
  }
};

/** An own property of an object, undefined for everything else. */
export const own = (value: unknown, field: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, field)
    ? (value as { readonly [key: string]: unknown })[field]
    : undefined;

const fieldsOf = (
  rules: FieldRules,
  others: FieldRule | null,
  contributions: readonly Contribution[],
): ReadonlySet<string> => {
  const fields = new Set(Object.keys(rules));
  if (others === null) return fields;
  for (const { value } of contributions) {
    if (typeof value === 'object' && value !== null) for (const key of Object.keys(value)) fields.add(key);
  }
  return fields;
};

const said = (field: string, contributions: readonly Contribution[]): readonly Contribution[] =>
  contributions.flatMap(({ pluginId, value }) => {
    const item = own(value, field);
    return item === undefined || item === null ? [] : [{ pluginId, value: item }];
  });

const before = (
  until: { readonly field: string; readonly by: 'others' | 'anyone' },
  contributions: readonly Contribution[],
): readonly Contribution[] => {
  const first = contributions.findIndex(({ value }) => meets({ field: until.field, is: 'defined' }, value));
  if (first < 0) return contributions;
  const owner = contributions[first]?.pluginId;
  return contributions.filter(({ pluginId }, index) => index <= first || (until.by === 'others' && pluginId === owner));
};

const stamped = (first: Contribution | undefined, stamp: string | undefined): unknown => {
  if (!first || stamp === undefined || typeof first.value !== 'object' || first.value === null) return first?.value;
  return { ...first.value, [stamp]: first.pluginId };
};

const sticky = (items: readonly Contribution[], on: 'true' | 'truthy'): boolean | undefined => {
  if (items.length === 0) return undefined;
  return items.some(({ value }) => (on === 'true' ? value === true : Boolean(value)));
};

const joined = (items: readonly Contribution[], separator: string, empty: 'erases' | 'skips'): string | undefined => {
  let text: string | undefined;
  for (const { value } of items) {
    if (typeof value !== 'string') continue;
    if (value === '') text = empty === 'erases' ? '' : text;
    else text = text ? `${text}${separator}${value}` : value;
  }
  return text;
};

const listOrNothing = (items: readonly unknown[]): readonly unknown[] | undefined =>
  items.length === 0 ? undefined : items;

const overlaid = (items: readonly Contribution[]): { readonly [key: string]: unknown } | undefined => {
  const objects = items.filter(({ value }) => typeof value === 'object' && !Array.isArray(value));
  if (objects.length === 0) return undefined;
  const over = Object.create(null) as { [key: string]: unknown };
  for (const { value } of objects) {
    for (const [key, item] of Object.entries(value as object)) over[key] = item;
  }
  return over;
};

const intersected = (items: readonly Contribution[]): readonly string[] | undefined => {
  let names: readonly string[] | undefined;
  for (const { value } of items) {
    const list = isNames(value) ? value : [];
    names = names ? names.filter((name) => list.includes(name)) : [...new Set(list)];
  }
  return names;
};

const isNames = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

const winner = (
  field: string,
  order: readonly string[],
  contributions: readonly Contribution[],
): string | undefined => {
  const words = new Set(said(field, contributions).map(({ value }) => value));
  return order.find((word) => words.has(word));
};

const ofWinner = (
  field: string,
  rule: FieldRule & { readonly rule: 'of-winner' },
  contributions: readonly Contribution[],
): unknown => {
  const word = winner(rule.field, rule.order, contributions);
  const each = word === undefined || !Object.hasOwn(rule.each, word) ? undefined : rule.each[word];
  if (!each) return undefined;
  return foldField(
    field,
    each,
    contributions.filter(({ value }) => own(value, rule.field) === word),
  );
};
