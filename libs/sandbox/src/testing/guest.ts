/**
 * A small guest program for the sandbox's own tests: handlers are `globalThis.on.<name> = (value, tools) => …`, the
 * context is one JSON value under `value`. Tags: `=` unchanged, `~{"value":…}` changed, `!text` threw, `#text` odd.
 */
export const testGuest = String.raw`(function (kit, setup) {
  const handlers = { __proto__: null };
  const root = globalThis;
  root.on = {};
  let current;
  const host = kit.Object.freeze({
    ask: (...args) => current.call('ask', args),
    slow: (...args) => current.call('slow', args),
    log: (...args) => current.emit('log', args),
  });
  root.host = host;
  return {
    report() {
      const names = kit.Object.keys(root.on);
      for (let i = 0; i < names.length; i++) handlers[names[i]] = root.on[names[i]];
      return kit.JSON.stringify({ names, setup });
    },
    call(name, input, patches, args, run) {
      if (handlers[name] === undefined) this.report();
      const context = kit.JSON.parse(input);
      const all = kit.JSON.parse(patches);
      for (let i = 0; i < all.length; i++) {
        const keys = kit.Object.keys(all[i]);
        for (let k = 0; k < keys.length; k++)
          kit.Object.defineProperty(context, keys[k], { __proto__: null, value: all[i][keys[k]], writable: true, enumerable: true, configurable: true });
      }
      run.note('["began"]');
      current = run;
      const tools = {
        ask: (...args) => run.call('ask', args),
        slow: (...args) => run.call('slow', args),
        fail: (...args) => run.call('fail', args),
        log: (...args) => run.emit('log', args),
        isOpen: () => run.open,
      };
      const fail = (error) => run.done('!' + kit.text(error));
      const finish = (result) => {
        try {
          if (result === undefined) return run.done('#undefined');
          if (result === context.value) return run.done('=');
          const text = kit.JSON.stringify({ __proto__: null, value: result });
          run.done('~' + text + '\n');
        } catch (error) {
          fail(error);
        }
      };
      let result;
      try {
        result = handlers[name](context.value, tools);
      } catch (error) {
        return fail(error);
      }
      kit.then(result, finish, fail);
    },
  };
})`;
