/**
 * What is evaluated first in every plugin context, before the guest program and long before the plugin: it captures
 * the intrinsics, takes away what a plugin must not have, and gives back one function, the only thing the host ever
 * calls. The host calls in and reads; nothing here can call out, so no host code ever stands on a plugin's stack
 * (design: a plugin that recurses and then calls `host.log` would make host code fail half way).
 *
 * Everything used after the plugin ran is captured, and used without iterators, array methods or patched prototypes:
 * `for…of`, spread, destructuring of arrays and `JSON.stringify` of arrays are absent on purpose.
 */

/** Calls that one handler run may have open at once; more are refused inside the realm. */
export const MAX_OPEN_CALLS = 64;
/** Calls and notices (`run.emit`) that one handler run may make in all. */
export const MAX_CALLS = 1000;
/** Text of the arguments of one call, UTF-16 code units. */
export const MAX_ARGS = 256 * 1024;
/** Text of the arguments of all calls of one handler run, UTF-16 code units. */
export const MAX_ARGS_IN_ALL = 8 * 1024 * 1024;
/** A raw result, UTF-16 code units; the dialects' own limit is far below. */
export const MAX_RAW = 24 * 1024 * 1024;

/** First argument of the realm's function. */
export const ENTER = { setup: 0, report: 1, begin: 2, collect: 3, answer: 4, close: 5, loaded: 6, join: 7 } as const;

/** JavaScript of a function that takes the guest program and returns the realm's function. */
export const BOOTSTRAP = String.raw`(function (guest) {
  'use strict';
  const root = globalThis;
  for (const name of ['SharedArrayBuffer', 'Atomics', 'WebAssembly', 'WeakRef', 'FinalizationRegistry', 'console'])
    delete root[name];

  const { apply, construct, ownKeys } = Reflect;
  const { defineProperty, getPrototypeOf, setPrototypeOf, freeze, create } = Object;
  const { parse, stringify } = JSON;
  const Promise_ = Promise;
  const Error_ = Error;
  const RangeError_ = RangeError;
  const String_ = String;
  const uncurry = (fn) => (self, ...args) => apply(fn, self, args);
  const hasInstance = uncurry(Function.prototype[Symbol.hasInstance]);
  const slice = uncurry(String.prototype.slice);
  const charCodeAt = uncurry(String.prototype.charCodeAt);

  defineProperty(Error_, 'prepareStackTrace', { value: undefined, writable: false, configurable: false });

  const skipped = { __proto__: null, prototype: true, length: true, name: true };
  /** The own properties of a namespace or constructor, as they are now. */
  const captured = (source) => {
    const copy = create(null);
    const keys = ownKeys(source);
    for (let i = 0; i < keys.length; i++) {
      const d = Reflect.getOwnPropertyDescriptor(source, keys[i]);
      if (d && 'value' in d && typeof keys[i] === 'string' && !skipped[keys[i]]) copy[keys[i]] = d.value;
    }
    return freeze(copy);
  };
  /** A subclass with the methods of its parent as they are now, which patches of the parent do not reach. */
  const safeClass = (parent, child) => {
    const keys = ownKeys(parent.prototype);
    for (let i = 0; i < keys.length; i++) {
      if (keys[i] === 'constructor') continue;
      defineProperty(child.prototype, keys[i], Reflect.getOwnPropertyDescriptor(parent.prototype, keys[i]));
    }
    setPrototypeOf(child.prototype, null);
    freeze(child.prototype);
    return freeze(child);
  };
  const SafeMap = safeClass(Map, class Map extends root.Map {});
  const SafeWeakMap = safeClass(WeakMap, class WeakMap extends root.WeakMap {});

  /** Text of anything thrown, at most max units, without a half surrogate at its end. Never throws. */
  const text = (thrown, max) => {
    let said;
    try {
      if (typeof thrown === 'object' && thrown !== null) {
        const name = thrown.name, message = thrown.message;
        if (typeof message === 'string') said = typeof name === 'string' && name !== '' ? name + ': ' + message : message;
        else said = 'an object without a message';
      } else said = typeof thrown === 'function' ? 'a function' : String_(thrown);
    } catch {
      said = 'an object that cannot be read';
    }
    const most = max === undefined ? 500 : max;
    if (said.length <= most) return said;
    const last = charCodeAt(said, most - 1);
    return slice(said, 0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
  };

  // Awaiting is the one way to wait for a promise that no patch of Promise.prototype can see.
  const then = async (promise, ok, fail) => {
    let value;
    try {
      value = await promise;
    } catch (error) {
      return fail === undefined ? undefined : fail(error);
    }
    return ok === undefined ? value : ok(value);
  };
  const kit = freeze({
    __proto__: null,
    JSON: captured(JSON),
    Object: captured(Object),
    Reflect: captured(Reflect),
    Array: captured(Array),
    String: String_,
    Number: Object.assign((value) => Number_(value), captured(Number)),
    Boolean,
    BigInt,
    Symbol,
    Math: captured(Math),
    Date: captured(Date),
    Promise: Promise_,
    Error: Error_,
    TypeError,
    RangeError: RangeError_,
    SyntaxError,
    Function,
    Proxy,
    Map: SafeMap,
    WeakMap: SafeWeakMap,
    apply,
    construct,
    then,
    resolve: (value) => new Promise_((resolve) => resolve(value)),
    uncurry,
    text,
  });

  const runs = new SafeMap();

  class Run {
    #id;
    #open = true;
    #raw = null;
    #crash = '';
    #notes = '';
    #doneAt = 0;
    #calls = 0;
    #openCalls = 0;
    #sent = 0;
    #pending = null;
    #outbox = '';

    constructor(id) {
      this.#id = id;
    }

    get open() {
      return this.#open;
    }

    done(raw) {
      if (!this.#open) return;
      if (typeof raw !== 'string' || raw.length > ${MAX_RAW}) return this.crashed('memory');
      this.#raw = raw;
      this.#doneAt = now();
      this.#open = false;
      this.#tell();
    }

    note(notes) {
      if (this.#open && typeof notes === 'string' && notes.length <= ${MAX_ARGS}) this.#notes = notes;
    }

    call(member, args) {
      if (!this.#open) return refused('The handler run is over.', 'run_closed');
      if (this.#openCalls >= ${MAX_OPEN_CALLS}) return refused('Too many calls are open at once.', 'too_many_open_calls');
      if (this.#calls >= ${MAX_CALLS}) return refused('This handler run has made too many calls.', 'too_many_calls');
      const number = this.#send(member, args, true);
      if (number < 0) return refused('The handler run is over.', 'run_closed');
      return new Promise_((resolve, reject) => {
        this.#pending ??= new SafeMap();
        this.#pending.set(number, { __proto__: null, resolve, reject });
      });
    }

    emit(member, args) {
      if (this.#open && this.#calls < ${MAX_CALLS}) this.#send(member, args, false);
    }

    /** Reading the arguments runs the plugin's own code (toJSON, getters), which may end this very run. */
    #send(member, args, answered) {
      let json = null;
      let misfit = null;
      try {
        const written = stringify(args);
        if (typeof written !== 'string') misfit = 'The arguments are not JSON.';
        else if (written.length > ${MAX_ARGS}) misfit = 'The arguments are too large.';
        else json = written;
      } catch (error) {
        misfit = text(error, 500);
      }
      if (!this.#open) return -1;
      if (json !== null && (this.#sent += json.length) > ${MAX_ARGS_IN_ALL}) {
        json = null;
        misfit = 'The arguments of all calls together are too large.';
      }
      const number = this.#calls;
      const entry =
        '[' + number + ',' + (answered ? 'true' : 'false') + ',' + stringify(String_(member)) + ',' +
        (json === null ? 'null' : stringify(json)) + ',' + (misfit === null ? 'null' : stringify(misfit)) + ']';
      // Nothing below can fail, so a full stack leaves no call half made.
      this.#outbox = this.#outbox === '' ? entry : this.#outbox + ',' + entry;
      this.#calls = number + 1;
      if (answered) this.#openCalls++;
      return number;
    }

    crashed(detail) {
      if (!this.#open) return;
      this.#crash = detail;
      this.#open = false;
      this.#tell();
    }

    answer(number, ok, text, code) {
      if (!this.#open) return;
      this.#openCalls--;
      const waiting = this.#pending === null ? undefined : this.#pending.get(number);
      if (waiting === undefined) return;
      this.#pending.delete(number);
      if (!ok) return waiting.reject(failure(text, code));
      let value;
      try {
        value = text === '' ? undefined : parse(text);
      } catch {
        return waiting.reject(failure('The answer was not JSON.', 'bad_answer'));
      }
      waiting.resolve(value);
    }

    /** State and everything new: P pending, D the time and the raw result, X a crash; calls before it behind a C. */
    collect() {
      const state = this.#raw !== null ? 'D' + this.#doneAt + ' ' + this.#raw : this.#crash !== '' ? 'X' + this.#crash : 'P';
      if (this.#outbox === '') return state;
      const calls = 'C[' + this.#outbox + ']\n';
      this.#outbox = '';
      return calls + state;
    }

    /** Hands the driver what there is, if it is waiting for this run; else the host collects it. */
    #tell() {
      const outbox = this.#outbox;
      try {
        if (signal !== null && signal(this.#id, this.collect())) runs.delete(this.#id);
        else this.#outbox = outbox;
      } catch {
        // A full stack; and the plugin must not get hold of another realm's error.
        this.#outbox = outbox;
      }
    }

    close() {
      this.#open = false;
      this.#pending = null;
      return this.#notes;
    }
  }
  freeze(Run.prototype);
  freeze(Run);

  const Number_ = Number;
  const now = Date.now;
  const failure = (message, code) => {
    const error = new Error_(message);
    if (code !== null && code !== undefined) defineProperty(error, 'code', { __proto__: null, value: code, writable: true, enumerable: true, configurable: true });
    return error;
  };
  const refused = (message, code) => new Promise_((_, reject) => reject(failure(message, code)));

  const isRangeError = (error) => {
    try {
      return hasInstance(RangeError_, error);
    } catch {
      return false;
    }
  };
  /** A run that has ended is forgotten with its last reading. */
  const collected = (id, run) => {
    if (!run.open) runs.delete(id);
    return run.collect();
  };

  // In a microtask of this realm the realm is the entered one, whoever called; else V8 refuses new Function here.
  const begin = async (run, name, input, patches, args) => {
    await undefined;
    try {
      program.call(name, input, patches, args, run);
    } catch (error) {
      run.crashed(isRangeError(error) ? 'stack' : 'killed');
    }
  };
  let program;
  let reported = '';
  let signal = null;
  return (op, id, a, b, c, d) => {
    switch (op) {
      case ${ENTER.begin}: {
        const run = new Run(id);
        runs.set(id, run);
        begin(run, a, b, c, d);
        return '';
      }
      case ${ENTER.collect}:
        return collected(id, runs.get(id));
      case ${ENTER.answer}: {
        const run = runs.get(id);
        if (run !== undefined) run.answer(a, b, c, d);
        return '';
      }
      case ${ENTER.close}: {
        const run = runs.get(id);
        if (run === undefined) return '';
        runs.delete(id);
        return run.close();
      }
      case ${ENTER.setup}:
        program = guest(kit, parse(a));
        // Called by a line behind the plugin's own: tells a throw at load from a promise that was rejected meanwhile, and
        // reads what is registered right there, before any microtask of the plugin's (MW-4).
        defineProperty(root, b, {
          configurable: true,
          value: () => {
            if (reported !== '') return;
            reported = program.report();
          },
        });
        return '';
      case ${ENTER.join}:
        signal = a;
        return '';
      case ${ENTER.loaded}:
        return reported === '' ? '' : 'yes';
      default:
        return reported;
    }
  };
})`;
