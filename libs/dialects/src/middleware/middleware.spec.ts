import { describe, expect, it } from '@jest/globals';
import { dialectOf } from '../registry.js';
import { catalogue, firesHook } from './catalogue.js';
import { middleware } from './middleware.js';

const named = (test: (name: string) => boolean) => [...catalogue.keys()].filter(test);

describe('the catalogue', () => {
  it('has the fourteen hooks, of which ten can be vetoed', () => {
    expect(catalogue.size).toBe(14);
    expect(named((name) => catalogue.get(name)?.vetoable === false)).toEqual([
      'systemPrompt',
      'sessionClearing',
      'sessionClearCompleted',
      'cronJobCompleted',
    ]);
  });

  it('gives tools to those that can be vetoed (MW-41)', () => {
    for (const hook of catalogue.values()) expect(hook.hasTools).toBe(hook.vetoable);
  });

  it('names only fields of the context', () => {
    for (const hook of catalogue.values()) {
      const names = hook.context.map(({ name }) => name);
      const used = [
        ...hook.mutable,
        hook.sessionField,
        hook.agentField,
        hook.targetField,
        hook.sshHostField,
        hook.oncePerTurn,
      ];
      expect(used.filter((name) => name !== null && !names.includes(name))).toEqual([]);
    }
  });

  it('carries an agent where the context has one (MW-73)', () => {
    for (const hook of catalogue.values()) {
      const agent = hook.context.find(({ name }) => name === 'agentId' || name === 'senderAgentId');
      expect(hook.agentField).toBe(agent?.name ?? null);
    }
  });

  it('starts inferred turns at what begins work', () => {
    const starts = (when: string) => named((name) => catalogue.get(name)?.startsTurn === when);
    expect(starts('always')).toEqual(['userMessageInbound', 'notifyDelivered', 'cronJobFiring']);
    expect(starts('unless-just-started')).toEqual(['systemPrompt']);
  });

  it('knows which operations fire a hook (MW-62, MW-64, MW-85, MW-87, MW-94, MW-95)', () => {
    expect(firesHook('interAgentMessage', 'report_to_caller')).toBe(true);
    expect(firesHook('interAgentMessage', 'start_subagent')).toBe(false);
    expect(firesHook('todoAdded', 'human_todo')).toBe(false);
    expect(firesHook('sshCommandSending', 'host_ssh_command')).toBe(false);
    expect(firesHook('cronJobFiring', 'overlap')).toBe(false);
    expect(firesHook('cronJobCompleted', 'run_was_cancelled')).toBe(false);
    expect(firesHook('todoAdded', 'never_heard_of')).toBeUndefined();
    expect(firesHook('nothing', 'human_todo')).toBeUndefined();
  });
});

describe('the dialect', () => {
  it('has an entry per hook, with its point as data', () => {
    expect([...middleware.entries.keys()]).toEqual([...catalogue.keys()]);
    expect(middleware.entries.get('sshConnectionOpening')).toMatchObject({
      cancellable: true,
      mutableFields: [],
      defaultTimeoutMs: 5000,
      failsClosed: false,
      oncePerTurn: 'sshHostId',
      point: { mode: { kind: 'waterfall' }, cancellable: true, rewritable: false },
    });
    expect(middleware.entries.get('systemPrompt')).not.toHaveProperty('oncePerTurn');
  });

  it('is found by its name', () => {
    expect(dialectOf('middleware')).toBe(middleware);
    expect(dialectOf('openclaw')?.name).toBe('openclaw');
    expect(dialectOf('kohaku')?.name).toBe('kohaku');
    expect(['toString', ''].map(dialectOf)).toEqual([undefined, undefined]);
  });

  it('throws when it is asked about a hook that it does not have', () => {
    expect(() => middleware.open('nothing', {})).toThrow('no hook nothing');
  });
});

describe('a load report', () => {
  it('lists hooks in the order of the catalogue and warns of the rest (MW-2)', () => {
    const report = '{"hooks":["todoAdded","systemPrompt"],"notFunctions":["cronJobFiring"],"unknown":["todosAdded"]}';
    expect(middleware.readReport(report)).toEqual({
      hooks: ['systemPrompt', 'todoAdded'],
      gated: [],
      warnings: [
        { code: 'unknown_hook', detail: 'todosAdded: nearest is todoAdded' },
        { code: 'handler_not_function', detail: 'cronJobFiring' },
      ],
      registrations: {},
    });
  });

  it.each(['', 'null', '[]', '5', '{"hooks":"todoAdded"}', '{"hooks":["constructor",5,null]}'])(
    'that says %s registers nothing',
    (report) => {
      expect(middleware.readReport(report).hooks).toEqual([]);
    },
  );
});
