/** The hooks of KohakuTerrarium as data (kohaku.md §1–§8). What a hook is, is one entry here. */

export interface KohakuHook {
  readonly name: string;
  readonly group: string;
  /** How it is called and what its answer means. */
  readonly shape: Shape;
  /** What the first argument is inside a plugin. */
  readonly first: 'plain' | 'tool-call' | 'tool-result' | 'subagent-result';
  /** `PluginBlockError` ends the operation (§2). */
  readonly blocks: boolean;
  /** It is awaited whatever it gives, so a plain function's value is lost (§1). */
  readonly awaited: boolean;
  /** The manager measures it: activity `plugin_hook_timing` (§10). */
  readonly timed: boolean;
  /** It runs for a plugin that does not apply (§5). */
  readonly ignoresApplicability: boolean;
}

export type Shape =
  /** The first argument goes through the plugins. */
  | 'transform'
  /** A text that goes through; only a different text counts. */
  | 'text'
  /** Nothing comes back. */
  | 'callback'
  /** Everybody is asked; `False` vetoes. */
  | 'veto'
  | 'load'
  | 'unload'
  | 'applies'
  | 'commands'
  | 'user-commands'
  | 'vote'
  | 'visibility'
  | 'prompt'
  | 'services';

const hook = (
  name: string,
  group: string,
  shape: Shape,
  more: Partial<Omit<KohakuHook, 'name' | 'group' | 'shape'>> = {},
): KohakuHook => ({
  first: 'plain',
  blocks: false,
  awaited: false,
  timed: false,
  ignoresApplicability: false,
  ...more,
  name,
  group,
  shape,
});

const hooks: readonly KohakuHook[] = [
  hook('on_load', 'lifecycle', 'load', { ignoresApplicability: true }),
  hook('on_unload', 'lifecycle', 'unload', { ignoresApplicability: true }),
  hook('should_apply', 'lifecycle', 'applies', { ignoresApplicability: true }),
  hook('pre_llm_call', 'llm', 'transform', { blocks: true, timed: true }),
  hook('post_llm_call', 'llm', 'text', { awaited: true }),
  hook('get_tool_visibility', 'tool_visibility', 'visibility'),
  hook('pre_tool_dispatch', 'tool', 'transform', { first: 'tool-call', blocks: true, awaited: true }),
  hook('pre_tool_execute', 'tool', 'transform', { blocks: true, timed: true }),
  hook('post_tool_execute', 'tool', 'transform', { first: 'tool-result', timed: true }),
  hook('pre_subagent_run', 'subagent', 'transform', { blocks: true, timed: true }),
  hook('post_subagent_run', 'subagent', 'transform', { first: 'subagent-result', timed: true }),
  hook('on_agent_start', 'callback', 'callback', { timed: true }),
  hook('on_agent_stop', 'callback', 'callback', { timed: true }),
  hook('on_event', 'callback', 'callback', { timed: true }),
  hook('on_interrupt', 'callback', 'callback', { timed: true }),
  hook('on_task_promoted', 'callback', 'callback', { timed: true }),
  hook('on_compact_start', 'callback', 'veto'),
  hook('on_compact_end', 'callback', 'callback', { timed: true }),
  hook('contribute_commands', 'contribution', 'commands'),
  hook('contribute_user_commands', 'contribution', 'user-commands'),
  hook('contribute_termination_check', 'contribution', 'vote'),
  hook('get_prompt_content', 'contribution', 'prompt'),
  hook('runtime_services', 'contribution', 'services'),
  hook('get_content', 'prompt_plugin', 'prompt', { ignoresApplicability: true }),
];

/** The hooks by name. */
export const catalogue: ReadonlyMap<string, KohakuHook> = new Map(hooks.map((one) => [one.name, one]));

/** Commands of the controller that no plugin may take the name of without saying so (§7). */
export const builtInCommands: readonly string[] = ['read_job', 'info', 'jobs', 'wait'];

/** A plugin's number where its class names none. */
export const defaultPriority = 50;

/** What a handler of ours may take by default, ms; upstream sets no limit (§12). */
export const defaultTimeoutMs = 5000;
