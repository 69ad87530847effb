/** Tools that belong to a group of 2026.9, by the group's name. */
const groups: { readonly [group: string]: readonly string[] } = {
  'group:openclaw': [
    'code_execution',
    'secrets',
    'web_search',
    'web_fetch',
    'x_search',
    'memory_search',
    'memory_get',
    'sessions',
    'sessions_list',
    'sessions_history',
    'sessions_search',
    'conversations_list',
    'conversations_send',
    'conversations_turn',
    'sessions_send',
    'sessions_spawn',
    'github_identity_status',
    'github_publish',
    'agents_wait',
    'sessions_yield',
    'subagents',
    'session_status',
    'suggest_task',
    'dismiss_task',
    'browser',
    'screen',
    'theme',
    'dashboard',
    'terminal',
    'portal',
    'show_widget',
    'message',
    'heartbeat_respond',
    'automations',
    'gateway',
    'plugins',
    'openclaw',
    'nodes',
    'computer',
    'mobile_ui',
    'agents_list',
    'get_goal',
    'create_goal',
    'update_goal',
    'progress_card',
    'ask_user',
    'skill_workshop',
    'view_image',
    'image_generate',
    'music_generate',
    'video_generate',
    'tts',
    'pdf',
  ],
  'group:fs': ['ls', 'read', 'write', 'edit', 'apply_patch'],
  'group:runtime': ['exec', 'process', 'code_execution', 'secrets'],
  'group:web': ['web_search', 'web_fetch', 'x_search'],
  'group:memory': ['memory_search', 'memory_get'],
  'group:sessions': [
    'sessions',
    'sessions_list',
    'sessions_history',
    'sessions_search',
    'conversations_list',
    'conversations_send',
    'conversations_turn',
    'sessions_send',
    'sessions_spawn',
    'github_identity_status',
    'github_publish',
    'agents_wait',
    'sessions_yield',
    'subagents',
    'session_status',
    'suggest_task',
    'dismiss_task',
  ],
  'group:ui': ['browser', 'screen', 'theme', 'dashboard', 'terminal', 'portal', 'canvas', 'show_widget'],
  'group:messaging': ['message'],
  'group:automation': ['heartbeat_respond', 'automations', 'gateway', 'plugins', 'openclaw'],
  'group:nodes': ['nodes', 'computer', 'mobile_ui'],
  'group:agents': [
    'agents_list',
    'get_goal',
    'create_goal',
    'update_goal',
    'progress_card',
    'ask_user',
    'skill_workshop',
  ],
  'group:media': ['view_image', 'image_generate', 'music_generate', 'video_generate', 'tts', 'pdf'],
};

const aliases: { readonly [name: string]: string } = {
  bash: 'exec',
  'apply-patch': 'apply_patch',
  cron: 'automations',
};

/**
 * What several restrictions of a turn's tools come to (openclaw.md §13): each is a list of names, groups and patterns
 * with `*`; one that is no list of names allows nothing. Undefined: nobody restricts anything.
 */
export const intersectTools = (restrictions: readonly unknown[]): readonly string[] | undefined => {
  let left: readonly string[] | undefined;
  for (const restriction of restrictions) {
    const right = namesIn(restriction);
    left = left === undefined ? right : intersection(left, right);
  }
  return left;
};

const namesIn = (restriction: unknown): readonly string[] =>
  Array.isArray(restriction) && restriction.every((name) => typeof name === 'string') ? restriction : [];

const intersection = (left: readonly string[], right: readonly string[]): readonly string[] => {
  if (left.length === 0 || right.length === 0) return [];
  const [ours, theirs] = [expanded(left), expanded(right)];
  if (ours.includes('*')) return theirs;
  if (theirs.includes('*')) return ours;
  const [byOurs, byTheirs] = [matcherOf(ours), matcherOf(theirs)];
  return [...new Set([...ours, ...theirs])].filter((name) => byOurs(name) && byTheirs(name));
};

const expanded = (list: readonly string[]): readonly string[] => [
  ...new Set(
    list
      .map(canonical)
      .flatMap((name) => (Object.hasOwn(groups, name) ? (groups[name] ?? []) : name === '' ? [] : [name])),
  ),
];

const canonical = (name: string): string => {
  const lower = name.trim().toLowerCase();
  return Object.hasOwn(aliases, lower) ? (aliases[lower] ?? lower) : lower;
};

/** An empty list of patterns allows every tool; `write` allows `apply_patch` as well. */
const matcherOf = (allow: readonly string[]): ((name: string) => boolean) => {
  const exact = new Set(allow.filter((name) => !name.includes('*')));
  const wild = allow.filter((name) => name.includes('*')).map(patternOf);
  const allows = (name: string): boolean => exact.has(name) || wild.some((pattern) => pattern.test(name));
  return (name) => allow.length === 0 || allows(name) || (name === 'apply_patch' && allows('write'));
};

const patternOf = (glob: string): RegExp =>
  new RegExp(`^${glob.replace(/[.*+?^${}()|[\]\\]/gu, '\\$&').replaceAll('\\*', '.*')}$`, 'u');
