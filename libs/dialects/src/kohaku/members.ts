/** What a plugin wants its host to do (kohaku.md §12): told with the answer, in order, each recorded. */
export const effectMembers: readonly string[] = [
  'switch_model',
  'inject_event',
  'inject_message_before_llm',
  'emit',
  'set_state',
];

/** What else the guest program tells: a line of the log, a timer, that an instance began. */
const others: readonly string[] = ['log', 'timer', 'instance'];

export const isMember = (member: string): boolean => effectMembers.includes(member) || others.includes(member);
