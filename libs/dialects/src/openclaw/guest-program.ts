import { catalogue } from './catalogue.js';
import type { OpenClawHook } from './catalogue.js';

/**
 * The program that runs in every realm of an OpenClaw plugin, before the plugin's own code (guest-kit.md beside the
 * sandbox). It gives the plugin its `api` and the modules of `openclaw/plugin-sdk/*`, keeps what is registered, calls
 * one handler at a time with its own copy of event and context, and says what came back.
 *
 * What a handler gave leaves as a tag and text (`read.ts` reads it): `=` nothing · `.` observed · `+` a contribution,
 * JSON · `!` the same, and it ends the chain · `~` a patch of the event's own fields, a line feed, the contribution ·
 * `^` a claim · `-` nobody is there for it · `?` it did not decide, JSON of `[code, text]`. A contribution is followed
 * by a line feed and JSON of the warnings, or by nothing.
 *
 * Written so that nothing a plugin does to its realm changes it: intrinsics are captured, text is put together by `+`,
 * and objects that are looked into have no prototype.
 */
const program = String.raw`(function (kit, setup) {
  const HOOKS = /*HOOKS*/;
  const LIMITS = /*LIMITS*/;
  const world = globalThis;
  const { parse, stringify } = kit.JSON;
  const { keys: keysOf, freeze, create } = kit.Object;
  const { defineProperty, getOwnPropertyDescriptor } = kit.Reflect;
  const { isArray } = kit.Array;
  const { floor, random, min } = kit.Math;
  const { apply, Proxy, Map: Map_, WeakMap: WeakMap_, Error: Error_, TypeError: TypeError_, then } = kit;
  const objectToString = kit.uncurry(Object.prototype.toString);
  const slice = kit.uncurry(String.prototype.slice);
  const trim = kit.uncurry(String.prototype.trim);
  const startsWith = kit.uncurry(String.prototype.startsWith);
  const toText = kit.uncurry(Number.prototype.toString);
  const datePrototype = Date.prototype;
  const dateTime = kit.uncurry(datePrototype.getTime);
  const Date_ = Date;
  const WorldMap = Map;
  const WorldSet = Set;
  const mapEach = kit.uncurry(Map.prototype.forEach);
  const setEach = kit.uncurry(Set.prototype.forEach);
  const errorPrototype = Error.prototype;
  const isPrototypeOf = kit.uncurry(Object.prototype.isPrototypeOf);
  const rangeErrorPrototype = RangeError.prototype;
  const isError = (value) => isPrototypeOf(errorPrototype, value);
  const { toPrimitive } = Symbol;

  // Awaiting a promise looks at these; a plugin may replace 'then', not how an await finds its promise.
  defineProperty(Promise.prototype, 'constructor', { __proto__: null, value: Promise, writable: false, enumerable: false, configurable: false });

  const define = (object, key, value) =>
    defineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  const hide = (object, key, value) =>
    defineProperty(object, key, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';
  const quote = (text) => stringify('' + text);
  const nothing = () => undefined;

  // The run whose code is running; a context serves one run at a time. Null while the source is evaluated.
  let current = null;
  let isLoading = true;

  // ---------------------------------------------------------------- texts of what was thrown

  const codeOf = (thrown) => {
    const code = thrown.code;
    return typeof code === 'string' ? code : typeof code === 'number' ? '' + code : '';
  };
  // As the real runner says it: the message, then those of its causes.
  const causesOf = (thrown) => {
    let text = '' + (thrown.message || thrown.name || 'Error');
    const said = { __proto__: null };
    said[text] = true;
    const add = (message) => {
      if (message === '' || said[message] === true) return;
      text += ' | ' + message;
      said[message] = true;
    };
    let cause = thrown.cause;
    for (let depth = 0; depth < 10 && cause; depth += 1) {
      if (isError(cause)) {
        add('' + cause.message);
        add(codeOf(cause));
        cause = cause.cause;
      } else {
        if (typeof cause === 'string') add(cause);
        break;
      }
    }
    return text;
  };
  const cut = (text) => (text.length <= LIMITS.textUnits ? text : slice(text, 0, LIMITS.textUnits));
  const textOf = (thrown) => {
    try {
      if (isError(thrown)) return cut(causesOf(thrown));
      if (typeof thrown === 'string') return cut(thrown);
      if (typeof thrown === 'number' || typeof thrown === 'boolean' || typeof thrown === 'bigint') return cut('' + thrown);
      const text = stringify(thrown);
      return typeof text === 'string' ? cut(text) : objectToString(thrown);
    } catch {
      return 'unreadable';
    }
  };
  // The hooks that run inline say it with the error's name.
  const inlineTextOf = (thrown) => {
    try {
      return cut(isError(thrown) ? '' + (thrown.name || 'Error') + (thrown.message ? ': ' + thrown.message : '') : kit.String(thrown));
    } catch {
      return 'unreadable';
    }
  };
  // The engine says in a RangeError that a bound of the realm was reached; null for everything else.
  const boundReached = (thrown) => {
    try {
      if (!isPrototypeOf(rangeErrorPrototype, thrown)) return null;
      if (thrown.message === 'Maximum call stack size exceeded') return 'stack';
      return thrown.message === 'Array buffer allocation failed' ? 'memory' : null;
    } catch {
      return null;
    }
  };

  // ---------------------------------------------------------------- what is registered

  const handlers = { __proto__: null };
  let registrations = 0;
  const lists = { __proto__: null, handlers: '', policies: '', extensions: '', lifecycles: '', unknown: '', notFunctions: '', faults: '', meaningless: '', deprecated: '' };
  const listed = { __proto__: null };
  const add = (list, text) => {
    if (registrations >= LIMITS.registrations) return;
    registrations += 1;
    lists[list] += (lists[list] === '' ? '' : ',') + text;
  };
  const addOnce = (list, name) => {
    const key = list + ' ' + name;
    if (!isLoading || listed[key] === true) return;
    listed[key] = true;
    add(list, quote(cut(name)));
  };
  const meaningless = (name) => addOnce('meaningless', name);
  const fault = (text) => addOnce('faults', text);

  // JSON of an option, or nothing where JSON cannot say it.
  const option = (options, name) => {
    try {
      const text = stringify(options[name]);
      return typeof text === 'string' && text !== 'null' ? ',' + quote(name) + ':' + text : '';
    } catch {
      return '';
    }
  };
  const optionNames = ['priority', 'timeoutMs', 'matcher', 'eligibleTriggers', 'eligibleDispatchKinds', 'requiresToolAuthority', 'registrationId'];

  const on = (name, handler, options) => {
    if (typeof name !== 'string' || HOOKS[name] === undefined) return addOnce('unknown', typeof name === 'string' ? name : typeof name);
    if (typeof handler !== 'function') return addOnce('notFunctions', name);
    if (!isLoading) return undefined;
    const id = name + '#' + registrations;
    handlers[id] = { __proto__: null, hook: HOOKS[name], name, handler, policy: null };
    let text = '{"id":' + quote(id) + ',"hook":' + quote(name);
    if (isObject(options)) for (let i = 0; i < optionNames.length; i += 1) text += option(options, optionNames[i]);
    add('handlers', text + '}');
    return undefined;
  };

  const nonBlank = (value) => (typeof value === 'string' ? trim(value) : '');

  const registerTrustedToolPolicy = (policy) => {
    if (!isLoading) return undefined;
    const id = isObject(policy) ? nonBlank(policy.id) : '';
    if (id === '' || nonBlank(policy.description) === '' || typeof policy.evaluate !== 'function') {
      return fault('a trusted tool policy needs id, description and evaluate()');
    }
    const name = 'policy#' + registrations;
    handlers[name] = { __proto__: null, hook: HOOKS.before_tool_call, name: 'policy', handler: policy.evaluate, policy: { __proto__: null, id, self: policy } };
    add('policies', '{"handler":' + quote(name) + ',"id":' + quote(id) + option(policy, 'matcher') + '}');
    return undefined;
  };

  // Session extensions and lifecycles, by the names under which they are asked for.
  const kept = { __proto__: null };
  const kind = (value) => (value === undefined ? 'absent' : typeof value === 'function' ? (objectToString(value) === '[object AsyncFunction]' ? 'async' : 'function') : 'other');

  const registerSessionExtension = (extension) => {
    if (!isLoading) return undefined;
    if (!isObject(extension)) return fault('a session extension needs namespace and description');
    const name = 'extension#' + registrations;
    kept[name] = { __proto__: null, self: extension, project: extension.project, cleanup: extension.cleanup };
    add('extensions', '{"handler":' + quote(name) + ',"namespace":' + quote(nonBlank(extension.namespace)) + ',"description":' + quote(nonBlank(extension.description)) +
      ',"project":' + quote(kind(extension.project)) + ',"cleanup":' + quote(kind(extension.cleanup)) + option(extension, 'sessionEntrySlotKey') + '}');
    return undefined;
  };

  const registerRuntimeLifecycle = (lifecycle) => {
    if (!isLoading) return undefined;
    const id = isObject(lifecycle) ? nonBlank(lifecycle.id) : '';
    if (id === '') return fault('a runtime lifecycle needs an id');
    const name = 'lifecycle#' + registrations;
    kept[name] = { __proto__: null, self: lifecycle, project: undefined, cleanup: lifecycle.cleanup };
    add('lifecycles', '{"handler":' + quote(name) + ',"id":' + quote(id) + ',"cleanup":' + quote(kind(lifecycle.cleanup)) + '}');
    return undefined;
  };

  const enqueue = (injection) => {
    const state = current;
    const refused = () => ({ enqueued: false, id: '', sessionKey: isObject(injection) && typeof injection.sessionKey === 'string' ? injection.sessionKey : '' });
    if (state === null || !state.run.open) return kit.resolve(refused());
    let text;
    try {
      text = stringify(injection);
    } catch {
      text = undefined;
    }
    if (typeof text !== 'string') return kit.resolve(refused());
    return then(state.run.call('injections.enqueue', parse('[' + text + ']')), undefined, refused);
  };

  // ---------------------------------------------------------------- what has no meaning here

  // Calls do nothing and give nothing, so that a guard that asks something which is not here fails rather than passes.
  const inert = (path) =>
    new Proxy(nothing, {
      __proto__: null,
      get: (_target, key) => (typeof key !== 'string' || key === 'then' || key === 'prototype' ? undefined : inert(path + '.' + key)),
      set: () => true,
      apply: () => (meaningless(path), undefined),
      construct: () => (meaningless(path), inert(path)),
    });
  const unavailable = (path) => {
    const refuse = () => {
      throw new Error_(path + ' is not available to plugins here');
    };
    return new Proxy(refuse, {
      __proto__: null,
      get: (_target, key) => (typeof key !== 'string' || key === 'then' || key === 'prototype' ? undefined : unavailable(path + '.' + key)),
      set: () => true,
      apply: refuse,
      construct: refuse,
    });
  };
  // A module whose named imports are whatever is asked for: known members are its own, all others come from its prototype.
  const moduleOf = (known, other) => {
    const prototype = new Proxy(create(null), {
      __proto__: null,
      get: (_target, key) => (typeof key !== 'string' || key === '__esModule' || key === 'then' ? undefined : other(key)),
      has: (_target, key) => typeof key === 'string' && key !== '__esModule',
    });
    const module = create(prototype);
    const names = keysOf(known);
    for (let i = 0; i < names.length; i += 1) define(module, names[i], known[names[i]]);
    return module;
  };

  const definePluginEntry = (entry) => entry;
  const emptyPluginConfigSchema = () => ({ type: 'object', additionalProperties: false, properties: {} });
  const same = (value) => value;
  const entryModule = {
    __proto__: null, definePluginEntry, defineToolPlugin: same, emptyPluginConfigSchema,
    buildJsonPluginConfigSchema: (schema) => ({ jsonSchema: schema }), buildPluginConfigSchema: (schema) => ({ schema }),
  };
  const sdk = (path) =>
    startsWith(path, 'openclaw')
      ? moduleOf(entryModule, (key) => inert(path + '.' + key))
      : moduleOf({ __proto__: null }, (key) => unavailable(path + '.' + key));

  // ---------------------------------------------------------------- logging and timers

  const wordsOf = (list) => {
    let text = '';
    for (let i = 0; i < list.length && text.length < LIMITS.logUnits; i += 1) {
      const item = list[i];
      let word;
      try {
        word = typeof item === 'string' ? item : isError(item) ? textOf(item) : isObject(item) ? stringify(item) : kit.String(item);
      } catch {
        word = 'unreadable';
      }
      text += (i === 0 ? '' : ' ') + word;
    }
    return slice(text, 0, LIMITS.logUnits);
  };
  const listOf = (first, second) => {
    const list = [];
    define(list, 0, first);
    if (second !== undefined) define(list, 1, second);
    hide(list, 'toJSON', undefined);
    return list;
  };
  const logAt = (level) => (...list) => {
    const state = current;
    if (state === null || !state.run.open || state.logLines >= LIMITS.logLines) return undefined;
    state.logLines += 1;
    state.run.emit('log', listOf(level, wordsOf(list)));
    return undefined;
  };
  const logger = freeze({ __proto__: null, debug: logAt('debug'), info: logAt('info'), warn: logAt('warn'), error: logAt('error'), trace: logAt('debug'), fatal: logAt('error'), isDebugEnabled: () => false, child: () => logger });

  const timers = new Map_();
  let timerCount = 0;
  const timerOf = (handle) => (isObject(handle) ? handle.id : handle);
  const stopTimer = (handle) => {
    timers.delete(timerOf(handle));
  };
  const startTimer = (callback, ms, repeats, list) => {
    timerCount += 1;
    const id = timerCount;
    const handle = { id, ref: () => handle, unref: () => handle, hasRef: () => true, refresh: () => handle, close: () => (stopTimer(id), handle) };
    hide(handle, toPrimitive, () => id);
    const state = current;
    if (state === null || !state.run.open) {
      meaningless(repeats ? 'setInterval outside a handler' : 'setTimeout outside a handler');
      return handle;
    }
    if (typeof callback !== 'function') throw new TypeError_('the callback must be a function');
    const given = +ms;
    const wait = given >= 1 ? min(floor(given), LIMITS.timerMs) : 1;
    timers.set(id, true);
    const arm = () => {
      then(state.run.call('timer', listOf(wait)), ring, nothing);
    };
    const ring = () => {
      if (timers.get(id) !== true || !state.run.open) return;
      if (!repeats) timers.delete(id);
      try {
        apply(callback, undefined, list);
      } catch {
        // What a timer's callback throws is nobody's result.
      }
      if (repeats && timers.get(id) === true) arm();
    };
    arm();
    return handle;
  };

  // ---------------------------------------------------------------- the world of a plugin

  const cloneOf = (value, seen) => {
    if (!isObject(value)) {
      if (typeof value === 'symbol') throw new TypeError_('a symbol cannot be cloned');
      return value;
    }
    if (typeof value === 'function') throw new TypeError_('a function cannot be cloned');
    const known = seen.get(value);
    if (known !== undefined) return known;
    if (isPrototypeOf(datePrototype, value)) return new Date_(dateTime(value));
    if (isArray(value)) {
      const list = [];
      seen.set(value, list);
      for (let i = 0; i < value.length; i += 1) define(list, i, cloneOf(value[i], seen));
      return list;
    }
    const kind = objectToString(value);
    if (kind === '[object Map]') {
      const copy = new WorldMap();
      seen.set(value, copy);
      mapEach(value, (item, key) => copy.set(cloneOf(key, seen), cloneOf(item, seen)));
      return copy;
    }
    if (kind === '[object Set]') {
      const copy = new WorldSet();
      seen.set(value, copy);
      setEach(value, (item) => copy.add(cloneOf(item, seen)));
      return copy;
    }
    const copy = {};
    seen.set(value, copy);
    const names = keysOf(value);
    for (let i = 0; i < names.length; i += 1) define(copy, names[i], cloneOf(value[names[i]], seen));
    return copy;
  };

  class AbortSignal {
    #aborted = false;
    #reason = undefined;
    #run = null;
    #listeners = [];
    onabort = null;
    static of(run) {
      const signal = new AbortSignal();
      signal.#run = run;
      return signal;
    }
    static abortNow(signal, reason) {
      if (signal.#aborted) return;
      signal.#aborted = true;
      signal.#reason = reason === undefined ? new Error_('This operation was aborted') : reason;
      const told = { type: 'abort', target: signal };
      if (typeof signal.onabort === 'function') signal.onabort(told);
      for (let i = 0; i < signal.#listeners.length; i += 1) signal.#listeners[i](told);
    }
    get aborted() {
      return this.#aborted || (this.#run !== null && !this.#run.open);
    }
    get reason() {
      return this.#reason;
    }
    throwIfAborted() {
      if (this.aborted) throw this.#reason ?? new Error_('This operation was aborted');
    }
    addEventListener(type, listener) {
      if (type === 'abort' && typeof listener === 'function') define(this.#listeners, this.#listeners.length, listener);
    }
    removeEventListener(_type, listener) {
      const kept = [];
      for (let i = 0; i < this.#listeners.length; i += 1) if (this.#listeners[i] !== listener) define(kept, kept.length, this.#listeners[i]);
      this.#listeners = kept;
    }
  }
  const { of: signalOf, abortNow } = AbortSignal;
  class AbortController {
    signal = new AbortSignal();
    abort(reason) {
      abortNow(this.signal, reason);
    }
  }
  delete AbortSignal.of;
  delete AbortSignal.abortNow;

  const globals = {
    __proto__: null,
    setTimeout: (callback, ms, ...list) => startTimer(callback, ms, false, list),
    setInterval: (callback, ms, ...list) => startTimer(callback, ms, true, list),
    setImmediate: (callback, ...list) => startTimer(callback, 1, false, list),
    clearTimeout: stopTimer,
    clearInterval: stopTimer,
    clearImmediate: stopTimer,
    queueMicrotask: (callback) => {
      then(kit.resolve(undefined), callback, nothing);
    },
    structuredClone: (value) => cloneOf(value, new WeakMap_()),
    console: freeze({ __proto__: null, log: logAt('info'), info: logAt('info'), debug: logAt('debug'), warn: logAt('warn'), error: logAt('error'), trace: logAt('debug'), dir: logAt('info'), assert: nothing, table: nothing, group: nothing, groupEnd: nothing, time: nothing, timeEnd: nothing }),
    process: { env: {}, platform: 'linux', arch: 'x64', version: 'v22.0.0', versions: { node: '22.0.0' }, argv: [], pid: 1, cwd: () => '/', uptime: () => 0, on: nothing, off: nothing, once: nothing, emitWarning: nothing, nextTick: (callback, ...list) => then(kit.resolve(undefined), () => callback(...list), nothing) },
    AbortController,
    AbortSignal,
    global: world,
  };
  const globalNames = keysOf(globals);
  for (let i = 0; i < globalNames.length; i += 1) hide(world, globalNames[i], globals[globalNames[i]]);

  const configText = stringify(setup.config);
  const config = () => parse(configText);

  const namespaceOf = (path, known) =>
    new Proxy(known, {
      __proto__: null,
      get: (target, key) => {
        if (typeof key !== 'string' || key === 'then') return undefined;
        const own = getOwnPropertyDescriptor(target, key);
        return own === undefined ? inert(path + '.' + key) : own.value;
      },
    });
  const deprecated = (name, fn) => (...list) => (addOnce('deprecated', name), apply(fn, undefined, list));
  const apiOf = (manifest, entry) =>
    namespaceOf('api', {
      __proto__: null,
      id: setup.pluginId ?? manifest.id ?? (isObject(entry) ? entry.id : undefined) ?? '',
      name: (isObject(entry) ? entry.name : undefined) ?? manifest.name ?? '',
      version: manifest.version,
      description: (isObject(entry) ? entry.description : undefined) ?? manifest.description,
      source: 'hookledger',
      rootDir: undefined,
      registrationMode: 'full',
      config: freeze({ plugins: freeze({ entries: freeze({}) }) }),
      pluginConfig: config(),
      logger,
      on,
      registerHook: (events) => {
        const names = isArray(events) ? events : [events];
        for (let i = 0; i < names.length; i += 1) meaningless('api.registerHook ' + (typeof names[i] === 'string' ? names[i] : typeof names[i]));
      },
      registerTrustedToolPolicy,
      registerSessionExtension: deprecated('api.registerSessionExtension', registerSessionExtension),
      enqueueNextTurnInjection: deprecated('api.enqueueNextTurnInjection', enqueue),
      registerRuntimeLifecycle: deprecated('api.registerRuntimeLifecycle', registerRuntimeLifecycle),
      lifecycle: namespaceOf('api.lifecycle', { __proto__: null, registerRuntimeLifecycle }),
      session: namespaceOf('api.session', {
        __proto__: null,
        state: namespaceOf('api.session.state', { __proto__: null, registerSessionExtension }),
        workflow: namespaceOf('api.session.workflow', { __proto__: null, enqueueNextTurnInjection: enqueue }),
      }),
      resolvePath: (path) => path,
    });

  let entryId = '';
  let started = false;
  let asyncRegister = false;
  let declared = '[]';
  let manifestId = '';
  // Called by a line behind the plugin's own modules, with what its entry exports and its manifest.
  const start = (exported, manifest) => {
    if (started) return;
    started = true;
    declared = stringify(manifest.contracts?.trustedToolPolicies ?? []);
    manifestId = typeof manifest.id === 'string' ? manifest.id : '';
    let entry = exported;
    for (let depth = 0; depth < 3 && isObject(entry) && typeof entry !== 'function' && isObject(entry.default); depth += 1) entry = entry.default;
    const register = typeof entry === 'function' ? entry : isObject(entry) ? (entry.register ?? entry.activate) : undefined;
    if (typeof register !== 'function') throw new Error_('the entry exports no plugin: export default definePluginEntry({ id, register(api) { … } })');
    entryId = typeof entry.id === 'string' ? entry.id : '';
    const result = apply(register, typeof entry === 'function' ? undefined : entry, [apiOf(manifest, entry)]);
    if (isObject(result) && typeof result.then === 'function') {
      asyncRegister = true;
      then(result, nothing, nothing);
    }
  };
  hide(world, LIMITS.start, start);
  hide(world, LIMITS.sdk, sdk);

  const report = () => {
    isLoading = false;
    let text = '{"entryId":' + quote(entryId) + ',"manifestId":' + quote(manifestId) + ',"declared":' + declared + ',"started":' + started + ',"asyncRegister":' + asyncRegister;
    const names = keysOf(lists);
    for (let i = 0; i < names.length; i += 1) text += ',' + quote(names[i]) + ':[' + lists[names[i]] + ']';
    return text + '}';
  };

  // ---------------------------------------------------------------- one run

  const warn = (state, code, detail) => {
    state.warned += (state.warned === '' ? '' : ',') + '[' + quote(code) + (detail === null ? '' : ',' + quote(detail)) + ']';
  };
  const ended = (state, raw) => state.run.done(raw + '\n' + (state.warned === '' ? '' : '[' + state.warned + ']'));
  const nothingSaid = (state) => state.run.done(state.warned === '' ? '=' : '=\n[' + state.warned + ']');
  const undecided = (state, code, text) => state.run.done('?[' + quote(code) + ',' + quote(text) + ']');
  const misfit = freeze({ __proto__: null });
  const json = (value) => {
    const text = stringify(value);
    if (typeof text === 'string' && text.length > LIMITS.resultUnits) throw misfit;
    return text;
  };
  const field = (text, name, value) => (value === undefined ? text : text + (text === '' ? '' : ',') + quote(name) + ':' + value);

  // Resolutions that a plugin waits for, by ticket; the oldest go first.
  const tickets = new Map_();
  let ticketCount = 0;
  let oldestTicket = 0;
  const ticketNames = { __proto__: null };
  const ticketFor = (callback) => {
    const ticket = toText(floor(random() * 4503599627370496), 36) + toText(floor(random() * 4503599627370496), 36);
    tickets.set(ticket, callback);
    ticketNames[ticketCount] = ticket;
    ticketCount += 1;
    if (ticketCount - oldestTicket > LIMITS.tickets) {
      tickets.delete(ticketNames[oldestTicket]);
      delete ticketNames[oldestTicket];
      oldestTicket += 1;
    }
    return ticket;
  };
  const approvalText = (request) => {
    if (!request) return undefined;
    if (typeof request !== 'object') return '{}';
    let text = '';
    const names = keysOf(request);
    for (let i = 0; i < names.length; i += 1) {
      const value = request[names[i]];
      if (names[i] === 'onResolution') {
        if (typeof value === 'function') text = field(text, 'onResolution', quote(ticketFor(value)));
      } else text = field(text, names[i], json(value));
    }
    return '{' + text + '}';
  };

  const isPlain = (value) => {
    if (typeof value !== 'object' || value === null || isArray(value)) return false;
    const kind = objectToString(value);
    return kind === '[object Object]';
  };

  const readFields = (state, result) => {
    const { hook } = state;
    let text = '';
    for (let i = 0; i < hook.fields.length; i += 1) {
      const name = hook.fields[i];
      const value = result[name];
      text = field(text, name, name === 'requireApproval' ? approvalText(value) : json(value));
    }
    const stops = (hook.stops === 'block' && result.block === true) || (hook.stops === 'cancel' && result.cancel === true);
    const chains = hook.chained !== null && state.view.chains && result[hook.chained] !== undefined && result[hook.chained] !== null;
    if (chains && !stops) return ended(state, '~{' + quote(hook.chained) + ':' + json(result[hook.chained]) + '}\n{' + text + '}');
    return ended(state, (stops ? '!{' : '+{') + text + '}');
  };

  const readPayload = (state, result) => {
    if (!result && !state.view.falsyCounts) return nothingSaid(state);
    let text = '';
    let payload;
    if (result.payload !== undefined) {
      const { trustedLocalMedia: _hidden, ...visible } = result.payload;
      if (result.payload === null) throw new TypeError_('the payload is null');
      payload = json(visible);
      text = field(text, 'payload', payload);
    }
    text = field(field(text, 'cancel', json(result.cancel)), 'reason', json(result.reason));
    if (result.cancel === true) return ended(state, '!{' + text + '}');
    if (payload === undefined) return ended(state, '+{' + text + '}');
    return ended(state, '~{"payload":' + payload + '}\n{' + text + '}');
  };

  const readEnv = (state, result) => {
    let text = '';
    if (typeof result === 'object') {
      const names = keysOf(result);
      for (let i = 0; i < names.length; i += 1) text = field(text, names[i], json(result[names[i]]) ?? 'null');
    }
    return ended(state, '+{"env":{' + text + '}}');
  };

  const blockKeys = { __proto__: null, outcome: true, reason: true, message: true, category: true, metadata: true };
  const isDecision = (value) => {
    if (typeof value !== 'object' || value === null) return false;
    const names = keysOf(value);
    if (value.outcome === 'pass') return names.length === 1;
    if (value.outcome !== 'block') return false;
    for (let i = 0; i < names.length; i += 1) if (blockKeys[names[i]] !== true) return false;
    if (nonBlank(value.reason) === '') return false;
    if ('message' in value && nonBlank(value.message) === '') return false;
    if ('category' in value && nonBlank(value.category) === '') return false;
    return !('metadata' in value) || (typeof value.metadata === 'object' && value.metadata !== null && !isArray(value.metadata));
  };
  const invalid = '{"outcome":"block","reason":' + quote(LIMITS.invalidDecision) + '}';
  const readRun = (state, result) => {
    const good = isDecision(result);
    const blocks = !good || result.outcome === 'block';
    return ended(state, (blocks ? '!' : '+') + '{"outcome":"' + (blocks ? 'block' : 'pass') + '","decision":' + (good ? json(result) : invalid) + '}');
  };

  const readPolicy = (state, result) => {
    if (!result) return nothingSaid(state);
    const refused = 'blocked by ' + state.policy.id;
    if (!isObject(result)) throw misfit;
    if ('allow' in result && result.allow === false) return ended(state, '!{"block":true,"blockReason":' + (json(result.reason ?? refused) ?? quote(refused)) + '}');
    if ('block' in result && result.block === true) return ended(state, '!{"block":true,"blockReason":' + (json(result.blockReason ?? refused) ?? quote(refused)) + '}');
    let text = '';
    let params;
    if ('params' in result && isPlain(result.params)) {
      params = json(result.params);
      text = field(text, 'params', params);
    }
    if ('requireApproval' in result) text = field(text, 'requireApproval', approvalText(result.requireApproval));
    if (params === undefined) return text === '' ? nothingSaid(state) : ended(state, '+{' + text + '}');
    return ended(state, '~{"params":' + params + '}\n{' + text + '}');
  };

  const readMessage = (state, result, given, before) => {
    if (state.hook.stops === 'block' && result && result.block) return ended(state, '!null');
    const message = result ? result.message : undefined;
    if (!message) return nothingSaid(state);
    const text = json(message);
    if (text === undefined || (message === given && text === before)) return nothingSaid(state);
    return ended(state, '~{"message":' + text + '}\nnull');
  };

  const settle = (state, result) => {
    switch (state.hook.mode) {
      case 'observe':
        return state.run.done('.');
      case 'claim':
        return result && result.handled ? ended(state, '^' + (json(result) ?? '{}')) : nothingSaid(state);
      case 'evaluate':
        return result ? ended(state, '+' + (json(result) ?? 'null')) : nothingSaid(state);
    }
    if (state.policy !== null) return readPolicy(state, result);
    if (result === undefined) return nothingSaid(state);
    if (state.hook.reads === 'run') return readRun(state, result);
    if (result === null) return nothingSaid(state);
    if (state.hook.reads === 'payload') return readPayload(state, result);
    if (state.hook.reads === 'env') return readEnv(state, result);
    return readFields(state, result);
  };

  const failed = (state, thrown) => {
    if (thrown === misfit) return undecided(state, 'handler_malformed', 'what it gave is too large');
    const bound = boundReached(thrown);
    if (bound !== null) return undecided(state, 'handler_crashed', bound);
    if (state.policy !== null) {
      warn(state, 'handler_threw', textOf(thrown));
      return ended(state, '!{"block":true,"blockReason":' + quote('blocked by ' + state.policy.id + ': policy ' + (state.returned ? 'decision is unreadable' : 'evaluation failed')) + '}');
    }
    return undecided(state, 'handler_threw', state.hook.mode === 'sync' ? inlineTextOf(thrown) : textOf(thrown));
  };

  const cronOf = (state) => {
    const ask = (member) => (...list) => {
      const text = json(list);
      return state.run.call('cron.' + member, parse(text));
    };
    return freeze({ __proto__: null, list: ask('list'), get: ask('get'), add: ask('add'), update: ask('update'), remove: ask('remove'), run: ask('run') });
  };

  const given = (input, patches) => {
    const args = parse(input);
    if (patches === '' || patches === '[]') return args;
    const list = parse(patches);
    for (let i = 0; i < list.length; i += 1) {
      const names = keysOf(list[i]);
      for (let k = 0; k < names.length; k += 1) define(args.event, names[k], list[i][names[k]]);
    }
    return args;
  };

  // What the session keeps for this plugin: a copy, the same one for as long as the dispatch takes.
  const keptFor = (view) => {
    const given = { __proto__: null };
    return (namespace) => {
      if (!view.kept) return undefined;
      const wanted = nonBlank(namespace);
      for (let i = 0; i < view.kept.length; i += 1) {
        if (view.kept[i][0] !== wanted) continue;
        given[wanted] ??= { __proto__: null, value: parse(view.kept[i][1]) };
        return given[wanted].value;
      }
      return undefined;
    };
  };

  const dress = (state, event, context) => {
    const { hook, view, run } = state;
    if (hook.reads === 'payload' && isObject(event.payload)) delete event.payload.trustedLocalMedia;
    if (view.config) define(event, 'context', { ...(isObject(event.context) ? event.context : {}), pluginConfig: config() });
    if (view.signal) define(context, 'abortSignal', signalOf(run));
    if (view.cron) define(context, 'getCron', () => cronOf(state));
    if (state.policy !== null) define(context, 'getSessionExtension', keptFor(view));
    if (view.invocation) {
      define(context, 'hookInvocation', freeze({
        assertActive() {
          if (!run.open) throw new Error_('prompt hook invocation is no longer active');
        },
      }));
    }
    if (view.authority && isObject(context.toolAuthority)) {
      const names = { __proto__: null };
      const active = context.toolAuthority.activeToolNames;
      if (isArray(active)) for (let i = 0; i < active.length; i += 1) names[active[i]] = true;
      const assertActive = () => {
        if (!run.open) throw new Error_('prompt tool authority is no longer active');
      };
      define(context, 'toolAuthority', freeze({ fingerprint: context.toolAuthority.fingerprint, assertActive, allows: (name) => (assertActive(), names[name] === true) }));
    }
  };

  let lastArgs = '';
  let lastView = null;
  const viewOf = (args) => {
    if (args !== lastArgs) {
      lastView = parse(args);
      lastArgs = args;
    }
    return lastView;
  };

  const resolved = async (state, { ticket, decision }) => {
    const callback = tickets.get(ticket);
    if (callback === undefined) return state.run.done('-');
    tickets.delete(ticket);
    try {
      await callback(decision);
      return state.run.done('.');
    } catch (thrown) {
      return undecided(state, 'handler_threw', textOf(thrown));
    }
  };

  // Asked outside any hook: what failed is said, and never taken for a hook's decision.
  const unhooked = (state, thrown) => {
    const bound = boundReached(thrown);
    return bound === null ? undecided(state, 'handler_threw', textOf(thrown)) : undecided(state, 'handler_crashed', bound);
  };
  const projected = (state, { handler, context }) => {
    const entry = kept[handler];
    if (entry === undefined || typeof entry.project !== 'function') return state.run.done('-');
    try {
      const result = apply(entry.project, entry.self, [context]);
      if (isObject(result) && typeof result.then === 'function') {
        then(result, nothing, nothing);
        return undecided(state, 'promise_ignored', 'a projector must be synchronous');
      }
      const text = result === undefined ? undefined : json(result);
      return state.run.done(text === undefined ? '=' : '+' + text);
    } catch (thrown) {
      return thrown === misfit ? undecided(state, 'handler_malformed', 'what it gave is too large') : unhooked(state, thrown);
    }
  };
  const cleanedUp = async (state, { handler, context }) => {
    const entry = kept[handler];
    if (entry === undefined || typeof entry.cleanup !== 'function') return state.run.done('-');
    try {
      await apply(entry.cleanup, entry.self, [context]);
      return state.run.done('.');
    } catch (thrown) {
      return unhooked(state, thrown);
    }
  };

  const call = async (name, input, patches, args, run) => {
    const entry = handlers[name];
    const state = { __proto__: null, run, hook: null, view: null, policy: null, warned: '', logLines: 0, returned: false };
    current = state;
    try {
      if (name === 'resolution') return await resolved(state, parse(input));
      if (name === 'project') return projected(state, parse(input));
      if (name === 'cleanup') return await cleanedUp(state, parse(input));
      if (entry === undefined) return undecided(state, 'handler_malformed', 'no such handler');
      state.hook = entry.hook;
      state.policy = entry.policy;
      state.view = viewOf(args);
      const { event, context } = given(input, patches);
      dress(state, event, context);
      if (entry.hook.mode === 'sync') {
        const { message } = event;
        const before = stringify(message);
        const result = entry.handler(event, context);
        if (isObject(result) && typeof result.then === 'function') {
          then(result, nothing, nothing);
          warn(state, 'promise_ignored', null);
          return nothingSaid(state);
        }
        return readMessage(state, result, message, before);
      }
      const result = await (entry.policy === null ? entry.handler(event, context) : apply(entry.handler, entry.policy.self, [event, context]));
      state.returned = true;
      return settle(state, result);
    } catch (thrown) {
      return failed(state, thrown);
    }
  };

  return { __proto__: null, report, call };
})`;

const literal = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(literal).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const parts = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${literal(item)}`);
  // Without a prototype: a name of a plugin's is never found where the catalogue has none.
  return `{${['__proto__:null', ...parts].join(',')}}`;
};

/** Hooks whose results are not read field by field. */
const readings: { readonly [hook: string]: 'run' | 'payload' | 'env' } = {
  before_agent_run: 'run',
  reply_payload_sending: 'payload',
  resolve_exec_env: 'env',
};

const guestHook = ({ name, mode, result }: OpenClawHook): object => ({
  mode,
  fields: mode === 'modifying' ? result : [],
  reads: readings[name] ?? 'fields',
  stops: result.includes('block') ? 'block' : result.includes('cancel') ? 'cancel' : null,
  chained: name === 'message_sending' ? 'content' : null,
});

/** Name of the global that a bundle calls with its entry's exports and its manifest. */
export const startGlobal = 'hookledger:openclaw';
/** Name of the global that gives a bundle the modules which are no files of the plugin. */
export const sdkGlobal = 'hookledger:openclaw-sdk';

/** The reason of a decision of `before_agent_run` that is none (openclaw.md §11). */
export const invalidDecision = 'before_agent_run returned an invalid decision';

const guestLimits = {
  start: startGlobal,
  sdk: sdkGlobal,
  invalidDecision,
  /** Text of what was thrown, UTF-16 code units; shown and recorded shorter. */
  textUnits: 2000,
  /** JSON text of one value of a result. */
  resultUnits: 8 * 1024 * 1024,
  logLines: 1000,
  logUnits: 8 * 1024 + 1,
  registrations: 2000,
  tickets: 1000,
  timerMs: 2_147_483_647,
};

/** Source of the guest program: one function expression. */
export const guestProgram: string = program
  .replace('/*HOOKS*/', () =>
    literal(Object.fromEntries([...catalogue].map(([name, hook]) => [name, guestHook(hook)]))),
  )
  .replace('/*LIMITS*/', () => literal(guestLimits));
