/**
 * Walks several handlers of a chain in one entry: it lives in a context of its own in the same isolate, calls the
 * realms' functions one after another and keeps what they leave until the host has it. Plugins never get hold of
 * anything of this context: the realms' bootstraps only know `signal`, and only strings come back.
 *
 * `tick` is the host's clock, and takes what is left at the end. It is called from here alone, between handlers, where
 * no plugin code is on the stack; and only when the isolate's own clock says that a millisecond has begun.
 */

/** First argument of the driver's function. */
export const DRIVE = { add: 0, drop: 1, plan: 2, dropPlan: 3, walk: 4, read: 5 } as const;

/** JavaScript of a function that takes `tick` and the words for beginning a run and for collecting it, and returns `{ drive, signal }`. */
export const DRIVER = String.raw`(function (tick, begin, collect) {
  'use strict';
  const Promise_ = Promise;
  const now = Date.now;
  const realms = { __proto__: null };
  const plans = { __proto__: null };
  let out = '';
  let current = -1;
  let wake = null;
  let waiting = null;

  /** A run has ended in this state. False when nobody here waits for it. */
  const signal = (id, state) => {
    if (id !== current || wake === null) return false;
    wake(state);
    return true;
  };
  const setWake = (resolve) => {
    wake = resolve;
  };

  /** plan: name, flags, stop tags of each handler. given: the realms from its place from on, then their arguments. */
  const walk = async (firstId, input, patches, plan, from, given) => {
    const isShared = typeof given[given.length - 2] !== 'string';
    const count = isShared ? given.length - 1 : given.length / 2;
    let known = patches;
    let ms = now();
    for (let done = 0; done < count; done++) {
      const at = (from + done) * 3;
      const enter = realms[given[done]];
      current = firstId + done;
      const ended = new Promise_(setWake);
      waiting = enter;
      enter(begin, current, plan[at], input, '[' + known + ']', isShared ? given[count] : given[count + done]);
      const state = await ended;
      wake = null;
      out += state.length + ':' + state;
      // What stands before the state is what the handler asked of the host, C and a line.
      const place = state[0] === 'C' ? state.indexOf('\n') + 1 : 0;
      if (state[place] === 'D') {
        const raw = state.indexOf(' ', place) + 1;
        const tag = state[raw];
        if (tag !== undefined && plan[at + 2].includes(tag)) break;
        if (plan[at + 1] & 1 && tag === '~') {
          const end = state.indexOf('\n', raw);
          const patch = end < 0 ? state.slice(raw + 1) : state.slice(raw + 1, end);
          known = known === '' ? patch : known + ',' + patch;
        }
      } else if (plan[at + 1] & 2) break;
      if (ms !== (ms = now())) tick(done + 1);
    }
    current = -1;
    waiting = null;
    const said = out + '.';
    out = '';
    tick(said);
  };

  /** What a walk left that did not come to its end, each with its length, then '!' and what the one that waits left. */
  const read = () => {
    const said = out + '!' + (waiting === null ? '' : waiting(collect, current));
    waiting = null;
    out = '';
    current = -1;
    wake = null;
    return said;
  };

  const drive = (op, a, b, c, d, e, ...given) => {
    switch (op) {
      case 0:
        realms[a] = b;
        return '';
      case 1:
        delete realms[a];
        return '';
      case 2:
        plans[a] = given;
        return '';
      case 3:
        delete plans[a];
        return '';
      case 4:
        walk(a, b, c, plans[d], e, given);
        return '';
      default:
        return read();
    }
  };
  return { __proto__: null, drive, signal };
})`;
