import { catalogue } from './catalogue.js';

/**
 * What a Python plugin finds: the modules of `kohakuterrarium` that plugins import, in our own words, and the program
 * that calls one hook of one instance and says what came back (guest-kit.md, "Python").
 *
 * Raw results: `=` nothing · `~{"value": …}` another value · `!{…}` a block or a veto · `.` a callback was called ·
 * `+{…}` a contribution · `^{…}` a vote to stop · `-` the plugin does not apply · `?[code, text, traceback]` it raised.
 * A line feed and JSON `[[code, detail], …]` of warnings follow, or nothing.
 */
const program = String.raw`
import sys, types, dataclasses, re, inspect, pathlib, logging, typing, os, importlib.util, linecache, collections, abc

HOOKS = frozenset(/*HOOKS*/)
CALLBACKS = frozenset(/*CALLBACKS*/)


class PluginBlockError(Exception):
    """Blocks the operation; its text is the reason."""


class PluginOptionError(ValueError):
    """Options that do not fit a plugin's schema."""


class _Object(dict):
    """A JSON object whose fields can be read as attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


class TriggerEvent(_Object):
    pass


@dataclasses.dataclass
class ToolCallEvent:
    name: str = ''
    args: dict = dataclasses.field(default_factory=dict)
    raw: str = ''


@dataclasses.dataclass
class ToolResult:
    output: typing.Any = ''
    exit_code: typing.Any = None
    error: typing.Any = None
    metadata: dict = dataclasses.field(default_factory=dict)

    @property
    def success(self):
        return self.error is None and self.exit_code in (None, 0)

    def get_text_output(self):
        return self.output if isinstance(self.output, str) else str(self.output)


@dataclasses.dataclass
class SubAgentResult:
    output: typing.Any = ''
    success: bool = True
    error: typing.Any = None
    turns: int = 0
    duration: float = 0.0
    total_tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    metadata: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class TerminationContext:
    turn_count: int = 0
    elapsed: float = 0.0
    idle_time: float = 0.0
    last_output: str = ''
    scratchpad: typing.Any = None
    recent_tool_results: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class TerminationDecision:
    should_stop: bool = False
    reason: str = ''


@dataclasses.dataclass(frozen=True)
class ToolVisibility:
    allowed_tools: typing.Optional[frozenset] = None
    allowed_subagents: typing.Optional[frozenset] = None


class BasePlugin:
    """The lifecycle plugin: every hook does nothing."""

    name = ''
    priority = 50
    description = ''
    applies_to = None
    command_override = False

    def __init__(self, *args, **options):
        self.options = dict(options)
        self._model_patterns = []
        for pattern in (getattr(self, 'applies_to', None) or {}).get('model_patterns') or []:
            try:
                self._model_patterns.append(re.compile(pattern))
            except (re.error, TypeError) as error:
                get_logger(__name__).warning('invalid model pattern %r: %s', pattern, error)

    def should_apply(self, context):
        wanted = getattr(self, 'applies_to', None) or {}
        names = wanted.get('agent_names')
        if names and context.agent_name not in names:
            return False
        if wanted.get('model_patterns') and self._model_patterns:
            return any(pattern.search(context.model or '') for pattern in self._model_patterns)
        return True if not wanted.get('model_patterns') else self._no_patterns()

    def _no_patterns(self):
        return len(self._model_patterns) == 0

    async def on_load(self, context): pass
    async def on_unload(self): pass
    async def pre_llm_call(self, messages, **kwargs): return None
    async def post_llm_call(self, messages, response, usage, **kwargs): return None
    def get_tool_visibility(self, context): return None
    async def pre_tool_dispatch(self, call, context): return None
    async def pre_tool_execute(self, args, **kwargs): return None
    async def post_tool_execute(self, result, **kwargs): return None
    async def pre_subagent_run(self, task, **kwargs): return None
    async def post_subagent_run(self, result, **kwargs): return None
    async def on_agent_start(self): pass
    async def on_agent_stop(self): pass
    async def on_event(self, event=None): pass
    async def on_interrupt(self): pass
    async def on_task_promoted(self, job_id='', tool_name=''): pass
    async def on_compact_start(self, context_length=0): return None
    async def on_compact_end(self, summary='', messages_removed=0): pass
    def contribute_commands(self): return {}
    def contribute_user_commands(self): return {}
    def contribute_termination_check(self): return None
    def get_prompt_content(self, context): return None
    def runtime_services(self, context): return {}

    @classmethod
    def option_schema(cls): return {}
    def get_options(self): return dict(getattr(self, 'options', None) or {})
    def set_options(self, values):
        merged = {**self.get_options(), **values}
        self.options = merged
        self.refresh_options()
        return merged
    def refresh_options(self): pass


class PromptBasePlugin:
    """The prompt plugin of kohakuterrarium.prompt.plugins."""

    @property
    def name(self): return type(self).__name__

    @property
    def priority(self): return 50

    def get_content(self, context): return None


@dataclasses.dataclass
class PromptContext:
    registry: typing.Any = None
    working_dir: typing.Any = None
    agent_path: typing.Any = None
    tool_format: str = 'bracket'
    extra: dict = dataclasses.field(default_factory=dict)


def _plain(value):
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)} | {
            key: item for key, item in vars(value).items() if not key.startswith('_')
        }
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, pathlib.PurePath):
        return str(value)
    if isinstance(value, collections.abc.Mapping):
        return dict(value)
    raise TypeError('a ' + type(value).__name__ + ' cannot be passed on')


class PluginContext:
    """What a plugin knows of its host. What it wants done is told to the host with the answer."""

    def __init__(self, agent_name='', working_dir=None, session_id='', model='', _plugin_name='', _world=None):
        self.agent_name = agent_name
        self.working_dir = working_dir if isinstance(working_dir, pathlib.PurePath) else pathlib.Path(working_dir or '.')
        self.session_id = session_id
        self.model = model
        self._plugin_name = _plugin_name
        self._world = _world

    host_agent = session_store = session_memory = registry = scratchpad = None
    compact_manager = controller = subagent_manager = None

    def _tell(self, what, args):
        run = _kit.run_of()
        if run is None:
            return False
        return run.emit(what, _kit.loads(_encode(args)))

    def switch_model(self, name):
        return str(name) if self._tell('switch_model', [str(name)]) else ''

    def inject_event(self, event):
        self._tell('inject_event', [event])

    def inject_message_before_llm(self, role, content):
        self._tell('inject_message_before_llm', [role, content])

    def emit(self, event):
        self._tell('emit', [event])

    async def emit_and_wait(self, event, timeout_s=None):
        raise RuntimeError('no interactive host is attached')

    def spawn_child_agent(self, *args, **kwargs):
        raise RuntimeError('no host agent is attached')

    def get_state(self, key, default=None):
        return (self._world.state if self._world is not None else {}).get(key, default)

    def set_state(self, key, value):
        value = _kit.loads(_encode(value))
        if self._world is not None:
            self._world.state[key] = value
        self._tell('set_state', [str(key), value])

    def with_model(self, model):
        return PluginContext(self.agent_name, self.working_dir, self.session_id, model, self._plugin_name, self._world)


def get_logger(name=''):
    return logging.getLogger(name)


def validate_plugin_options(schema, values):
    for key in values:
        if key not in schema:
            raise PluginOptionError('unknown option ' + repr(key))
    return dict(values)


class PluginManager:
    """Only its name: chains are run by the platform."""


class _Command:
    override = False


def _module(name, **members):
    module = types.ModuleType('kohakuterrarium' + name)
    module.__path__ = []
    module.__dict__.update(members)
    sys.modules[module.__name__] = module
    parent, _, last = module.__name__.rpartition('.')
    if parent:
        setattr(sys.modules[parent], last, module)


_plugin_members = dict(
    BasePlugin=BasePlugin, PluginBlockError=PluginBlockError, PluginContext=PluginContext, PluginManager=PluginManager,
    PluginOptionError=PluginOptionError, validate_plugin_options=validate_plugin_options,
)
_module('', __version__='2.1.0')
_module('.modules')
_module('.modules.plugin', **_plugin_members)
_module('.modules.plugin.base', **_plugin_members, ToolVisibility=ToolVisibility)
_module('.modules.plugin.tool_visibility', ToolVisibility=ToolVisibility)
_module('.modules.tool')
_module('.modules.tool.base', ToolResult=ToolResult)
_module('.modules.subagent', SubAgentResult=SubAgentResult)
_module('.modules.subagent.base', SubAgentResult=SubAgentResult)
_module('.modules.subagent.result', SubAgentResult=SubAgentResult)
_module('.modules.user_command', BaseUserCommand=_Command, UserCommand=_Command)
_module('.modules.user_command.base', BaseUserCommand=_Command, UserCommand=_Command)
_module('.modules.controller')
_module('.parsing', ToolCallEvent=ToolCallEvent)
_module('.parsing.events', ToolCallEvent=ToolCallEvent)
_module('.commands')
_module('.commands.base', BaseCommand=_Command, Command=_Command)
_module('.core')
_module('.core.events', TriggerEvent=TriggerEvent)
_module('.core.termination', TerminationContext=TerminationContext, TerminationDecision=TerminationDecision)
_module('.utils')
_module('.utils.logging', get_logger=get_logger)
_module('.prompt')
_module('.prompt.plugins', BasePlugin=PromptBasePlugin, PluginContext=PromptContext, PromptContext=PromptContext)

_kit = None
_encode = None


def _decode(first, value):
    if first == 'plain' or not isinstance(value, dict):
        return value
    if first == 'tool-call':
        return ToolCallEvent(str(value.get('name', '')), value.get('args') if isinstance(value.get('args'), dict) else {}, value.get('raw') or '')
    kind = ToolResult if first == 'tool-result' else SubAgentResult
    if 'output' not in value:
        return value
    known = {field.name for field in dataclasses.fields(kind)}
    made = kind(**{key: item for key, item in value.items() if key in known})
    for key, item in value.items():
        if key not in known and key != 'success':
            setattr(made, key, item)
    return made


KINDS = {'tool-call': ToolCallEvent, 'subagent-result': SubAgentResult}


class _World:
    """One instance of the plugin, for one agent and session."""

    __slots__ = ('object', 'context', 'now', 'state', 'loaded')

    def __init__(self, object, context):
        self.object = object
        self.context = context
        self.now = context
        self.state = {}
        self.loaded = False


class Guest:
    MAX_WORLDS = 256

    def __init__(self, code, name, setup):
        self.setup = setup
        self.label = setup.get('pluginName') or setup.get('pluginId') or ''
        self.options = setup.get('config') or {}
        self.worlds = collections.OrderedDict()
        self.warnings = []
        self.keeps_state = 'get_state' in code or 'set_state' in code
        self.space = self._evaluate(code, name)
        self.cls = self._choose()
        self.is_prompt = issubclass(self.cls, PromptBasePlugin)

    # ------------------------------------------------------------ loading

    def _evaluate(self, code, name):
        marker = '#!hookledger-files\n'
        if code.startswith(marker):
            given = _kit.loads(code[len(marker):])
            root = '/home/pyodide/plugin'
            for path, text in given['files'].items():
                place = os.path.join(root, path)
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, 'w', encoding='utf-8', errors='surrogatepass', newline='') as file:
                    file.write(text)
            entry = given['entry']
            sys.path[:0] = [os.path.dirname(os.path.join(root, entry)), root]
            dotted = entry[:-3].replace('/', '.') if entry.endswith('.py') else 'plugin'
            code, name = given['files'][entry], os.path.join(root, entry)
        else:
            dotted = 'hookledger_plugin'
        module = types.ModuleType(dotted)
        module.__file__ = name
        module.__package__ = dotted.rpartition('.')[0]
        sys.modules[dotted] = module
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        exec(compile(code, name, 'exec'), module.__dict__)
        return module.__dict__

    def _choose(self):
        wanted = self.setup.get('class')
        if wanted:
            found = self.space.get(wanted)
            if not isinstance(found, type):
                raise LookupError('the source has no class ' + wanted)
            if not issubclass(found, (BasePlugin, PromptBasePlugin)):
                raise TypeError(wanted + ' is no subclass of BasePlugin')
            return found
        own = self.space.get('__name__')
        all = [
            item for item in self.space.values()
            if isinstance(item, type) and issubclass(item, (BasePlugin, PromptBasePlugin)) and item not in (BasePlugin, PromptBasePlugin)
        ]
        all = list(dict.fromkeys(all))
        here = [item for item in all if item.__module__ == own] or all
        leaves = [item for item in here if not any(other is not item and issubclass(other, item) for other in here)]
        if not leaves:
            raise LookupError('the source has no subclass of BasePlugin')
        if len(leaves) > 1:
            raise LookupError('the source has several plugins: name one with class (' + ', '.join(item.__name__ for item in leaves) + ')')
        return leaves[0]

    def _overrides(self, hook):
        base = PromptBasePlugin if self.is_prompt else BasePlugin
        found = getattr(self.cls, hook, None)
        return found is not None and found is not getattr(base, hook, None)

    def report(self):
        made = self._make()
        if self.is_prompt:
            hooks = ['get_content'] if self._overrides('get_content') else []
        else:
            hooks = [hook for hook in sorted(HOOKS) if hook != 'get_content' and (self._overrides(hook) or (hook in CALLBACKS and hook in vars(made)))]
        self._examine(made, hooks)
        priority = getattr(made, 'priority', 50)
        if isinstance(priority, bool) or not isinstance(priority, (int, float)) or priority != priority or abs(priority) == float('inf'):
            self.warnings.append(['bad_priority', 'the class names a priority that is no number: 50 counts'])
            priority = 50
        self.worlds.clear()
        return _kit.dumps({
            'hooks': hooks, 'priority': priority, 'prompt': self.is_prompt, 'class': self.cls.__name__,
            'classGiven': bool(self.setup.get('class')), 'state': self.keeps_state, 'warnings': self.warnings,
            **({'pluginName': self.setup['pluginName']} if self.setup.get('pluginName') else {}),
        })

    def _examine(self, made, hooks):
        warn = lambda code, detail: self.warnings.append([code, detail])
        for name in dir(self.cls):
            if re.match('(pre|post|on|contribute)_', name) and name not in HOOKS and callable(getattr(self.cls, name)):
                warn('unknown_hook', name)
        for hook in ('post_llm_call', 'pre_tool_dispatch'):
            if hook in hooks and not inspect.iscoroutinefunction(getattr(self.cls, hook)):
                warn('not_async', hook)
        if 'on_load' in hooks:
            names = list(inspect.signature(self.cls.on_load).parameters.values())[1:]
            if not any(item.name == 'context' or item.kind is item.VAR_KEYWORD for item in names):
                warn('on_load_parameter', 'on_load takes no parameter of the name context: upstream 2.1 never loads this plugin')
        if 'pre_tool_execute' in hooks:
            kinds = [item.kind for item in inspect.signature(self.cls.pre_tool_execute).parameters.values()]
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                warn('no_kwargs', 'pre_tool_execute takes no **kwargs: a call with a keyword that it does not name raises and blocks nothing')
        if not self.is_prompt and (getattr(made, 'applies_to', None) or {}).get('model_patterns') and not hasattr(made, '_model_patterns'):
            warn('no_super_init', 'applies_to.model_patterns needs super().__init__(): without it the plugin applies to every model')

    def _make(self):
        made = self.cls(**self.options)
        if not self.is_prompt:
            try:
                made.name = self.label
            except Exception:
                pass
        return made

    # ------------------------------------------------------------ one call

    def _world(self, run, agent):
        name = agent.get('name') or ''
        session = agent.get('session_id') or ''
        key = (name, session)
        world = self.worlds.get(key)
        if world is not None:
            self.worlds.move_to_end(key)
            return world
        context = PluginContext(name, agent.get('working_dir'), session, agent.get('model') or '', self.label)
        world = _World(self._make(), context)
        context._world = world
        self.worlds[key] = world
        if len(self.worlds) > self.MAX_WORLDS:
            self.worlds.popitem(last=False)
        run.emit('instance', [name, session])
        return world

    async def call(self, run, handler, given, args):
        warnings = []
        try:
            raw = await self._call(run, handler, given, args, warnings)
        except PluginBlockError as error:
            if args['blocks']:
                raw = '!' + _kit.dumps({'message': str(error), 'plugin': self.label, 'type': type(error).__name__})
            else:
                raw = self._raised(error)
        except MemoryError as error:
            raw = '?' + _kit.dumps(['handler_crashed', 'memory', _kit.trace_of(error)])
        except BaseException as error:
            raw = self._raised(error)
        return raw + '\n' + (_kit.dumps(warnings) if warnings else '')

    def _raised(self, error):
        return '?' + _kit.dumps(['handler_threw', type(error).__name__ + ': ' + _kit.text_of(error), _kit.trace_of(error)])

    async def _call(self, run, hook, given, args, warnings):
        agent = given.get('agent') or {}
        kwargs = given.get('kwargs') or {}
        value = given.get('value')
        shape = args['shape']
        if self.is_prompt:
            return await self._prompt(run, agent, kwargs, args, warnings)
        world = self._world(run, agent)
        plugin, context = world.object, world.context
        if 'kept' in args:
            world.state = {key: _kit.loads(text) for key, text in args['kept']}
        if shape == 'load':
            world.loaded = True
            await self._load(plugin, context, args)
            return '.'
        if not world.loaded:
            world.loaded = True
            if agent.get('on_load') is not False and self._overrides('on_load'):
                try:
                    await self._load(plugin, context, args)
                except Exception as error:
                    warnings.append(['on_load_raised', type(error).__name__ + ': ' + _kit.text_of(error)])
        if shape == 'unload':
            self.worlds.pop((agent.get('name') or '', agent.get('session_id') or ''), None)
            await self._result(plugin.on_unload)
            return '.'
        model = agent.get('model')
        if model and model != world.now.model:
            world.now = context.with_model(model)
        now = world.now if model else context
        if not args['always']:
            try:
                applies = bool(plugin.should_apply(now if shape == 'visibility' else context))
            except Exception as error:
                applies = True
                warnings.append(['should_apply_raised', type(error).__name__ + ': ' + _kit.text_of(error)])
            if not applies:
                return '-'
        if shape == 'transform':
            return await self._transform(plugin, hook, value, kwargs, now, args, warnings)
        if shape == 'text':
            found = await plugin.post_llm_call(kwargs.get('messages') or [], value, kwargs.get('usage') or {}, **({'model': kwargs.get('model')} if 'model' in kwargs else {'model': agent.get('model') or ''}))
            if isinstance(found, str):
                return '=' if found == value else '~' + _encode({'value': found})
            if found is not None:
                warnings.append(['return_ignored', 'a ' + type(found).__name__ + ' is no text'])
            return '='
        if shape == 'callback':
            if hook == 'on_event':
                event = kwargs.get('event', value)
                kwargs = {**kwargs, 'event': TriggerEvent(event) if isinstance(event, dict) else event}
            await self._result(getattr(plugin, hook), **kwargs)
            return '.'
        if shape == 'veto':
            found = await self._result(plugin.on_compact_start, **kwargs)
            return '!' + _kit.dumps({'message': None, 'plugin': self.label, 'type': 'veto'}) if found is False else '.'
        if shape == 'applies':
            return '+' + _kit.dumps({'applies': {self.label: bool(plugin.should_apply(now))}})
        if shape == 'visibility':
            return self._visible(plugin.get_tool_visibility(now), warnings)
        if shape == 'commands':
            found = plugin.contribute_commands() or {}
            override = getattr(plugin, 'command_override', False) is True
            return '+' + _encode({'commands': [[str(name), self.label, override] for name in found]})
        if shape == 'user-commands':
            found = plugin.contribute_user_commands() or {}
            return '+' + _encode({'commands': [[str(name), self.label, getattr(item, 'override', False) is True] for name, item in found.items()]})
        if shape == 'vote':
            return self._vote(plugin, value, warnings)
        if shape == 'prompt':
            return self._text(plugin.get_prompt_content(now), warnings)
        found = plugin.runtime_services(_Object(kwargs) if kwargs else now) or {}
        return '+' + _encode({'services': {str(key): _service(item) for key, item in dict(found).items()}})

    async def _load(self, plugin, context, args):
        if args['positionalLoad']:
            await self._result(plugin.on_load, context)
        else:
            await self._result(plugin.on_load, context=context)

    async def _result(self, method, *given, **kwargs):
        found = method(*given, **kwargs)
        return await found if inspect.iscoroutinefunction(method) else found

    async def _transform(self, plugin, hook, value, kwargs, now, args, warnings):
        first = _decode(args['first'], value)
        before = None if isinstance(first, (str, int, float, bool)) or first is None else _encode(first)
        method = getattr(plugin, hook)
        if hook == 'pre_tool_dispatch':
            found = await method(first, now)
            if found is not None and not isinstance(found, ToolCallEvent):
                warnings.append(['return_ignored', 'a ' + type(found).__name__ + ' is no ToolCallEvent'])
                found = None
        else:
            if hook in ('pre_tool_execute', 'post_tool_execute') and 'context' not in kwargs:
                kwargs = {**kwargs, 'context': now}
            if hook == 'pre_subagent_run' and args['subagentJobId'] and 'job_id' not in kwargs:
                kwargs = {**kwargs, 'job_id': None}
            found = await self._result(method, first, **kwargs)
            if hook == 'post_subagent_run' and found is not None and isinstance(first, SubAgentResult) and not args['anySubagentResult'] and not isinstance(found, SubAgentResult):
                warnings.append(['return_ignored', 'a ' + type(found).__name__ + ' is no SubAgentResult'])
                found = None
        if found is None and before is None:
            return '='
        # What was edited in place counts, too (§1.4).
        try:
            after = _encode(first if found is None else found)
        except (TypeError, ValueError, RecursionError) as error:
            return '?' + _kit.dumps(['handler_malformed', _kit.text_of(error), ''])
        return '=' if after == before else '~{"value":' + after + '}'

    def _vote(self, plugin, value, warnings):
        check = plugin.contribute_termination_check()
        if check is None:
            return '='
        known = {field.name for field in dataclasses.fields(TerminationContext)}
        context = TerminationContext(**{key: item for key, item in (value or {}).items() if key in known})
        found = check(context)
        if found is None:
            return '='
        if not isinstance(found, TerminationDecision):
            warnings.append(['return_ignored', 'a ' + type(found).__name__ + ' is no TerminationDecision'])
            return '='
        if not found.should_stop:
            return '='
        return '^' + _encode({'should_stop': True, 'reason': str(found.reason) if found.reason else 'Plugin vetoed continuation', 'plugin': self.label})

    def _visible(self, found, warnings):
        if found is None:
            return '='
        if not isinstance(found, ToolVisibility):
            warnings.append(['return_ignored', 'a ' + type(found).__name__ + ' is no ToolVisibility'])
            return '='
        said = {}
        for field in ('allowed_tools', 'allowed_subagents'):
            names = getattr(found, field)
            if names is not None:
                said[field] = sorted(str(name) for name in names)
        return '+' + _kit.dumps(said) if said else '='

    def _text(self, found, warnings):
        if isinstance(found, str):
            return '+' + _encode({'parts': [found]}) if found else '='
        if found is not None:
            warnings.append(['return_ignored', 'a ' + type(found).__name__ + ' is no text'])
        return '='

    async def _prompt(self, run, agent, kwargs, args, warnings):
        key = (agent.get('name') or '', agent.get('session_id') or '')
        plugin = self.worlds.get(key)
        if plugin is None:
            plugin = self.worlds[key] = self._make()
            if len(self.worlds) > self.MAX_WORLDS:
                self.worlds.popitem(last=False)
            run.emit('instance', list(key))
        context = PromptContext(None, agent.get('working_dir'), kwargs.get('agent_path'), kwargs.get('tool_format') or 'bracket', kwargs.get('extra') or {})
        found = plugin.get_content(context)
        if inspect.isawaitable(found):
            if not args['promptPlugins']:
                found.close() if hasattr(found, 'close') else None
                warnings.append(['return_ignored', 'get_content is not awaited'])
                return '='
            found = await found
        return self._text(found, warnings)


def _service(item):
    try:
        _encode(item)
        return item
    except (TypeError, ValueError):
        return repr(item)[:200]


def make(kit, code, name, setup):
    global _kit, _encode
    import json
    _kit = kit
    _encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(',', ':'), default=_plain).encode
    return Guest(code, name, setup)
`;

const list = (names: readonly string[]): string => JSON.stringify(names);

/** The guest program of Python plugins. */
export const pythonShim = program
  .replace('/*HOOKS*/', list([...catalogue.keys()]))
  .replace(
    '/*CALLBACKS*/',
    list([...catalogue.values()].filter(({ shape }) => shape === 'callback').map(({ name }) => name)),
  );
