/**
 * Walks several handlers of a chain in one entry: it lives in a context of its own in the same isolate, calls the
 * realms' functions one after another and keeps what they leave until the host reads it. Plugins never get hold of
 * anything of this context: the realms' bootstraps only know `signal`, and only strings come back.
 *
 * `tick` is the host's clock. It is called from here alone, between handlers, where no plugin code is on the stack.
 */

/** First argument of the driver's function. */
export const DRIVE = { add: 0, drop: 1, walk: 2, read: 3 } as const;

/** JavaScript of a function that takes `tick` and the word for beginning a run, and returns `{ drive, signal }`. */
export const DRIVER = String.raw`(function (tick, begin) {
  'use strict';
  const Promise_ = Promise;
  const realms = { __proto__: null };
  let out = '';
  let isOver = false;
  let current = -1;
  let wake = null;

  /** A run has ended in this state. False when nobody here waits for it. */
  const signal = (id, state) => {
    if (id !== current || wake === null) return false;
    wake(state);
    return true;
  };

  /** given: for each handler its realm, name, arguments, flags, stop tags. */
  const walk = async (firstId, input, patches, given) => {
    let known = patches;
    for (let at = 0, id = firstId; at < given.length; at += 5, id++) {
      const enter = realms[given[at]];
      current = id;
      tick();
      const ended = new Promise_((resolve) => {
        wake = resolve;
      });
      enter(begin, id, given[at + 1], input, '[' + known + ']', given[at + 2]);
      const state = await ended;
      wake = null;
      out += state.length + ':' + state;
      // A call that wants an answer keeps a handler open, so what stands before the state here are notices.
      const from = state[0] === 'C' ? state.indexOf('\n') + 1 : 0;
      if (state[from] !== 'D') {
        if (given[at + 3] & 2) break;
        continue;
      }
      const raw = state.indexOf(' ', from) + 1;
      const tag = state[raw];
      if (tag !== undefined && given[at + 4].includes(tag)) break;
      if (given[at + 3] & 1 && tag === '~') {
        const end = state.indexOf('\n', raw);
        const patch = end < 0 ? state.slice(raw + 1) : state.slice(raw + 1, end);
        known = known === '' ? patch : known + ',' + patch;
      }
    }
    tick();
    isOver = true;
    current = -1;
  };

  /** What was left behind, each with its length; then '.' when the walk is over, else '!' and it is forgotten. */
  const read = () => {
    const said = out + (isOver ? '.' : '!');
    out = '';
    isOver = false;
    current = -1;
    wake = null;
    return said;
  };

  const drive = (op, a, b, c, ...given) => {
    switch (op) {
      case 0:
        realms[a] = b;
        return '';
      case 1:
        delete realms[a];
        return '';
      case 2:
        walk(a, b, c, given);
        return '';
      default:
        return read();
    }
  };
  return { __proto__: null, drive, signal };
})`;
