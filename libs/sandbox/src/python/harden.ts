import { constants } from 'node:fs';

/**
 * The border between the interpreter and this process (python-runtime.md §5). Every function that Pyodide's WebAssembly
 * imports is wrapped, in place, since `dlsym` looks into the same object. Once the interpreter has started, `lock` lets
 * only those through that a hook call with texts needs: clocks, the memory file system, what converts text, memory up to
 * its bound. Everything else throws or fails, whoever asks for it: `os.system`, sockets, `ctypes`, every `JsProxy`.
 */
export interface Border {
  /** From now on. Cannot be undone. */
  lock(): void;
}

/** What text, numbers and calls need to cross. */
const crossing = [
  'JsvArray_Get',
  'js2python_js',
  '_PyEM_TrampolineCall_JS',
  '_python2js_ascii',
  '_python2js_ucs1',
  '_python2js_ucs2',
  '_python2js_ucs4',
  'JsvError_Check',
  'JsvNoValue_Check',
  'Jsv_GetError_import',
];

/** Clocks, chance, and the interpreter's own machinery. */
const machinery = [
  'clock_time_get',
  'clock_res_get',
  'emscripten_get_now',
  'emscripten_get_now_res',
  '_emscripten_get_now_is_monotonic',
  'emscripten_date_now',
  '_localtime_js',
  '_gmtime_js',
  '_mktime_js',
  '_timegm_js',
  '_tzset_js',
  'strptime',
  'strptime_l',
  'random_get',
  'emscripten_resize_heap',
  'emscripten_get_heap_max',
  'can_run_sync_js',
  'environ_get',
  'environ_sizes_get',
  'args_get',
  'args_sizes_get',
  'proc_exit',
  'exit',
  'abort',
  '_abort_js',
  '__assert_fail',
  'saveState',
  'restoreState',
  'stackAlloc',
  'stackSave',
  'stackRestore',
  'throw_no_gil',
  '_Py_CheckEmscriptenSignals_Helper',
];

/** The file system in memory: nothing can be mounted, and what is in it is gone with the interpreter. */
const files = [
  'fd_read',
  'fd_write',
  'fd_close',
  'fd_seek',
  'fd_sync',
  'fd_pread',
  'fd_pwrite',
  'fd_fdstat_get',
  '__syscall_openat',
  '__syscall_stat64',
  '__syscall_lstat64',
  '__syscall_fstat64',
  '__syscall_newfstatat',
  '__syscall_getdents64',
  '__syscall_getcwd',
  '__syscall_chdir',
  '__syscall_unlinkat',
  '__syscall_rmdir',
  '__syscall_mkdirat',
  '__syscall_renameat',
  '__syscall_readlinkat',
  '__syscall_symlinkat',
  '__syscall_ftruncate64',
  '__syscall_truncate64',
  '__syscall_faccessat',
  '__syscall_utimensat',
  '__syscall_chmod',
  '__syscall_fchmod',
  '__syscall_fchmodat2',
  '__syscall_fcntl64',
  '__syscall_ioctl',
  '__syscall_dup',
  '__syscall_dup3',
  '__syscall_umask_js',
  '__syscall_getuid32_js',
  '__syscall_fdatasync',
  '__syscall_fadvise64',
  '__syscall_fallocate',
];

const allowed: ReadonlySet<string> = new Set([...crossing, ...machinery, ...files]);

/** Exceptions of C++ and long jumps: the compiler makes these, one per signature. */
const isCompilers = (name: string): boolean => name.startsWith('invoke_') || name.startsWith('__cxa_');

/** Functions that say no with a number, as C does, where throwing would end the interpreter. */
const refusals: ReadonlyMap<string, number> = new Map([
  ['_emscripten_system', -1],
  ['_dlopen_js', 0],
  ['_dlsym_js', 0],
  ['_dlsym_catchup_js', 0],
  ['_emscripten_dlopen_js', 0],
  ['ffi_closure_alloc_js', 0],
  ['emscripten_run_script', 0],
  ['emscripten_run_script_int', 0],
  ['emscripten_run_script_string', 0],
]);

const ENOSYS = -52;
const MIB = 1024 * 1024;

type Import = ((...given: unknown[]) => unknown) & Record<string, unknown>;
type Imports = Record<string, unknown>;

/** What is used of WebAssembly, which the types of Node leave to those of browsers. */
interface WebAssemblyParts {
  instantiate: (source: unknown, imports?: Record<string, unknown>) => Promise<unknown>;
  readonly Memory: { readonly prototype: MemoryParts };
}

interface MemoryParts {
  readonly buffer: ArrayBufferLike;
  grow(pages: number): number;
}

const webAssembly = (globalThis as unknown as { readonly WebAssembly: WebAssemblyParts }).WebAssembly;

/**
 * Takes hold of what Pyodide is about to import; to be called before it is loaded. `maxMiB` bounds the interpreter's
 * memory. Throws at instantiation when an import that must be closed is not there: the list fits one build of Pyodide.
 */
export const buildBorder = (maxMiB: number): Border => {
  let isLocked = false;
  const { instantiate } = webAssembly;
  const wrap = (name: string, original: Import): Import => {
    if (allowed.has(name) || isCompilers(name)) return original;
    const refusal = refusals.get(name) ?? (name.startsWith('__syscall_') || name.startsWith('_try_') ? ENOSYS : null);
    const wrapped = function (this: unknown, ...given: unknown[]): unknown {
      if (!isLocked) return original.apply(this, given);
      if (refusal !== null) return refusal;
      throw new Error(`${name} is closed`);
    };
    return Object.assign<Import, Import>(wrapped as Import, original);
  };
  const takeHold = (imports: Imports): void => {
    for (const needed of [
      '_emscripten_system',
      '_dlsym_js',
      'ffi_call_js',
      '__syscall_connect',
      'JsProxy_GetAttr_js',
    ]) {
      if (!Object.hasOwn(imports, needed)) throw new Error(`this build of Pyodide does not import ${needed}`);
    }
    for (const [name, value] of Object.entries(imports)) {
      if (typeof value === 'function') imports[name] = wrap(name, value as Import);
    }
  };
  const held = async (source: unknown, given?: Record<string, unknown>): Promise<unknown> => {
    const env = given?.env as Imports | undefined;
    if (env !== undefined && Object.hasOwn(env, 'ffi_call_js')) takeHold(env);
    else if (isLocked) throw new Error('WebAssembly is closed');
    return instantiate(source, given);
  };
  webAssembly.instantiate = held;
  boundMemory(maxMiB);
  // Emscripten's file system of Node asks for its constants; nothing else of the process is handed out.
  (process as unknown as { binding: (name: string) => unknown }).binding = (name) => {
    if (name === 'constants') return { fs: constants };
    throw new Error(`process.binding(${name}) is closed`);
  };
  return {
    lock: () => {
      isLocked = true;
    },
  };
};

const PAGE = 64 * 1024;

/** The engine's own limits do not count WebAssembly. */
const boundMemory = (maxMiB: number): void => {
  const { prototype } = webAssembly.Memory;
  const { grow } = prototype as { readonly grow: (this: MemoryParts, pages: number) => number };
  prototype.grow = function (this: MemoryParts, pages: number): number {
    if (this.buffer.byteLength + pages * PAGE > maxMiB * MIB) throw new RangeError('out of memory');
    return grow.call(this, pages);
  };
};
