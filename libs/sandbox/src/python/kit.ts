/**
 * The program that is in every Python interpreter before anything of a plugin is: an event loop that runs as far as it
 * can and then says what it waits for, the runs of handlers, and what they ask of the host. Only text crosses the
 * border: `entry(op, …)` takes text and gives text back (guest-kit.md, "Python").
 *
 * A realm's guest program is Python source that defines `make(kit, setup)`; it returns an object with `report()` and
 * `call(run, handler, input, args)`, which may be a coroutine function and gives the raw result.
 */
export const KIT = String.raw`
import sys, json, asyncio, contextvars, random, types, time, re, dataclasses, typing, logging, traceback, inspect
import datetime, collections, functools, contextlib, pathlib, enum, abc, copy, itertools, os, io, math, string
import textwrap, fnmatch, hashlib, hmac, base64, uuid, secrets, threading, warnings, weakref, urllib.parse, heapq
import decimal, operator, struct, zlib, shlex, tempfile, difflib, html, uuid, statistics, bisect, queue, ast
import importlib, importlib.util, tokenize, linecache, asyncio.base_events, asyncio.events

_dumps = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(',', ':')).encode
_loads = json.loads
_run_of = contextvars.ContextVar('run', default=None)
_set_running = asyncio._set_running_loop


class _Selector:
    def select(self, timeout=None):
        return []

    def get_map(self):
        return {}


class _Loop(asyncio.base_events.BaseEventLoop):
    """Runs what is ready and never blocks: who waits is woken by the host."""

    def __init__(self):
        super().__init__()
        self._selector = _Selector()

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass

    def call_exception_handler(self, context):
        pass

    def run_in_executor(self, executor, func, *args):
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:
            future.set_exception(error)
        return future

    def advance(self):
        while self._ready or (self._scheduled and self._scheduled[0]._when <= self.time()):
            self._run_once()

    def idle_ms(self):
        """Milliseconds until a timer is due; None: nothing here ends a wait."""
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        if not self._scheduled:
            return None
        return max(0.0, (self._scheduled[0]._when - self.time()) * 1000)


class _Policy(asyncio.events._AbstractEventLoopPolicy if hasattr(asyncio.events, '_AbstractEventLoopPolicy') else object):
    def get_event_loop(self):
        return _loop

    def set_event_loop(self, loop):
        pass

    def new_event_loop(self):
        return _Loop()


_loop = _Loop()
asyncio.events._event_loop_policy = _Policy()
asyncio.new_event_loop = asyncio.events.new_event_loop = _Loop


class HostError(Exception):
    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


MAX_CALLS = 1000
MAX_OPEN = 64
MAX_ARGS = 262144


class Run:
    """One run of a handler: where it asks the host, and where its result goes."""

    __slots__ = ('id', 'open', 'calls', 'count', 'task', 'raw')

    def __init__(self, id):
        self.id = id
        self.open = True
        self.calls = {}
        self.count = 0
        self.task = None
        self.raw = None

    def _ask(self, member, args, answered):
        text = _dumps(args)
        misfit = None
        if len(text) > MAX_ARGS:
            text, misfit = None, 'the arguments are longer than 256 Ki characters'
        number = self.count
        self.count += 1
        _outbox.append([self.id, number, answered, member, text, misfit])
        return number

    def emit(self, member, args):
        """Tells the host something; False where the run is over or said too much."""
        if not self.open or self.count >= MAX_CALLS:
            return False
        self._ask(member, args, False)
        return True

    async def call(self, member, args):
        """Asks the host; raises HostError where it refuses."""
        if not self.open:
            raise HostError('the run is over', 'closed')
        if self.count >= MAX_CALLS:
            raise HostError('too many calls', 'too_many_calls')
        if len(self.calls) >= MAX_OPEN:
            raise HostError('too many open calls', 'too_many_open_calls')
        future = _loop.create_future()
        self.calls[self._ask(member, args, True)] = future
        return await future


_runs = {}
_outbox = []
_guest = None


class _Lines(io.TextIOBase):
    """What is printed while a handler runs is a line of its log."""

    def __init__(self, level):
        self._level = level
        self._rest = ''

    def writable(self):
        return True

    def write(self, text):
        lines = (self._rest + text).split('\n')
        self._rest = lines.pop()[:8192]
        for line in lines:
            _log(self._level, line)
        return len(text)

    def flush(self):
        if self._rest:
            line, self._rest = self._rest, ''
            _log(self._level, line)


def _log(level, line):
    run = _run_of.get()
    if run is not None and line:
        run.emit('log', [level, line[:8192]])


class _Handler(logging.Handler):
    def emit(self, record):
        try:
            level = 'error' if record.levelno >= 40 else 'warn' if record.levelno >= 30 else 'info' if record.levelno >= 20 else 'debug'
            text = record.getMessage()
            if record.exc_info and record.exc_info[0] is not None:
                text += ' ' + repr(record.exc_info[1])
            _log(level, text)
        except Exception:
            pass


def text_of(error, limit=500):
    try:
        text = str(error)
    except BaseException:
        text = 'unreadable'
    return text[:limit]


def trace_of(error, limit=16384):
    try:
        text = ''.join(traceback.format_exception(error))
    except BaseException:
        text = 'unreadable'
    return text[-limit:]


kit = types.SimpleNamespace(dumps=_dumps, loads=_loads, text_of=text_of, trace_of=trace_of, run_of=_run_of.get, log=_log, HostError=HostError)


def _settle(run, raw):
    if not run.open:
        return
    run.open = False
    run.raw = raw
    run.calls.clear()
    _runs.pop(run.id, None)
    _done.append([run.id, raw])


_done = []


def _begin(id, handler, input, patches, args):
    run = Run(id)
    _runs[id] = run
    token = _run_of.set(run)
    _set_running(_loop)
    try:
        value = _loads(input)
        if patches:
            for patch in _loads('[' + patches + ']'):
                value.update(patch)
        coroutine = _guest.call(run, handler, value, _loads(args))
        task = asyncio.Task(_watch(run, coroutine), loop=_loop, eager_start=True)
        run.task = task
        if not task.done():
            _loop.advance()
    finally:
        _set_running(None)
        _run_of.reset(token)
    return _said()


async def _watch(run, coroutine):
    try:
        raw = await coroutine
    except asyncio.CancelledError:
        raw = '?["handler_crashed","cancelled",""]\n'
    _settle(run, raw)


def _said():
    global _outbox, _done
    if not _outbox and len(_done) == 1:
        id, raw = _done.pop()
        if not _runs:
            return 'D' + str(id) + ' ' + raw
        _done.append([id, raw])
    calls, done = _outbox, _done
    _outbox, _done = [], []
    return 'M' + _dumps({'done': done, 'calls': calls, 'next': _loop.idle_ms()})


def _answer(id, call, ok, text, code):
    run = _runs.get(int(id))
    future = None if run is None else run.calls.pop(int(call), None)
    if future is not None and not future.done():
        if ok == '1':
            future.set_result(_loads(text))
        else:
            future.set_exception(HostError(text, code or None))
    return _advance()


def _advance():
    _set_running(_loop)
    try:
        _loop.advance()
    finally:
        _set_running(None)
    return _said()


def _cancel(id):
    run = _runs.pop(int(id), None)
    if run is None:
        return _said()
    run.open = False
    run.calls.clear()
    run.task.cancel()
    return _advance()


def _load(guest, code, name, setup):
    global _guest
    random.seed()
    # What asks for JavaScript gets an ImportError; that it could not have it anyway is the border's doing (harden.ts).
    for known in ('js', 'pyodide_js', 'pyodide', '_pyodide_core'):
        sys.modules[known] = None
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith('_pyodide')]
    asyncio.set_event_loop = lambda loop: None
    sys.stdout, sys.stderr = _Lines('info'), _Lines('error')
    root = logging.getLogger()
    root.handlers[:] = [_Handler()]
    root.setLevel(logging.DEBUG)
    space = {'__name__': 'hookledger_guest', '__builtins__': __builtins__}
    exec(compile(guest, '<guest>', 'exec'), space)
    since = time.perf_counter()
    _set_running(_loop)
    try:
        made = space['make'](kit, code, name, _loads(setup))
        report = made.report()
        _guest = made
        return 'L' + report
    except SyntaxError as error:
        return 'S' + _dumps([text_of(error.msg), error.lineno, error.offset, error.filename])
    except MemoryError:
        raise
    except BaseException as error:
        line = None
        for frame, number in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == name:
                line = number
        return 'T' + _dumps([type(error).__name__ + ': ' + text_of(error), line])
    finally:
        _set_running(None)


def entry(op, a='', b='', c='', d='', e=''):
    if op == 'run':
        return _begin(int(a), b, c, d, e)
    if op == 'answer':
        return _answer(a, b, c, d, e)
    if op == 'tick':
        return _advance()
    if op == 'cancel':
        return _cancel(a)
    if op == 'load':
        return _load(a, b, c, d)
    return 'M{"done":[],"calls":[],"next":null}'
`;
