import type { NotOpen } from '#lifecycles';
import { Problem } from '#platform';

/** A run that is not open is neither kept alive nor closed. */
export const notOpen = ({ state }: NotOpen): Problem =>
  new Problem(409, 'run_not_open', `The run is not open: ${words[state]}.`, [{ pointer: '/path/run', reason: state }]);

const words: { readonly [state in NotOpen['state']]: string } = {
  unused: 'its slot never came',
  overlapped: 'an earlier run was still open when its slot came',
  cancelled: 'a plugin cancelled it',
  closed: 'it is closed',
  lost: 'nothing was heard of it until its lease ended, and it was closed as lost',
};
