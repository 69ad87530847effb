import type { Caller } from '#platform';
import type { Sealed } from '#record';
import { isSealed, type Sealing } from '#sealing';

/**
 * An answer as JSON text, with every sealed value in it as this caller may see it (api.md, content). What opens is
 * put in as the text that was sealed, so that its numbers keep their digits (events.md §1.3); it is not looked into,
 * so content that only looks like a sealed value stays what it is. Each value is opened once.
 */
export const shownJson = async (
  sealing: Sealing,
  caller: Pick<Caller, 'content'>,
  account: string,
  value: unknown,
): Promise<string> => {
  const found = new Map<string, Sealed>();
  gather(value, found);
  const shown = new Map<string, string>();
  const show = async (key: string, sealed: Sealed): Promise<void> => {
    shown.set(key, await shownText(sealing, caller, account, sealed));
  };
  await Promise.all([...found].map(([key, sealed]) => show(key, sealed)));
  return render(value, shown);
};

const shownText = async (
  sealing: Sealing,
  caller: Pick<Caller, 'content'>,
  account: string,
  sealed: Sealed,
): Promise<string> => {
  if (caller.content !== 'full') return JSON.stringify({ hidden: true, size: sealing.sizeOf(sealed) });
  const opened = await sealing.openText(account, sealed);
  return opened.kind === 'open' ? opened.text : JSON.stringify({ erased: true, size: opened.size });
};

const keyOf = (sealed: Sealed): string =>
  '$blob' in sealed ? `${sealed.k} ${sealed.$blob}` : `${sealed.$sealed.k} ${sealed.$sealed.b}`;

const gather = (value: unknown, found: Map<string, Sealed>): void => {
  if (typeof value !== 'object' || value === null) return;
  if (isSealed(value)) found.set(keyOf(value), value);
  else for (const item of Object.values(value)) gather(item, found);
};

const render = (value: unknown, shown: ReadonlyMap<string, string>): string => {
  if (typeof value !== 'object' || value === null) return value === undefined ? 'null' : JSON.stringify(value);
  if (isSealed(value)) return shown.get(keyOf(value)) ?? 'null';
  if (Array.isArray(value)) return `[${value.map((item) => render(item, shown)).join(',')}]`;
  const members = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{${members.map(([key, item]) => `${JSON.stringify(key)}:${render(item, shown)}`).join(',')}}`;
};
