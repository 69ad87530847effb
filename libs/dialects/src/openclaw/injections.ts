import type { Json, JsonObject } from '#record';
import { fitsJsonLimits } from './json-limits.js';

/** Bounds of an injection (openclaw.md §14). */
export const injectionLimits = { textUnits: 32_768, keyUnits: 512 } as const;

/** What a plugin asks to have said in a session's next turn. */
export interface InjectionAsked {
  readonly text: string;
  readonly idempotencyKey: string | null;
  readonly placement: 'prepend_context' | 'append_context';
  /** Null: it never expires. */
  readonly ttlMs: number | null;
  readonly metadata?: Json;
}

/** An injection as the handlers of `agent_turn_prepare` and the host see it. */
export interface Injection extends Omit<InjectionAsked, 'idempotencyKey' | 'ttlMs'> {
  readonly id: string;
  readonly pluginId: string;
  readonly idempotencyKey?: string;
  readonly ttlMs?: number;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** Fields of an injection that do not fit, with the mend. */
export type InjectionFaults = readonly { readonly field: string; readonly reason: string }[];

export type ReadInjection =
  | { readonly kind: 'read'; readonly injection: InjectionAsked }
  | { readonly kind: 'faulty'; readonly faults: InjectionFaults };

/** Reads what was asked for (openclaw.md §14); fields that are not an injection's are left alone. */
export const readInjection = (asked: unknown): ReadInjection => {
  if (typeof asked !== 'object' || asked === null) return faulty('', 'give an object');
  const { text, idempotencyKey, placement, ttlMs, metadata } = asked as { readonly [field: string]: unknown };
  const words = typeof text === 'string' ? text.trim() : '';
  if (words === '' || words.length > injectionLimits.textUnits) {
    return faulty('text', `give 1 to ${String(injectionLimits.textUnits)} characters that are not all blank`);
  }
  if (metadata !== undefined && !fitsJsonLimits(metadata)) return faulty('metadata', 'is over the limits of JSON');
  const key = typeof idempotencyKey === 'string' ? idempotencyKey.trim() : '';
  if (idempotencyKey !== undefined && (key === '' || key.length > injectionLimits.keyUnits)) {
    return faulty('idempotencyKey', `give 1 to ${String(injectionLimits.keyUnits)} characters that are not all blank`);
  }
  if (placement !== undefined && placement !== 'prepend_context' && placement !== 'append_context') {
    return faulty('placement', 'give prepend_context or append_context');
  }
  if (ttlMs !== undefined && !(typeof ttlMs === 'number' && Number.isFinite(ttlMs) && ttlMs >= 0)) {
    return faulty('ttlMs', 'give a number of milliseconds, 0 or more');
  }
  return {
    kind: 'read',
    injection: {
      text: words,
      idempotencyKey: key === '' ? null : key,
      placement: placement ?? 'prepend_context',
      ttlMs: ttlMs ?? null,
      ...(metadata === undefined ? {} : { metadata }),
    },
  };
};

const faulty = (field: string, reason: string): ReadInjection => ({ kind: 'faulty', faults: [{ field, reason }] });

/** Texts of a turn that stand before and after the prompt; absent: none. */
export interface TurnContext {
  readonly prependContext?: string;
  readonly appendContext?: string;
}

/** What the injections of a turn say, each placement joined by blank lines. */
export const injectedContext = (injections: readonly Pick<Injection, 'placement' | 'text'>[]): TurnContext => {
  const texts = (placement: Injection['placement']): readonly string[] =>
    injections.filter((entry) => entry.placement === placement).map(({ text }) => text);
  return contextOf(texts('prepend_context'), texts('append_context'));
};

/** A turn's context: what was injected, then what the handlers gave (openclaw.md §13); null: none. */
export const assembledContext = (
  injections: readonly Pick<Injection, 'placement' | 'text'>[],
  result: JsonObject,
): JsonObject | null => {
  const injected = injectedContext(injections);
  const text = (value: Json | undefined): readonly string[] => (typeof value === 'string' ? [value] : []);
  const { prependContext, appendContext } = contextOf(
    [...text(injected.prependContext), ...text(result.prependContext)],
    [...text(injected.appendContext), ...text(result.appendContext)],
  );
  const { prependContext: _before, appendContext: _after, ...others } = result;
  const all: JsonObject = {
    ...others,
    ...(prependContext === undefined ? {} : { prependContext }),
    ...(appendContext === undefined ? {} : { appendContext }),
  };
  return Object.keys(all).length === 0 ? null : all;
};

const contextOf = (before: readonly string[], after: readonly string[]): TurnContext => {
  const join = (texts: readonly string[]): string => texts.filter((text) => text !== '').join('\n\n');
  const [prependContext, appendContext] = [join(before), join(after)];
  return {
    ...(prependContext === '' ? {} : { prependContext }),
    ...(appendContext === '' ? {} : { appendContext }),
  };
};
