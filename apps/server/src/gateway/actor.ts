import type { Caller } from '#platform';
import type { Actor } from '#record';

/** The caller as an event names them. */
export const actorOf = ({ role, keyId, onBehalfOf }: Caller): Actor => ({
  kind: role === 'operator' ? 'operator' : 'key',
  id: keyId,
  ...(onBehalfOf === null ? {} : { onBehalfOf }),
});
