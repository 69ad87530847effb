/** A block of the README's tour: what to type, and what it prints. */
export interface TourStep {
  /** The word after `sh` in the fence: `setup`, `follow`, or none. */
  readonly kind: 'setup' | 'follow' | 'step';
  readonly script: string;
  /** The `text` block that follows; null when the README shows none. */
  readonly prints: string | null;
}

const fence = /^```(\w+)(?: (\w+))?\n([\s\S]*?)^```$/gmu;

/** Reads the blocks between the tour's marks. */
export const readTour = (readme: string): readonly TourStep[] => {
  const begin = readme.indexOf('<!-- tour -->');
  const end = readme.indexOf('<!-- /tour -->');
  if (begin < 0 || end < begin) throw new Error('the README has no tour');
  const steps: TourStep[] = [];
  for (const [, language, word, body = ''] of readme.slice(begin, end).matchAll(fence)) {
    if (language === 'sh') steps.push({ kind: kindOf(word), script: body, prints: null });
    const last = steps.at(-1);
    if (language === 'text' && last !== undefined) steps.splice(-1, 1, { ...last, prints: body });
  }
  return steps;
};

const kindOf = (word: string | undefined): TourStep['kind'] => (word === 'setup' || word === 'follow' ? word : 'step');
