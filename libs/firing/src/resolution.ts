import type { CallAnswer, GuestCall, Realm, Sandbox } from '#sandbox';

/** What became of telling a plugin how its request ended. */
export type Delivery =
  | 'delivered'
  /** Its realm is gone, and with it who waited. */
  | 'undeliverable'
  /** It was told, and failed at it. */
  | 'failed';

export interface Resolution {
  readonly account: string;
  readonly realm: Realm;
  /** As the request named who is to be told. */
  readonly ticket: string;
  readonly decision: string;
  readonly onCall: (call: GuestCall) => Promise<CallAnswer>;
}

/** Longest that a plugin may take over being told, ms. */
const limitMs = 15_000;

/** Tells a plugin how its request ended, in the realm that asked. Never rejects for what the plugin does. */
export const deliverResolution = async (
  sandbox: Sandbox,
  { account, realm, ticket, decision, onCall }: Resolution,
): Promise<Delivery> => {
  const running = sandbox.run({
    account,
    invocationId: ticket,
    input: JSON.stringify({ ticket, decision }),
    handlers: [{ realm, handler: 'resolution', timeoutMs: limitMs, args: '{}', advances: false, stopsOn: [] }],
    onCall,
    pausingMembers: [],
  });
  const outcome = await running.result(0);
  if (outcome.kind !== 'returned') return outcome.kind === 'failed' ? 'failed' : 'undeliverable';
  if (outcome.raw.startsWith('-')) return 'undeliverable';
  return outcome.raw.startsWith('.') ? 'delivered' : 'failed';
};
