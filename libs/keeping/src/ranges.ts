/** A run of neighbouring account positions, both ends in it. */
export interface PositionRange {
  readonly first: string;
  readonly last: string;
  readonly events: number;
}

/** Rising positions as runs without a gap. */
export const rangesOf = (positions: readonly bigint[]): readonly PositionRange[] => {
  const ranges: { first: bigint; last: bigint }[] = [];
  for (const position of positions) {
    const open = ranges.at(-1);
    if (open !== undefined && open.last + 1n === position) open.last = position;
    else ranges.push({ first: position, last: position });
  }
  return ranges.map(({ first, last }) => ({
    first: String(first),
    last: String(last),
    events: Number(last - first + 1n),
  }));
};
