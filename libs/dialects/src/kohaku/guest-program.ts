import { catalogue } from './catalogue.js';

/**
 * The program that runs in every realm of a JavaScript plugin of this dialect, before the plugin's own code (guest-kit.md
 * beside the sandbox). A plugin is an object with the hooks' own snake_case names, or a class of which there is one
 * instance per agent and session. What Python gives by keyword is one object, the last argument; `null` and `undefined`
 * are Python's None. What a handler gave leaves as shim.ts says.
 *
 * Written so that nothing a plugin does to its realm changes it: intrinsics are captured, and what is looked up by a
 * name has no prototype.
 */
const program = String.raw`(function (kit, setup) {
  const HOOKS = /*HOOKS*/;
  const LIMITS = /*LIMITS*/;
  const world = globalThis;
  const { parse, stringify } = kit.JSON;
  const { keys: keysOf, freeze } = kit.Object;
  const { defineProperty, construct } = kit.Reflect;
  const { isArray } = kit.Array;
  const { apply, Map: Map_, then, text: textOf } = kit;
  const RegExp_ = RegExp;
  const testRegExp = kit.uncurry(RegExp.prototype.test);
  const slice = kit.uncurry(String.prototype.slice);
  const split = kit.uncurry(String.prototype.split);
  const isPrototypeOf = kit.uncurry(Object.prototype.isPrototypeOf);
  const errorPrototype = Error.prototype;

  defineProperty(Promise.prototype, 'constructor', { __proto__: null, value: Promise, writable: false, enumerable: false, configurable: false });
  const define = (object, key, value) =>
    defineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  const hide = (object, key, value) =>
    defineProperty(object, key, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';
  const isNone = (value) => value === undefined || value === null;
  const quote = (text) => stringify('' + text);
  const nothing = () => undefined;

  class PluginBlockError extends Error {
    constructor(message) {
      super(message);
      this.name = new.target.name;
    }
  }
  const blockPrototype = PluginBlockError.prototype;
  class ToolVisibility {
    constructor(fields) {
      const { allowed_tools = null, allowed_subagents = null } = fields ?? {};
      define(this, 'allowed_tools', allowed_tools);
      define(this, 'allowed_subagents', allowed_subagents);
    }
  }
  const visibilityPrototype = ToolVisibility.prototype;
  class TerminationDecision {
    constructor(should_stop, reason) {
      define(this, 'should_stop', should_stop === true);
      define(this, 'reason', reason ?? '');
    }
  }
  const decisionPrototype = TerminationDecision.prototype;

  let current = null;
  const logAt = (level) => (...list) => {
    const state = current;
    if (state === null || !state.run.open || state.lines >= LIMITS.logLines) return undefined;
    state.lines += 1;
    let text = '';
    for (let i = 0; i < list.length && text.length < LIMITS.logUnits; i += 1) {
      let word;
      try {
        word = typeof list[i] === 'string' ? list[i] : isObject(list[i]) && !isPrototypeOf(errorPrototype, list[i]) ? stringify(list[i]) : kit.String(list[i]);
      } catch {
        word = 'unreadable';
      }
      text += (i === 0 ? '' : ' ') + word;
    }
    state.run.emit('log', parse('[' + quote(level) + ',' + quote(slice(text, 0, LIMITS.logUnits)) + ']'));
    return undefined;
  };
  const console_ = freeze({ __proto__: null, log: logAt('info'), info: logAt('info'), debug: logAt('debug'), warn: logAt('warn'), error: logAt('error') });

  let timers = 0;
  const live = new Map_();
  const startTimer = (callback, ms, ...list) => {
    timers += 1;
    const id = timers;
    const state = current;
    if (typeof callback !== 'function' || state === null || !state.run.open) return id;
    live.set(id, true);
    const wait = +ms >= 1 ? kit.Math.min(kit.Math.floor(+ms), LIMITS.timerMs) : 1;
    then(state.run.call('timer', parse('[' + wait + ']')), () => {
      if (live.get(id) !== true || !state.run.open) return;
      live.delete(id);
      try {
        apply(callback, undefined, list);
      } catch {
        // What a timer's callback throws is nobody's result.
      }
    }, nothing);
    return id;
  };
  hide(world, 'setTimeout', startTimer);
  hide(world, 'clearTimeout', (id) => live.delete(id));
  hide(world, 'console', console_);

  const module = { __proto__: null, PluginBlockError, ToolVisibility, TerminationDecision };
  hide(world, LIMITS.module, module);
  hide(world, 'PluginBlockError', PluginBlockError);
  hide(world, 'ToolVisibility', ToolVisibility);
  hide(world, 'TerminationDecision', TerminationDecision);

  // ---------------------------------------------------------------- loading

  const label = setup.pluginName ?? setup.pluginId ?? '';
  const configText = stringify(setup.config ?? {});
  let make = null;
  let sample = null;
  const start = (exported) => {
    if (make !== null) return;
    let entry = exported;
    if (isObject(entry) && 'default' in entry) entry = entry.default;
    else if (isObject(world.plugin)) entry = world.plugin;
    if (!isObject(entry)) throw new kit.TypeError('the entry exports no plugin: export default { async pre_tool_execute(args, kwargs) { … } }');
    make = typeof entry === 'function' ? () => construct(entry, [parse(configText)]) : () => entry;
    sample = make();
  };
  hide(world, LIMITS.start, start);

  const looksLikeHook = (name) => {
    const [head] = split(name, '_');
    return head === 'pre' || head === 'post' || head === 'on' || head === 'contribute';
  };
  const report = () => {
    let hooks = '';
    let warnings = '';
    const seen = { __proto__: null };
    for (let object = sample; isObject(object) && object !== Object.prototype && object !== Function.prototype; object = kit.Reflect.getPrototypeOf(object)) {
      const names = kit.Reflect.ownKeys(object);
      for (let i = 0; i < names.length; i += 1) {
        const name = names[i];
        if (typeof name !== 'string' || seen[name] === true || name === 'constructor') continue;
        seen[name] = true;
        if (typeof sample[name] !== 'function') continue;
        if (HOOKS[name] === true) hooks += (hooks === '' ? '' : ',') + quote(name);
        else if (looksLikeHook(name)) warnings += (warnings === '' ? '' : ',') + '["unknown_hook",' + quote(slice(name, 0, 200)) + ']';
      }
    }
    const priority = sample === null ? undefined : sample.priority;
    return '{"hooks":[' + hooks + '],"priority":' + (typeof priority === 'number' && kit.Number.isFinite(priority) ? stringify(priority) : '50') + ',"prompt":false,"state":true,"class":""' + (setup.pluginName === undefined ? '' : ',"pluginName":' + quote(setup.pluginName)) + ',"warnings":[' + warnings + ']}';
  };

  // ---------------------------------------------------------------- one call

  const instances = new Map_();
  const keyOf = (agent) => stringify([agent.name ?? '', agent.session_id ?? '']);
  const contextOf = (state, agent, instance, model) => {
    const tell = (member) => (...list) => {
      if (state.run.open) state.run.emit(member, parse(stringify(list)));
    };
    return {
      agent_name: agent.name ?? '', model, session_id: agent.session_id ?? '', working_dir: agent.working_dir ?? '.', plugin_name: label,
      switch_model: (name) => (tell('switch_model')('' + name), '' + name),
      inject_event: tell('inject_event'),
      inject_message_before_llm: tell('inject_message_before_llm'),
      emit: tell('emit'),
      get_state: (key, fallback) => (instance.state.has('' + key) ? parse(instance.state.get('' + key)) : (fallback ?? null)),
      set_state: (key, value) => {
        const text = stringify(value ?? null);
        instance.state.set('' + key, text);
        tell('set_state')('' + key, parse(text));
      },
    };
  };
  const instanceOf = (state, agent) => {
    const key = keyOf(agent);
    const known = instances.get(key);
    if (known !== undefined) return known;
    const made = { __proto__: null, object: make(), agent, model: agent.model ?? '', loaded: false, state: new Map_() };
    instances.set(key, made);
    state.run.emit('instance', parse(stringify([agent.name ?? '', agent.session_id ?? ''])));
    return made;
  };

  const warn = (state, code, detail) => {
    state.warned += (state.warned === '' ? '' : ',') + '[' + quote(code) + ',' + quote(detail) + ']';
  };
  const wordsOf = (thrown) => {
    try {
      return isPrototypeOf(errorPrototype, thrown) ? slice(thrown.name + ': ' + thrown.message, 0, 500) : textOf(thrown);
    } catch {
      return 'unreadable';
    }
  };
  const stackOf = (thrown) => {
    try {
      return isPrototypeOf(errorPrototype, thrown) && typeof thrown.stack === 'string' ? slice(thrown.stack, 0, 16384) : '';
    } catch {
      return '';
    }
  };

  const applies = (state, plugin, agent, model, context) => {
    try {
      if (typeof plugin.should_apply === 'function') return !!plugin.should_apply(context);
      const wanted = plugin.applies_to;
      if (!isObject(wanted)) return true;
      const names = wanted.agent_names;
      if (isArray(names) && names.length > 0) {
        let isNamed = false;
        for (let i = 0; i < names.length; i += 1) isNamed = isNamed || names[i] === (agent.name ?? '');
        if (!isNamed) return false;
      }
      const patterns = wanted.model_patterns;
      let count = 0;
      let isMatched = false;
      for (let i = 0; isArray(patterns) && i < patterns.length; i += 1) {
        let pattern = null;
        try {
          pattern = new RegExp_(patterns[i]);
        } catch {
          continue;
        }
        count += 1;
        isMatched = isMatched || testRegExp(pattern, model);
      }
      return count === 0 || isMatched;
    } catch (thrown) {
      warn(state, 'should_apply_raised', wordsOf(thrown));
      return true;
    }
  };

  const namesIn = (value) => {
    if (isNone(value)) return null;
    const list = [];
    const add = (name) => define(list, list.length, '' + name);
    if (isArray(value)) for (let i = 0; i < value.length; i += 1) add(value[i]);
    else for (const name of value) add(name);
    return list;
  };

  const json = (value) => {
    const text = stringify(value);
    return text === undefined ? 'null' : text;
  };

  const transform = async (state, plugin, hook, given, context) => {
    const { value } = given;
    const before = json(value);
    let { kwargs } = given;
    let found;
    if (hook === 'pre_tool_dispatch') found = await plugin.pre_tool_dispatch(value, context);
    else {
      if ((hook === 'pre_tool_execute' || hook === 'post_tool_execute') && !('context' in kwargs)) define(kwargs, 'context', context);
      if (hook === 'pre_subagent_run' && state.args.subagentJobId && !('job_id' in kwargs)) define(kwargs, 'job_id', null);
      found = await plugin[hook](value, kwargs);
    }
    if (hook === 'pre_tool_dispatch' && !isNone(found) && typeof found.name !== 'string') {
      warn(state, 'return_ignored', 'it is no call');
      found = undefined;
    }
    let after;
    try {
      after = json(isNone(found) ? value : found);
    } catch (thrown) {
      return '?["handler_malformed",' + quote(wordsOf(thrown)) + ',""]';
    }
    return after === before ? '=' : '~{"value":' + after + '}';
  };

  const called = async (state, hook, given) => {
    const { args, run } = state;
    const { agent } = given;
    const instance = instanceOf(state, agent);
    const plugin = instance.object;
    if (isArray(args.kept)) {
      instance.state = new Map_();
      for (let i = 0; i < args.kept.length; i += 1) instance.state.set(args.kept[i][0], args.kept[i][1]);
    }
    const context = contextOf(state, instance.agent, instance, instance.model);
    const now = contextOf(state, agent, instance, agent.model ?? instance.model);
    if (args.shape === 'load') {
      instance.loaded = true;
      await plugin.on_load(context);
      return '.';
    }
    if (!instance.loaded) {
      instance.loaded = true;
      if (agent.on_load !== false && typeof plugin.on_load === 'function') {
        try {
          await plugin.on_load(context);
        } catch (thrown) {
          warn(state, 'on_load_raised', wordsOf(thrown));
        }
      }
    }
    if (args.shape === 'unload') {
      instances.delete(keyOf(agent));
      await plugin.on_unload();
      return '.';
    }
    const model = args.shape === 'visibility' ? (agent.model ?? instance.model) : instance.model;
    if (!args.always && !applies(state, plugin, instance.agent, model, args.shape === 'visibility' ? now : context)) return '-';
    switch (args.shape) {
      case 'transform':
        return transform(state, plugin, hook, given, now);
      case 'text': {
        const { kwargs, value } = given;
        const found = await plugin.post_llm_call(kwargs.messages ?? [], value, kwargs.usage ?? {}, { model: kwargs.model ?? agent.model ?? '' });
        if (typeof found === 'string') return found === value ? '=' : '~' + stringify({ value: found });
        if (!isNone(found)) warn(state, 'return_ignored', 'it is no text');
        return '=';
      }
      case 'callback': {
        if (hook === 'on_event' && !('event' in given.kwargs)) define(given.kwargs, 'event', given.value);
        await plugin[hook](given.kwargs);
        return '.';
      }
      case 'veto':
        return (await plugin[hook](given.kwargs)) === false ? '!' + stringify({ message: null, plugin: label, type: 'veto' }) : '.';
      case 'applies':
        return '+{"applies":{' + quote(label) + ':' + (plugin.should_apply(now) ? 'true' : 'false') + '}}';
      case 'visibility': {
        const found = plugin.get_tool_visibility(now);
        if (isNone(found)) return '=';
        if (!isPrototypeOf(visibilityPrototype, found)) return (warn(state, 'return_ignored', 'it is no ToolVisibility'), '=');
        const tools = namesIn(found.allowed_tools);
        const subagents = namesIn(found.allowed_subagents);
        if (tools === null && subagents === null) return '=';
        return '+{' + (tools === null ? '' : '"allowed_tools":' + stringify(tools)) + (tools === null || subagents === null ? '' : ',') + (subagents === null ? '' : '"allowed_subagents":' + stringify(subagents)) + '}';
      }
      case 'commands':
      case 'user-commands': {
        const found = plugin[hook]() ?? {};
        const names = keysOf(found);
        let text = '';
        for (let i = 0; i < names.length; i += 1) {
          const override = args.shape === 'commands' ? plugin.command_override === true : isObject(found[names[i]]) && found[names[i]].override === true;
          text += (i === 0 ? '' : ',') + '[' + quote(names[i]) + ',' + quote(label) + ',' + override + ']';
        }
        return '+{"commands":[' + text + ']}';
      }
      case 'vote': {
        const check = plugin.contribute_termination_check();
        const found = typeof check === 'function' ? check(given.value ?? {}) : null;
        if (isNone(found)) return '=';
        if (!isPrototypeOf(decisionPrototype, found)) return (warn(state, 'return_ignored', 'it is no TerminationDecision'), '=');
        if (found.should_stop !== true) return '=';
        return '^{"should_stop":true,"reason":' + quote(found.reason || 'Plugin vetoed continuation') + ',"plugin":' + quote(label) + '}';
      }
      case 'prompt': {
        const found = hook === 'get_content' ? await plugin.get_content(now) : plugin.get_prompt_content(now);
        if (typeof found === 'string') return found === '' ? '=' : '+{"parts":[' + quote(found) + ']}';
        if (!isNone(found)) warn(state, 'return_ignored', 'it is no text');
        return '=';
      }
      default:
        return '+{"services":' + json(plugin.runtime_services(now) ?? {}) + '}';
    }
  };

  const given = (input, patches) => {
    const value = parse(input);
    if (patches !== '' && patches !== '[]') {
      const list = parse(patches);
      for (let i = 0; i < list.length; i += 1) {
        const names = keysOf(list[i]);
        for (let k = 0; k < names.length; k += 1) define(value, names[k], list[i][names[k]]);
      }
    }
    if (!isObject(value.kwargs)) define(value, 'kwargs', {});
    if (!isObject(value.agent)) define(value, 'agent', {});
    return value;
  };

  const call = async (name, input, patches, args, run) => {
    const state = { __proto__: null, run, args: parse(args), warned: '', lines: 0 };
    current = state;
    const end = (raw) => run.done(raw + '\n' + (state.warned === '' ? '' : '[' + state.warned + ']'));
    try {
      if (HOOKS[name] !== true) return end('?["handler_malformed","no such hook",""]');
      return end(await called(state, name, given(input, patches)));
    } catch (thrown) {
      if (state.args.blocks && isPrototypeOf(blockPrototype, thrown)) {
        let message = '';
        try {
          message = '' + thrown.message;
        } catch {
          message = 'unreadable';
        }
        return end('!{"message":' + quote(message) + ',"plugin":' + quote(label) + ',"type":"PluginBlockError"}');
      }
      return end('?["handler_threw",' + quote(wordsOf(thrown)) + ',' + quote(stackOf(thrown)) + ']');
    }
  };

  return { __proto__: null, report, call };
})`;

/** Name of the global that a bundle calls with its entry's exports. */
export const startGlobal = 'hookledger:kohaku';
/** Name of the global that holds what `kohakuterrarium` exports. */
export const moduleGlobal = 'hookledger:kohakuterrarium';

const hooks = `{__proto__:null,${[...catalogue.keys()].map((name) => `${JSON.stringify(name)}:true`).join(',')}}`;

const limits = {
  start: startGlobal,
  module: moduleGlobal,
  logLines: 1000,
  logUnits: 8192,
  timerMs: 2_147_483_647,
};

/** Source of the guest program: one function expression. */
export const guestProgram: string = program
  .replace('/*HOOKS*/', () => hooks)
  .replace('/*LIMITS*/', () => JSON.stringify(limits));
