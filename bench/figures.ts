/** One measured thing beside its goal. */
export interface Figure {
  readonly measure: string;
  readonly goal: string;
  readonly reached: string;
  readonly holds: boolean;
  /** What the figure is made of, for people who want to judge it. */
  readonly from: string;
}

/** The middle of some numbers. */
export const median = (numbers: readonly number[]): number => at(numbers, 0.5);

/** The number below which a part of them lies. */
export const at = (numbers: readonly number[], part: number): number => {
  const sorted = [...numbers].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
};

/** Three significant digits, so that no figure looks more exact than it is. */
export const rounded = (value: number): string => String(Number(value.toPrecision(3)));

/** Lowest and highest of some rounds. */
export const spread = (numbers: readonly number[]): string =>
  `${rounded(Math.min(...numbers))}–${rounded(Math.max(...numbers))}`;

/** A figure that must not be above its limit. */
export const atMost = (measure: string, limit: number, value: number, unit: string, from: string): Figure => ({
  measure,
  goal: `≤ ${limit} ${unit}`.trim(),
  reached: `${rounded(value)} ${unit}`.trim(),
  holds: value <= limit,
  from,
});

/** A figure that must not be below its limit. */
export const atLeast = (measure: string, limit: number, value: number, unit: string, from: string): Figure => ({
  ...atMost(measure, limit, value, unit, from),
  goal: `≥ ${limit} ${unit}`.trim(),
  holds: value >= limit,
});

/** A figure that no goal was set for, shown beside one that has one. */
export const shown = (measure: string, value: number, unit: string, from: string): Figure => ({
  ...atMost(measure, 0, value, unit, from),
  goal: '',
  holds: true,
});

/** The figures as a table of the documentation. */
export const tableOf = (figures: readonly Figure[]): string =>
  [
    '| measure | goal | reached | | made of |',
    '| --- | --- | --- | --- | --- |',
    ...figures.map(
      ({ measure, goal, reached, holds, from }) =>
        `| ${measure} | ${goal} | ${reached} | ${goal === '' ? '' : holds ? 'yes' : '**no**'} | ${from} |`,
    ),
  ].join('\n');

/** Puts text between the marks of a document; throws when they are not there. */
export const between = (document: string, name: string, text: string): string => {
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const from = document.indexOf(begin);
  const to = document.indexOf(end);
  if (from < 0 || to < from) throw new Error(`the document has no marks ${begin} … ${end}`);
  return `${document.slice(0, from + begin.length)}\n\n${text}\n\n${document.slice(to)}`;
};
