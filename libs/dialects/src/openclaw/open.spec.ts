import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '#record';
import type { Opening } from '../dialect.js';
import { catalogue } from './catalogue.js';
import { inputWith, openEvent } from './open.js';
import { profiles } from './profiles.js';
import type { Profile } from './profiles.js';

const open = (hook: string, body: JsonObject, profile: Profile = profiles.documented): Opening => {
  const known = catalogue.get(hook);
  if (known === undefined) throw new Error(hook);
  return openEvent(known, profile, body);
};
const opened = (...given: Parameters<typeof open>) => {
  const opening = open(...given);
  if (opening.kind === 'refused') throw new Error(JSON.stringify(opening.faults));
  return opening;
};
const pointers = (...given: Parameters<typeof open>): readonly string[] => {
  const opening = open(...given);
  return opening.kind === 'refused' ? opening.faults.map(({ pointer }) => pointer) : [];
};

describe('the arguments of a hook', () => {
  it('pass through with fields that nobody knows', () => {
    const event = { cleanedBody: 'hi', later: { deep: [1] } };
    const context = { runId: 'r', jobId: 'j', odd: true };
    expect(JSON.parse(opened('before_agent_reply', { event, context }).input)).toEqual({ event, context });
  });

  it('are faulty where a known field has another type', () => {
    expect(pointers('llm_output', { event: { assistantTexts: ['a', 5], runId: 7 }, context: { runId: {} } })).toEqual([
      '/event/runId',
      '/event/assistantTexts',
      '/context/runId',
    ]);
    expect(pointers('agent_end', {})).toEqual(['/event']);
    expect(pointers('agent_end', { event: {}, context: [] })).toEqual(['/context']);
    expect(pointers('before_tool_call', { event: {} })).toEqual(['/event/toolName', '/event/params']);
  });

  it('say where the invocation belongs', () => {
    expect(
      opened('before_tool_call', {
        event: { toolName: 'exec', params: {}, toolCallId: 'tc' },
        context: { sessionKey: 'agent:main', runId: 'run', agentId: 'main' },
      }),
    ).toMatchObject({
      sessionId: 'agent:main',
      turnId: 'run',
      agentId: 'main',
      operationId: 'tc',
      target: 'exec',
      targetIsAddress: false,
    });
    expect(opened('message_sending', { event: { to: '+4917', content: 'x' } })).toMatchObject({
      target: '+4917',
      targetIsAddress: true,
    });
    expect(opened('session_end', { event: { sessionId: 's', messageCount: 0 } })).toMatchObject({ sessionId: 's' });
  });

  it('cannot have an id that no path can name', () => {
    expect(pointers('agent_end', { event: {}, context: { runId: 'x'.repeat(201) } })).toEqual(['/context/runId']);
  });

  it('keep a pairing code from the record and not from the handlers', () => {
    const { input, recordedInput } = opened('channel_pairing_requested', {
      event: { channel: 't', senderId: 'u', code: 'ABCD' },
    });
    expect(input).toContain('ABCD');
    expect(recordedInput).toMatch(/sha256:[0-9a-f]{64}/);
    expect(recordedInput).not.toContain('ABCD');
  });

  it('have a job in a tool context in the documented profile only; the record has it always', () => {
    const body = { event: { toolName: 'exec', params: {} }, context: { jobId: 'j', runId: 'r' } };
    expect(opened('before_tool_call', body).input).toContain('"jobId"');
    const exact = opened('before_tool_call', body, profiles['2026.9']);
    expect([exact.input.includes('"jobId"'), exact.recordedInput?.includes('"jobId"')]).toEqual([false, true]);
  });

  it('take the mutable part as it is now', () => {
    const { input } = opened('message_sending', { event: { to: 'u', content: 'a' } });
    expect(JSON.parse(inputWith(input, { content: 'b' }))).toEqual({ event: { to: 'u', content: 'b' }, context: {} });
  });
});

describe('the catalogue', () => {
  it('has the 45 hooks, 40 of them in 2026.7 and 42 in 2026.9', () => {
    const of = (version: '2026.7' | '2026.9') =>
      [...catalogue.values()].filter(({ versions }) => versions.includes(version));
    expect([catalogue.size, of('2026.7').length, of('2026.9').length]).toEqual([45, 40, 42]);
  });
});
