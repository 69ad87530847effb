/** Positions from the first to the last, both of them there. */
export interface Span {
  readonly first: number;
  readonly last: number;
}

/** The spans of a list such as a manifest or a `retention.purged` event has; what cannot be read is none. */
export const spansOf = (ranges: unknown): readonly Span[] =>
  (Array.isArray(ranges) ? (ranges as readonly unknown[]) : []).flatMap((range) => {
    const { first, last } = (range ?? {}) as { readonly first?: unknown; readonly last?: unknown };
    const span = { first: Number(first), last: Number(last) };
    return Number.isSafeInteger(span.first) && Number.isSafeInteger(span.last) && span.first <= span.last ? [span] : [];
  });

/** How many positions of the claims no record covers. */
export const uncoveredBy = (records: readonly Span[], claims: readonly Span[]): number => {
  const covered = merged(records);
  let [count, next] = [0, 0];
  for (const { first, last } of merged(claims)) {
    let at = first;
    for (let span = covered[next]; span !== undefined && span.first <= last; span = covered[next]) {
      if (span.first > at) count += span.first - at;
      at = Math.max(at, span.last + 1);
      if (span.last > last) break;
      next += 1;
    }
    if (at <= last) count += last - at + 1;
  }
  return count;
};

/** The same positions, ascending and without overlaps. */
const merged = (spans: readonly Span[]): readonly Span[] => {
  const apart: { first: number; last: number }[] = [];
  for (const { first, last } of [...spans].sort((one, other) => one.first - other.first)) {
    const before = apart.at(-1);
    if (before !== undefined && first <= before.last + 1) before.last = Math.max(before.last, last);
    else apart.push({ first, last });
  }
  return apart;
};
