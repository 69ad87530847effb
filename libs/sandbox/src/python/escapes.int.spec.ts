import { createServer, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { HandlerOutcome, Realm, Sandbox } from '../sandbox.js';
import { startSandbox } from '../start-sandbox.js';

/** Evaluates what it is given and gives its text back, or the name of what it raised. */
const guest = String.raw`
class Guest:
    def __init__(self, kit):
        self.kit = kit
    def report(self):
        return '{}'
    async def call(self, run, handler, value, args):
        space = {'kit': self.kit, 'run': run}
        try:
            exec(value['code'], space)
            return '+' + repr(space.get('r'))[:2000]
        except BaseException as error:
            return '!' + type(error).__name__ + ': ' + str(error)[:300]
def make(kit, code, name, setup):
    return Guest(kit)
`;

let sandbox: Sandbox;
let server: Server;
let connections = 0;
beforeAll(async () => {
  sandbox = await startSandbox({ pythonMiB: 96 });
  server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      resolve();
    });
  });
}, 60_000);
afterAll(async () => {
  await sandbox.close();
  server.close();
});

const realm: Realm = {
  account: 'a',
  pluginId: 'p',
  digest: 'd',
  code: '',
  fileName: 'plugin.py',
  guest,
  setup: '{}',
  isolation: 'warm',
  language: 'python',
};

const run = (code: string, timeoutMs = 5000): Promise<HandlerOutcome> =>
  sandbox
    .run({
      account: 'a',
      invocationId: 'i',
      input: JSON.stringify({ code }),
      handlers: [{ realm, handler: 'probe', timeoutMs, args: '{}', advances: false, stopsOn: [] }],
      onCall: () => Promise.resolve({ kind: 'value', json: 'null' }),
      pausingMembers: [],
    })
    .result(0);

/** What came of a probe: its text, what it raised, or how its interpreter ended. */
const probe = async (code: string): Promise<string> => {
  const outcome = await run(code);
  if (outcome.kind === 'returned') return outcome.raw;
  return outcome.kind === 'failed' ? `ended: ${outcome.cause} ${outcome.detail}` : outcome.kind;
};

/** What the interpreter sets itself, whatever the host has. */
const ofPython = new Set(['HOME', 'PATH', 'LANG', 'USER', 'LOGNAME', 'PWD', '_', 'LD_LIBRARY_PATH']);

const port = (): string => {
  const address = server.address();
  return typeof address === 'object' && address !== null ? String(address.port) : '0';
};

// Each way out ends as it does for its own reason: an end of any kind would also be what a way out that worked looks like.
const noImport = /^!ModuleNotFoundError: /;
const noProcesses = /^!OSError: .*does not support processes/;
/** Foreign functions need memory that can be run, and there is none: `ctypes` does not even load. */
const noForeignCode = /^!MemoryError: /;
/** The border knows no such call, and ends the interpreter that makes one. */
const ended = /^ended: crashed killed$/;

describe('A Python plugin that wants out', () => {
  it.each([
    ['os.system', 'import os\nr = os.system("id")', /^\+-1$/],
    ['os.popen', 'import os\nr = os.popen("id").read()', noProcesses],
    ['subprocess', 'import subprocess\nr = subprocess.run(["id"])', noProcesses],
    ['os.fork', 'import os\nr = os.fork()', /^!OSError: .*not implemented/],
    ['os.execv', 'import os\nos.execv("/bin/sh", ["sh"])', /^!OSError: .*Exec format error/],
    ['a thread', 'import threading\nthreading.Thread(target=print).start()', /^!RuntimeError: can't start new thread/],
    ['js.process', 'import js\nr = js.process', noImport],
    ['js.fetch', 'from js import fetch\nr = fetch', noImport],
    ['js.globalThis', 'import js\nr = js.globalThis.constructor', noImport],
    ['pyodide_js.FS', 'import pyodide_js\nr = pyodide_js.FS.filesystems', noImport],
    [
      'a mount of the host’s files',
      'import pyodide_js\npyodide_js.FS.mkdir("/h")\npyodide_js.FS.mount(pyodide_js.FS.filesystems.NODEFS, {"root": "/etc"}, "/h")\nr = open("/h/passwd").read()',
      noImport,
    ],
    ['pyodide.code.run_js', 'from pyodide.code import run_js\nr = run_js("process.version")', noImport],
    [
      'the constructor of a JsProxy',
      'import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == "JsProxy":\n        r = o.constructor.constructor("return process")()\n        break\nelse:\n    raise RuntimeError("none")',
      /^!RuntimeError: none$/,
    ],
    [
      'a module out of gc',
      'import gc, types\nfound = [o for o in gc.get_objects() if isinstance(o, types.ModuleType) and o.__name__ in ("pyodide_js", "js", "_pyodide_core")]\nr = [getattr(o, "FS").mkdir("/x") for o in found if hasattr(o, "FS")]\nif not r: raise RuntimeError("none")',
      /^!RuntimeError: none$/,
    ],
    [
      'ctypes and emscripten_run_script',
      'import ctypes\nr = ctypes.CDLL(None).emscripten_run_script(b"process.exit(9)")',
      noForeignCode,
    ],
    ['ctypes and system', 'import ctypes\nr = ctypes.CDLL(None).system(b"id")', noForeignCode],
    ['ctypes and a function pointer', 'import ctypes\nr = ctypes.CFUNCTYPE(ctypes.c_int)(7)()', noForeignCode],
    ['ctypes and the Python API', 'import ctypes\nr = ctypes.pythonapi.Py_IncRef(ctypes.py_object(1))', noForeignCode],
    ['pyodide.http', 'from pyodide.http import open_url\nr = open_url("http://127.0.0.1")', noImport],
    ['micropip', 'import micropip\nr = micropip', noImport],
    ['loading a package', 'import pyodide_js\nr = pyodide_js.loadPackage("micropip")', noImport],
    ['create_proxy', 'from pyodide.ffi import create_proxy\nr = create_proxy(lambda: 1)', ended],
    ['to_js', 'from pyodide.ffi import to_js\nr = to_js({"a": 1})', ended],
    ['run_sync', 'from pyodide.ffi import run_sync\nimport asyncio\nr = run_sync(asyncio.sleep(0))', ended],
    ['a shared library', 'import ctypes\nr = ctypes.CDLL("/lib/x86_64-linux-gnu/libc.so.6")', noForeignCode],
    [
      'an extension module',
      'import _imp, importlib.machinery\nr = _imp.create_dynamic(importlib.machinery.ModuleSpec("x", None, origin="/x.so"))',
      /^!ImportError: /,
    ],
  ])(
    'does not get there by %s',
    async (_name, code, wanted) => {
      expect(await probe(code)).toMatch(wanted);
    },
    60_000,
  );

  it('reaches no port of this machine', async () => {
    connections = 0;
    const answers = [
      await probe(
        `import socket\ns = socket.socket()\ns.settimeout(1)\ns.connect(("127.0.0.1", ${port()}))\nr = s.send(b"x")`,
      ),
      await probe(`import urllib.request\nr = urllib.request.urlopen("http://127.0.0.1:${port()}/", timeout=1).read()`),
      await probe(
        `import http.client\nc = http.client.HTTPConnection("127.0.0.1", ${port()}, timeout=1)\nc.request("GET", "/")\nr = c.getresponse().status`,
      ),
      await probe('import socket\nr = socket.getaddrinfo("localhost", 80)'),
    ];
    const [raw, ...throughLibraries] = answers;
    expect(raw).toMatch(/^!OSError: .*not implemented/);
    for (const answer of throughLibraries) expect(answer).toMatch(ended);
    expect(connections).toBe(0);
  }, 60_000);

  it('finds no file, no environment and no user of the host', async () => {
    expect(await probe('r = open("/etc/passwd").read()')).toMatch(/FileNotFoundError/);
    expect(await probe('import os\nr = sorted(os.listdir("/"))')).toBe("+['dev', 'home', 'lib', 'proc', 'tmp']");
    const environment = await probe('import os\nr = sorted(os.environ)');
    expect(environment).toContain("'HOME'");
    for (const name of Object.keys(process.env))
      if (!ofPython.has(name)) expect(environment).not.toContain(`'${name}'`);
    expect(await probe('import os\nr = os.environ.get("PATH")')).not.toContain(process.env.PATH ?? 'none');
    expect(await probe('import os\nr = os.environ.get("HOSTNAME")')).toBe('+None');
    expect(await probe('r = open("/proc/self/cmdline").read()')).toMatch(/^!FileNotFoundError/);
  }, 60_000);

  it('finds chance and clocks as fresh as anybody’s', async () => {
    const fresh = 'import random, uuid, secrets\nr = [random.random(), str(uuid.uuid4()), secrets.token_hex(8)]';
    const other = { ...realm, digest: 'd2' };
    const first = await probe(fresh);
    const second = await sandbox
      .run({
        account: 'a',
        invocationId: 'i',
        input: JSON.stringify({ code: fresh }),
        handlers: [{ realm: other, handler: 'probe', timeoutMs: 5000, args: '{}', advances: false, stopsOn: [] }],
        onCall: () => Promise.resolve({ kind: 'value', json: 'null' }),
        pausingMembers: [],
      })
      .result(0);
    expect(second.kind === 'returned' ? second.raw : second.kind).toMatch(/^\+\[/);
    expect(second.kind === 'returned' ? second.raw : '').not.toBe(first);
  }, 60_000);

  it('does not open the border by patching what carries its calls', async () => {
    const patch = `import sys, gc, types
found = [o for o in gc.get_objects() if isinstance(o, types.FunctionType) and o.__name__ == "entry" and o.__module__ == "__main__"]
def other(op, a='', b='', c='', d='', e=''):
    import js
    return js.process.version
for o in found:
    o.__code__ = other.__code__
r = len(found)`;
    // It hits what it aims at: the next call goes through what was patched.
    expect(await probe(patch)).toBe('+1');
    expect(await probe('r = 1')).toMatch(ended);
    expect(await probe('r = 2')).toBe('+2');
  }, 60_000);
});

describe('A Python plugin that runs away', () => {
  const next = async (): Promise<string> => probe('r = "fine"');

  it.each([
    ['while True', 'while True: pass', 'timed_out'],
    ['a loop in C', 'sum(range(10**13))', 'timed_out'],
    [
      'a swallowed interrupt',
      'while True:\n    try:\n        while True: pass\n    except BaseException: pass',
      'timed_out',
    ],
    ['a regular expression', 'import re\nre.match("(a+)+$", "a" * 64 + "b")', 'timed_out'],
    ['a sleep', 'import time\ntime.sleep(60)', 'timed_out'],
  ])(
    'is ended at its limit: %s',
    async (_name, code, cause) => {
      expect(await run(code, 300)).toMatchObject({ kind: 'failed', cause, detail: 'killed' });
      expect(await next()).toBe("+'fine'");
    },
    60_000,
  );

  it('cannot take more memory than it has', async () => {
    expect(await probe('x = []\nwhile True: x.append(bytearray(1000000))')).toMatch(/^!MemoryError/);
    expect(await next()).toBe("+'fine'");
    expect(await probe('r = len(bytearray(500000000))')).toMatch(/^!MemoryError/);
    expect(await next()).toBe("+'fine'");
  }, 60_000);

  it.each([
    ['os._exit', 'import os\nos._exit(3)', ended],
    ['os.abort', 'import os\nos.abort()', ended],
    [
      'a deep recursion in C',
      'import sys\nsys.setrecursionlimit(10**8)\na = []\nfor i in range(10**6): a = [a]\nr = repr(a)',
      ended,
    ],
    ['a fatal error', 'import faulthandler\nfaulthandler._sigsegv()', ended],
    ['sys.exit', 'import sys\nsys.exit(1)', /^!SystemExit: 1$/],
  ])(
    'harms nobody by ending itself: %s',
    async (_name, code, wanted) => {
      expect(await probe(code)).toMatch(wanted);
      expect(await next()).toBe("+'fine'");
    },
    60_000,
  );
});
