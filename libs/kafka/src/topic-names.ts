/** The topics of a log. */
export interface TopicNames {
  readonly events: string;
  readonly blobs: string;
  readonly keys: string;
  readonly checkpoints: string;
  /** Where an account's events go: `events`, unless it has a topic of its own. */
  eventsOf(account: string): string;
  /** Every topic with events: `events` and those of accounts. */
  readonly allEvents: readonly string[];
}

/** Names under a prefix. `ownTopics` lists the accounts that have a topic of their own. */
export const topicNames = (prefix: string, ownTopics: readonly string[] = []): TopicNames => {
  const own = new Map(ownTopics.map((account) => [account, `${prefix}.events.${topicPart(account)}`]));
  const events = `${prefix}.events`;
  return {
    events,
    blobs: `${prefix}.blobs`,
    keys: `${prefix}.keys`,
    checkpoints: `${prefix}.checkpoints`,
    eventsOf: (account) => own.get(account) ?? events,
    allEvents: [events, ...own.values()],
  };
};

/** An account's name in the letters that a topic's name may have; no two accounts share one. */
const topicPart = (account: string): string =>
  [...Buffer.from(account)]
    .map((byte) => {
      const letter = String.fromCharCode(byte);
      return /[A-Za-z0-9-]/u.test(letter) ? letter : `_${byte.toString(16).padStart(2, '0')}`;
    })
    .join('');
