import { catalogue, limits } from './catalogue.js';
import type { MiddlewareHook } from './catalogue.js';

/**
 * The program that runs in every realm of a middleware plugin, before the plugin's own code (guest-kit.md beside the
 * sandbox). It registers handlers (MW-1 to MW-4), shows `host` (MW-70 to MW-76), and reads what handlers give
 * (MW-30 to MW-45) with intrinsics captured while the realm was still clean (MW-110).
 *
 * Written so that nothing a plugin does to its realm changes it: no method is looked up on a value, no array is
 * extended by assignment, text is put together by `+`, and objects that are looked into have no prototype. It is text
 * because it is compiled in the realm, not here; so it has no template literals of its own.
 */
const program = String.raw`(function (kit, setup) {
  const HOOKS = /*HOOKS*/;
  const LIMITS = /*LIMITS*/;
  const world = globalThis;
  const { parse, stringify: quote } = JSON;
  const { keys: keysOf, freeze, getPrototypeOf } = Object;
  const { apply, defineProperty } = Reflect;
  const { isArray } = Array;
  const { round } = Math;
  const objectPrototype = Object.prototype;
  const rangeErrorPrototype = RangeError.prototype;
  const hasOwnProperty = objectPrototype.hasOwnProperty;
  const stringSlice = String.prototype.slice;
  const codeAt = Function.prototype.call.bind(String.prototype.charCodeAt);
  const regExpExec = RegExp.prototype.exec;
  const nonAscii = /[^\x00-\x7f]/;
  const Infinite = Infinity;
  const tokens = new WeakMap();
  const tokenGet = WeakMap.prototype.get;
  const tokenSet = WeakMap.prototype.set;

  // Awaiting a promise looks at these; a plugin may replace 'then', not how an await finds its promise.
  defineProperty(Promise.prototype, 'constructor', { __proto__: null, value: Promise, writable: false, enumerable: false, configurable: false });

  const hasOwn = (object, key) => apply(hasOwnProperty, object, [key]);
  const slice = (text, end) => apply(stringSlice, text, [0, end]);
  const define = (object, key, value) =>
    defineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

  const handlers = { __proto__: null };
  // The run whose code is running. A context serves one run at a time.
  let current = null;

  // ---------------------------------------------------------------- texts

  // At most as many units as recorded, never half a surrogate pair (MW-42).
  const cut = (text) => {
    if (text.length <= LIMITS.reasonUnits) return text;
    const end = LIMITS.reasonUnits - 1;
    const splits = text[end - 1] >= '\ud800' && text[end - 1] <= '\udbff' && text[end] >= '\udc00' && text[end] <= '\udfff';
    return slice(text, splits ? end - 1 : end) + '\u2026';
  };

  // By code units, since indexing makes a string of each; and one look that is enough for plain text.
  const utf8 = (text) => {
    const units = text.length;
    if (apply(regExpExec, nonAscii, [text]) === null) return units;
    let bytes = 0;
    for (let i = 0; i < units; i += 1) {
      const unit = codeAt(text, i);
      if (unit < 0x80) bytes += 1;
      else if (unit < 0x800) bytes += 2;
      else if (unit >= 0xd800 && unit <= 0xdbff && i + 1 < units && isLow(codeAt(text, i + 1))) {
        bytes += 4;
        i += 1;
      } else bytes += 3;
    }
    return bytes;
  };
  const isLow = (unit) => unit >= 0xdc00 && unit <= 0xdfff;

  // Whether 'count' texts are more than a result may hold (MW-39). Bytes are counted only where units leave a doubt.
  const tooLarge = (texts, count) => {
    let units = 0;
    for (let i = 0; i < count; i += 1) units += texts[i].length;
    if (units > LIMITS.resultBytes) return true;
    if (units * 3 <= LIMITS.resultBytes) return false;
    let bytes = 0;
    for (let i = 0; i < count && bytes <= LIMITS.resultBytes; i += 1) bytes += utf8(texts[i]);
    return bytes > LIMITS.resultBytes;
  };

  const nameOfType = (value) => {
    if (value === null) return 'null';
    if (typeof value !== 'object') return typeof value;
    return isArray(value) ? 'array' : 'object';
  };

  // The text of a thrown value, without giving the plugin a say in it beyond a getter of its own (MW-54).
  const textOf = (thrown) => {
    try {
      if (thrown === null) return 'null';
      switch (typeof thrown) {
        case 'string': return cut(thrown);
        case 'undefined': case 'number': case 'boolean': case 'bigint': return cut('' + thrown);
        case 'object': {
          const message = thrown.message;
          if (typeof message === 'string' && message !== '') return cut(message);
          const name = thrown.name;
          return typeof name === 'string' && name !== '' ? cut(name) : 'object';
        }
        default: return typeof thrown;
      }
    } catch {
      return 'unreadable';
    }
  };

  // The engine says in a RangeError that a bound of the realm was reached; null for everything else.
  const boundReached = (thrown) => {
    try {
      if (!isObject(thrown) || getPrototypeOf(thrown) !== rangeErrorPrototype) return null;
      const message = thrown.message;
      if (message === 'Maximum call stack size exceeded') return 'stack';
      return message === 'Array buffer allocation failed' ? 'memory' : null;
    } catch {
      return null;
    }
  };

  // ---------------------------------------------------------------- warnings and the end of a run

  const entry = (code, detail) => '[' + quote(code) + (detail === null ? '' : ',' + quote(detail)) + ']';
  const warn = (state, code, detail) => {
    state.warned += (state.warned === '' ? '' : ',') + entry(code, detail);
  };
  const listed = (state) => (state.warned === '' ? '' : '[' + state.warned + ']');

  // What a run leaves when it never gets to its end.
  const noteDown = (state) => {
    const forgotten = state.madeToken ? (state.warned === '' ? '' : ',') + entry('cancel_not_returned', null) : '';
    state.run.note('[' + state.warned + forgotten + ']');
  };

  const unchanged = (state) => state.run.done('=' + listed(state));
  const observed = (state) => state.run.done('.' + listed(state));
  const rewrote = (state, patch) => state.run.done('~{' + patch + '}\n' + listed(state));
  const cancelled = (state, reason) => state.run.done('!' + (reason === null ? 'null' : quote(reason)) + '\n' + listed(state));
  const undecided = (state, code, detail) => {
    warn(state, code, detail);
    state.run.done('?' + listed(state));
  };
  const malformed = (state, detail) => undecided(state, 'handler_malformed', detail);

  // ---------------------------------------------------------------- cancel

  const toolsOf = (state) => {
    const cancel = (reason) => {
      const token = freeze({ __proto__: null });
      apply(tokenSet, tokens, [token, { __proto__: null, state, reason: textOfReason(reason), dropped: isDropped(reason) }]);
      state.madeToken = true;
      if (state.run.open) noteDown(state);
      return token;
    };
    return freeze({ cancel });
  };

  // MW-43: the plugin's own toString is never called.
  const isDropped = (reason) => isObject(reason) || typeof reason === 'symbol';
  const textOfReason = (reason) => {
    if (reason === null || reason === undefined || reason === '' || isDropped(reason)) return null;
    return '' + reason;
  };

  const cancelledBy = (state, token) => {
    if (token.dropped) warn(state, 'cancel_reason_dropped', null);
    if (token.reason !== null && token.reason.length > LIMITS.reasonUnits) {
      warn(state, 'cancel_reason_truncated', '' + token.reason.length);
    }
    cancelled(state, token.reason === null ? null : cut(token.reason));
  };

  // ---------------------------------------------------------------- results

  const settle = (state, result) => {
    const { hook } = state;
    const token = isObject(result) ? apply(tokenGet, tokens, [result]) : undefined;
    if (token !== undefined && hook.vetoable && token.state === state) return cancelledBy(state, token);
    if (state.madeToken) warn(state, 'cancel_not_returned', null);
    if (hook.shape === 'none') {
      if (token !== undefined && !hook.vetoable) warn(state, 'cancel_ignored', null);
      return observed(state);
    }
    if (token !== undefined && !hook.vetoable) return malformed(state, 'cancel_not_vetoable');
    if (result === undefined) return malformed(state, 'undefined');
    if (result === null) return malformed(state, 'null');
    if (hook.shape === 'patch') return settlePatch(state, result);
    return hook.only.type === 'texts' ? settleTexts(state, result) : settleText(state, result);
  };

  const settleText = (state, result) => {
    if (typeof result !== 'string') return malformed(state, 'wrong_type:' + nameOfType(result));
    const { name } = state.hook.only;
    if (result === state.seen[name]) return unchanged(state);
    if (tooLarge({ __proto__: null, 0: result }, 1)) return malformed(state, 'too_large');
    return rewrote(state, quote(name) + ':' + quote(result));
  };

  const settleTexts = (state, result) => {
    const { name } = state.hook.only;
    if (!isArray(result)) return malformed(state, 'wrong_type:' + nameOfType(result));
    const length = result.length;
    if (typeof length !== 'number') return malformed(state, 'unreadable');
    if (length > LIMITS.textsItems) return malformed(state, 'too_many_items');
    const before = state.seen[name];
    const items = { __proto__: null };
    let same = before.length === length;
    for (let i = 0; i < length; i += 1) {
      const item = hasOwn(result, i) ? result[i] : undefined;
      if (typeof item !== 'string') return malformed(state, 'item_type:' + i + ':' + nameOfType(item));
      same = same && item === before.items[i];
      items[i] = item;
    }
    if (same) return unchanged(state);
    if (tooLarge(items, length)) return malformed(state, 'too_large');
    let text = '';
    for (let i = 0; i < length; i += 1) text += (i === 0 ? '' : ',') + quote(items[i]);
    return rewrote(state, quote(name) + ':[' + text + ']');
  };

  const settlePatch = (state, result) => {
    const { hook, seen } = state;
    if (typeof result !== 'object') return malformed(state, 'wrong_type:' + typeof result);
    if (isArray(result)) return malformed(state, 'wrong_type:array');
    const names = keysOf(result);
    const count = names.length < LIMITS.patchKeys ? names.length : LIMITS.patchKeys;
    const texts = { __proto__: null };
    let textCount = 0;
    let patch = '';
    for (let i = 0; i < count; i += 1) {
      const name = names[i];
      let value = result[name];
      if (value === undefined) continue;
      const type = hook.mutable[name];
      if (type === undefined) {
        if (hook.keys[name] !== true) warn(state, 'unknown_key', cut(name));
        else if (value !== seen[name]) warn(state, 'readonly_field', name);
        continue;
      }
      const before = seen[name];
      if (value === null && before === null) continue;
      if (value === null) return malformed(state, 'field_type:' + name + ':null');
      if (before === null && hook.nullMeansNotApplicable) return malformed(state, 'field_not_applicable:' + name);
      if (typeof value !== (type === 'delay' ? 'number' : 'string')) return malformed(state, 'field_type:' + name + ':' + nameOfType(value));
      if (value === before) continue;
      if (type === 'delay') {
        if (!(value >= 0 && value <= LIMITS.maxDelaySeconds)) return malformed(state, 'out_of_range:' + name);
        value = round(value * 1000) / 1000 + 0;
        if (value === before) continue;
      } else {
        texts[textCount] = value;
        textCount += 1;
      }
      if (tooLarge(texts, textCount)) return malformed(state, 'too_large');
      patch += (patch === '' ? '' : ',') + quote(name) + ':' + quote(value);
    }
    return patch === '' ? unchanged(state) : rewrote(state, patch);
  };

  // ---------------------------------------------------------------- host

  const frozenDeep = (value) => {
    if (typeof value !== 'object' || value === null) return value;
    const names = keysOf(value);
    for (let i = 0; i < names.length; i += 1) frozenDeep(value[names[i]]);
    return freeze(value);
  };
  const config = frozenDeep(parse(quote(setup.config)));
  const granted = { __proto__: null };
  for (let i = 0; i < setup.permissions.length; i += 1) granted[setup.permissions[i]] = true;

  // A copy that stringifies to what it is, whatever the plugin did to prototypes. Throws on what JSON cannot say.
  const misfit = freeze({ __proto__: null });
  const plain = (value, depth) => {
    if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
    if (typeof value === 'number') {
      if (value !== value || value === Infinite || value === -Infinite) throw misfit;
      return value;
    }
    if (typeof value !== 'object' || depth > 32) throw misfit;
    return isArray(value) ? plainList(value, depth) : plainObject(value, depth);
  };
  const plainList = (value, depth) => {
    const copy = [];
    const length = value.length;
    if (typeof length !== 'number') throw misfit;
    for (let i = 0; i < length; i += 1) {
      const item = value[i];
      define(copy, i, item === undefined ? null : plain(item, depth + 1));
    }
    defineProperty(copy, 'toJSON', { __proto__: null, value: undefined, enumerable: false });
    return copy;
  };
  const plainObject = (value, depth) => {
    const prototype = getPrototypeOf(value);
    if (prototype !== null && prototype !== objectPrototype) throw misfit;
    const copy = { __proto__: null };
    const names = keysOf(value);
    for (let i = 0; i < names.length; i += 1) {
      const item = value[names[i]];
      if (item !== undefined) define(copy, names[i], plain(item, depth + 1));
    }
    return copy;
  };
  const plainArgs = (list) => {
    try {
      return plainList(list, 0);
    } catch {
      return null;
    }
  };

  const ask = async (state, member, args) => {
    try {
      return await state.run.call(member, args);
    } finally {
      current = state;
    }
  };
  const refused = (code) => ({ __proto__: null, refused: code });
  const isId = (value) => typeof value === 'string' && value !== '';

  const log = (state, level, message) => {
    if (!state.run.open || state.logLines >= LIMITS.logLines) return;
    state.logLines += 1;
    const text = isObject(message) || typeof message === 'symbol' ? nameOfType(message) : '' + message;
    state.run.emit('log', plainList([typeof level === 'string' ? slice(level, 32) : 'info', slice(text, LIMITS.logUnits)], 0));
  };

  const send = (state, target, text) => {
    if (!isId(target)) return ask(state, 'session.peer.send', refused('id_must_be_string'));
    if (typeof text !== 'string') return ask(state, 'session.peer.send', refused('text_must_be_string'));
    return ask(state, 'session.peer.send', plainList([target, text], 0));
  };

  const sshCommand = (state, command, options) => {
    const member = 'ssh.command';
    if (typeof command !== 'string' || command === '') return ask(state, member, refused('bad_command'));
    const seconds = secondsOf(options);
    if (seconds === null) return ask(state, member, refused('bad_timeout'));
    if (state.sshCalls >= LIMITS.sshCalls) return ask(state, member, refused('ssh_call_limit'));
    state.sshCalls += 1;
    if (seconds > LIMITS.sshMaxSeconds && state.run.open) {
      warn(state, 'ssh_timeout_clamped', null);
      noteDown(state);
    }
    const timeoutSeconds = seconds > LIMITS.sshMaxSeconds ? LIMITS.sshMaxSeconds : seconds;
    return ask(state, member, plainList([command, { __proto__: null, timeoutSeconds }], 0));
  };
  // Null: not a time (MW-89).
  const secondsOf = (options) => {
    if (options === undefined || options === null) return LIMITS.sshDefaultSeconds;
    if (typeof options !== 'object') return null;
    try {
      const seconds = options.timeoutSeconds;
      if (seconds === undefined) return LIMITS.sshDefaultSeconds;
      return typeof seconds === 'number' && seconds > 0 ? seconds : null;
    } catch {
      return null;
    }
  };

  const fetchOf = (state, url, options) => {
    if (typeof url !== 'string') return ask(state, 'fetch', refused('url_must_be_string'));
    const args = plainArgs(options === undefined ? [url] : [url, options]);
    return ask(state, 'fetch', args === null ? refused('bad_argument') : args);
  };
  const anyOf = (state, member, list) => {
    const args = plainArgs(list);
    return ask(state, member, args === null ? refused('bad_argument') : args);
  };

  // The members of this run's hook and grants (MW-70 to MW-73); what is not granted is not there.
  const hostOf = (state) => {
    const { view } = state;
    const host = { __proto__: null, log: (level, message) => log(state, level, message), config };
    if (view.session !== null) {
      host.session = freeze({
        __proto__: null,
        id: view.session,
        conversation: freeze({ __proto__: null, read: () => ask(state, 'session.conversation.read', plainList([], 0)) }),
        peer: freeze({ __proto__: null, send: (target, text) => send(state, target, text) }),
      });
    }
    if (view.workspace !== null) host.workspace = freeze({ __proto__: null, agentId: view.workspace });
    if (granted['host:agents:list']) {
      host.agents = freeze({ __proto__: null, list: () => ask(state, 'agents.list', plainList([], 0)) });
    }
    if (granted['host:fetch']) host.fetch = (url, options) => fetchOf(state, url, options);
    if (granted['host:llm']) host.llm = (...list) => anyOf(state, 'llm', list);
    if (granted['host:decide']) host.decide = (...list) => anyOf(state, 'decide', list);
    if (view.ssh && granted['host:ssh:command']) {
      host.ssh = freeze({ __proto__: null, command: (command, options) => sshCommand(state, command, options) });
    }
    return freeze(host);
  };

  // Outside a run (while the source is evaluated) there is only the configuration.
  const loadingHost = freeze({ __proto__: null, config });
  const hostProperty = {
    __proto__: null,
    get: () => {
      if (current === null) return loadingHost;
      if (current.host === null) current.host = hostOf(current);
      return current.host;
    },
    set: () => undefined,
    enumerable: false,
    configurable: true,
  };

  // ---------------------------------------------------------------- one run

  const contextOf = (input, patches) => {
    const context = parse(input);
    if (patches === '' || patches === '[]') return context;
    const list = parse(patches);
    for (let i = 0; i < list.length; i += 1) {
      const names = keysOf(list[i]);
      for (let k = 0; k < names.length; k += 1) define(context, names[k], list[i][names[k]]);
    }
    return context;
  };

  // What the result is compared with, out of the plugin's reach.
  const seenOf = (hook, context) => {
    if (hook.shape === 'none') return null;
    const seen = { __proto__: null };
    if (hook.shape === 'value') {
      const { name } = hook.only;
      seen[name] = hook.only.type === 'texts' ? copyOfList(context[name]) : context[name];
      return seen;
    }
    const names = keysOf(context);
    for (let i = 0; i < names.length; i += 1) seen[names[i]] = context[names[i]];
    return seen;
  };
  const copyOfList = (list) => {
    const items = { __proto__: null };
    for (let i = 0; i < list.length; i += 1) items[i] = list[i];
    return { length: list.length, items };
  };

  // The same text comes with every run of a conversation.
  let lastArgs = '';
  let lastView = null;
  const viewOf = (args) => {
    if (args !== lastArgs) {
      lastView = parse(args);
      lastArgs = args;
    }
    return lastView;
  };

  // Every property of a run's state is its own from the start, so no lookup ever leaves it.
  const call = async (name, input, patches, args, run) => {
    const hook = HOOKS[name];
    const handler = handlers[name];
    const state = {
      run, hook, view: null, seen: null, host: null, warned: '', madeToken: false, sshCalls: 0, logLines: 0,
    };
    try {
      if (hook === undefined || handler === undefined) return malformed(state, 'unreadable');
      state.view = viewOf(args);
      const context = contextOf(input, patches);
      state.seen = seenOf(hook, context);
      current = state;
      defineProperty(world, 'host', hostProperty);
      let result;
      try {
        result = await (hook.tools ? handler(context, toolsOf(state)) : handler(context));
      } catch (thrown) {
        if (state.madeToken) warn(state, 'cancel_not_returned', null);
        const bound = boundReached(thrown);
        if (bound !== null) return undecided(state, 'handler_crashed', bound);
        return undecided(state, 'handler_threw', textOf(thrown));
      }
      settle(state, result);
    } catch {
      malformed(state, 'unreadable');
    } finally {
      // A warm realm does not keep the values of its last run.
      state.seen = null;
    }
  };

  // ---------------------------------------------------------------- registration

  const report = () => {
    let hooks = '';
    let notFunctions = '';
    let unknown = '';
    const add = (list, name) => list + (list === '' ? '' : ',') + quote(name);
    try {
      const registered = world.middleware;
      const names = isObject(registered) ? keysOf(registered) : [];
      for (let i = 0; i < names.length && i < LIMITS.patchKeys; i += 1) {
        const name = names[i];
        let value;
        try {
          value = registered[name];
        } catch {
          value = undefined;
        }
        if (HOOKS[name] === undefined) unknown = add(unknown, cut(name));
        else if (typeof value !== 'function') notFunctions = add(notFunctions, name);
        else {
          handlers[name] = value;
          hooks = add(hooks, name);
        }
      }
    } catch {
      // What cannot be read registers nothing.
    }
    return '{"hooks":[' + hooks + '],"notFunctions":[' + notFunctions + '],"unknown":[' + unknown + ']}';
  };

  define(world, 'middleware', {});
  defineProperty(world, 'host', hostProperty);
  return { __proto__: null, report, call };
})`;

const literal = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(literal).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const parts = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${literal(item)}`);
  // Without a prototype: a key of a plugin's is never found where the catalogue has none.
  return `{${['__proto__:null', ...parts].join(',')}}`;
};

const shapeOf = ({ mutable }: MiddlewareHook): 'none' | 'value' | 'patch' => {
  if (mutable.length === 0) return 'none';
  return mutable.length === 1 ? 'value' : 'patch';
};

const typeOf = (hook: MiddlewareHook, name: string): string =>
  hook.context.find((field) => field.name === name)?.type ?? 'text';

const guestHook = (hook: MiddlewareHook): object => ({
  shape: shapeOf(hook),
  keys: Object.fromEntries(hook.context.map(({ name }) => [name, true])),
  mutable: Object.fromEntries(hook.mutable.map((name) => [name, typeOf(hook, name)])),
  only: hook.mutable.length === 1 ? { name: hook.mutable[0], type: typeOf(hook, hook.mutable[0] ?? '') } : null,
  nullMeansNotApplicable: hook.nullMeansNotApplicable,
  vetoable: hook.vetoable,
  tools: hook.hasTools,
});

const guestLimits = {
  reasonUnits: limits.reasonUnits,
  resultBytes: limits.resultBytes,
  textsItems: limits.textsItems,
  patchKeys: limits.patchKeys,
  maxDelaySeconds: limits.maxDelaySeconds,
  sshCalls: limits.ssh.callsPerRun,
  sshDefaultSeconds: limits.ssh.defaultSeconds,
  sshMaxSeconds: limits.ssh.maxSeconds,
  // Lines that leave the realm in one run. The platform keeps 100 of 8 KiB and counts the rest (api.md, host calls).
  logLines: 1000,
  logUnits: 8 * 1024 + 1,
};

/** Source of the guest program: one function expression. */
export const guestProgram: string = program
  .replace('/*HOOKS*/', () =>
    literal(Object.fromEntries([...catalogue].map(([name, hook]) => [name, guestHook(hook)]))),
  )
  .replace('/*LIMITS*/', () => literal(guestLimits));
