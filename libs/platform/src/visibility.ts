import type { Json, Sealed } from '#record';
import type { Sealing } from '#sealing';
import { isSealed } from '#sealing';
import type { Caller } from './caller.js';

/** How a sealed value shows (api.md, content). */
export type Shown =
  Json | { readonly hidden: true; readonly size: number } | { readonly erased: true; readonly size: number };

/** A sealed value as this caller may see it; null stays null. */
export const show = async (
  sealing: Sealing,
  caller: Pick<Caller, 'content'>,
  account: string,
  sealed: Sealed | null,
): Promise<Shown> => {
  if (sealed === null) return null;
  if (caller.content !== 'full') return { hidden: true, size: sealing.sizeOf(sealed) };
  const opened = await sealing.open(account, sealed);
  return opened.kind === 'open' ? opened.value : { erased: true, size: opened.size };
};

/** Many at once, in their order. */
export const showAll = (
  sealing: Sealing,
  caller: Pick<Caller, 'content'>,
  account: string,
  values: readonly (Sealed | null)[],
): Promise<readonly Shown[]> => Promise.all(values.map((value) => show(sealing, caller, account, value)));

/**
 * A JSON value with every sealed value in it as this caller may see it. What a sealed value opens to is not looked
 * into: content that only looks like a sealed value stays what it is.
 */
export const showWithin = async (
  sealing: Sealing,
  caller: Pick<Caller, 'content'>,
  account: string,
  value: Json,
): Promise<Json> => {
  if (typeof value !== 'object' || value === null) return value;
  if (isSealed(value)) return show(sealing, caller, account, value);
  if (Array.isArray(value)) {
    return Promise.all((value as readonly Json[]).map((item) => showWithin(sealing, caller, account, item)));
  }
  const entries = Object.entries(value as { readonly [key: string]: Json });
  const shown = entries.map(async ([key, item]) => [key, await showWithin(sealing, caller, account, item)] as const);
  // fromEntries defines own keys, so `__proto__` stays a key.
  return Object.fromEntries(await Promise.all(shown));
};
