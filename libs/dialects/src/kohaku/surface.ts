import { own } from '#hooks';
import type { Json, JsonObject } from '#record';

/** What blocked an operation. */
export interface Block {
  readonly hook: string;
  /** The name under which the plugin is registered. */
  readonly plugin: string;
  /** Null: none was given. */
  readonly message: string | null;
  readonly errorType: string;
  /** What the handlers got at first. */
  readonly input: JsonObject;
}

/** Where a block surfaces in the host (kohaku.md §2). */
export interface Surface extends JsonObject {
  /** Event or activity that the host shows. */
  readonly event: string;
  readonly jobId: string | null;
  readonly content: string;
  readonly error: string | null;
  readonly exitCode: number | null;
}

/** The label of a call that was rewritten to a tool that nobody registered. */
export const rewriteLabel = 'pre_tool_dispatch';

/** What the host shows for a block. */
export const surfaceOf = (block: Block): Surface => {
  switch (block.hook) {
    case 'pre_tool_dispatch':
      return ofDispatch(block);
    case 'pre_tool_execute':
      return ofExecution(block);
    case 'pre_subagent_run':
      return failed(`blocked_agent_${subagentOf(block)}`, `[${subagentOf(block)}] ${wordsOf(block)}`);
    case 'pre_llm_call':
      return ofModelCall(block);
    default:
      return {
        event: 'compact_skipped',
        jobId: null,
        content: '',
        error: null,
        exitCode: null,
        metadata: { reason: 'plugin_veto' },
      };
  }
};

const wordsOf = ({ message }: Block): string => message ?? '';

const failed = (jobId: string, words: string): Surface => ({
  event: 'tool_complete',
  jobId,
  content: words,
  error: words,
  exitCode: 1,
});

/** Native with a call id: the conversation gets the answer to the call, and an empty event wakes the loop. */
const ofDispatch = (block: Block): Surface => {
  const { value, agent } = block.input;
  const words = `[${block.plugin}] ${wordsOf(block)}`;
  const name = textIn(value, 'name') ?? '';
  const callId = textIn(own(value, 'args'), '_tool_call_id');
  if (callId === null || own(agent, 'native') === false) return failed(`blocked_${name}`, words);
  return {
    event: 'tool_complete',
    jobId: '',
    content: '',
    error: null,
    exitCode: null,
    appended: [{ role: 'tool', content: words, tool_call_id: callId, name }],
  };
};

/** No plugin name in the text. In a sub-agent it is the tool's feedback, else the job's error. */
const ofExecution = (block: Block): Surface => {
  const { kwargs, agent } = block.input;
  const words = wordsOf(block);
  const jobId = textIn(kwargs, 'job_id');
  const shown = { event: 'tool_error', jobId, error: words, exitCode: null };
  if (isSubagent(block.input)) return { ...shown, content: `[${textIn(kwargs, 'tool_name') ?? ''}] Error: ${words}` };
  const isNative = own(agent, 'native') !== false;
  return { ...shown, output: '', content: isNative ? `Error: ${words}` : `## ${jobId ?? ''} - ERROR\n${words}\n` };
};

/** The exception ends the turn; a sub-agent's run ends as failed. */
const ofModelCall = (block: Block): Surface => {
  const words = wordsOf(block);
  if (isSubagent(block.input)) {
    return { event: 'subagent_result', jobId: null, content: '', error: words, exitCode: null, success: false };
  }
  return {
    event: 'processing_error',
    jobId: null,
    content: `[PluginBlockError] ${words}`,
    error: words,
    exitCode: null,
    metadata: { error_type: block.errorType, error: words },
  };
};

const isSubagent = ({ agent }: JsonObject): boolean => own(agent, 'subagent') === true;

const subagentOf = ({ input }: Block): string => textIn(input.kwargs, 'name') ?? '';

const textIn = (value: unknown, field: string): string | null => {
  const found = own(value, field) as Json | undefined;
  return typeof found === 'string' ? found : null;
};
