import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Json, JsonObject } from '#record';
import { catalogue } from './catalogue.js';
import type { FieldType } from './catalogue.js';
import { middleware } from './middleware.js';

const open = (hook: string, context: Json) => middleware.open(hook, { context });
const faults = (hook: string, context: Json) => {
  const opening = open(hook, context);
  return opening.kind === 'refused' ? opening.faults.map(({ pointer }) => pointer) : [];
};

const samples: { readonly [type in FieldType]: Json } = {
  id: '7342918273645182977',
  ids: ['7342918273645190001'],
  text: 'a\u0000b\ud800c\u2028',
  texts: ['', 'x'],
  boolean: false,
  count: 12,
  port: 22,
  'exit-code': -1,
  duration: 0.5,
  delay: 5,
};
const contextOf = (hook: string): { [key: string]: Json } =>
  Object.fromEntries(
    (catalogue.get(hook)?.context ?? []).map(({ name, type, oneOf }) => [name, oneOf?.[0] ?? samples[type]]),
  );
const hooks = [...catalogue.keys()];

describe('a context', () => {
  it.each(hooks)('of %s with every documented key opens, and handlers get these keys in this order (MW-14)', (hook) => {
    const context = contextOf(hook);
    const opening = open(hook, Object.fromEntries(Object.entries(context).reverse()));
    expect(opening.kind).toBe('opened');
    if (opening.kind !== 'opened') return;
    expect(JSON.parse(opening.input) as Json).toEqual(context);
    expect(Object.keys(JSON.parse(opening.input) as JsonObject)).toEqual(Object.keys(context));
  });

  it.each(hooks)(
    'of %s without a key, with a strange one, with null or a wrong type is refused at that place',
    (hook) => {
      const context = contextOf(hook);
      for (const { name, nullable, optional } of catalogue.get(hook)?.context ?? []) {
        const without = Object.fromEntries(Object.entries(context).filter(([key]) => key !== name));
        expect(faults(hook, without)).toEqual(optional ? [] : [`/context/${name}`]);
        expect(faults(hook, { ...context, [name]: null })).toEqual(nullable ? [] : [`/context/${name}`]);
        expect(faults(hook, { ...context, [name]: { an: 'object' } })).toEqual([`/context/${name}`]);
      }
      expect(faults(hook, { ...context, 'a/b~c': 1 })).toEqual(['/context/a~1b~0c']);
      expect(faults(hook, JSON.parse(JSON.stringify(context).replace('{', '{"__proto__":{},')) as Json)).toEqual([
        '/context/__proto__',
      ]);
    },
  );

  it.each([null, 5, 'x', [], undefined])('that is %j is refused', (context) => {
    expect(faults('todoAdded', context as Json)).toEqual(['/context']);
  });

  it('names every fault at once, each with its mend', () => {
    const opening = open('notifyScheduled', { sessionId: 42, delaySeconds: -1, extra: 1 });
    expect(opening).toEqual({
      kind: 'refused',
      faults: [
        {
          pointer: '/context/sessionId',
          reason:
            'give an id: a string of 1 to 200 characters, without control characters or lone surrogates, never a number',
        },
        { pointer: '/context/message', reason: 'missing: give a string' },
        { pointer: '/context/delaySeconds', reason: 'give seconds: a number from 0 to 2147483647' },
        { pointer: '/context/extra', reason: 'notifyScheduled has no such field: leave it out' },
      ],
    });
  });

  it('says which values a field may have', () => {
    const opening = open('sshConnectionOpening', { ...contextOf('sshConnectionOpening'), connectionType: 'magic' });
    expect(opening).toMatchObject({
      faults: [{ pointer: '/context/connectionType', reason: 'give one of direct, tunnel' }],
    });
  });
});

describe('an id (MW-10)', () => {
  const accepted = (id: Json) => faults('todoAdded', { sessionId: id, texts: [] }).length === 0;

  it.each(['0', '7342918273645182977', 'x'.repeat(200), '😀'.repeat(200), 'a b', 'é'])('may be %j', (id) => {
    expect(accepted(id)).toBe(true);
  });

  it.each([
    Number('7342918273645182977'),
    0,
    '',
    'x'.repeat(201),
    'a\u0000',
    'a\nb',
    'a\u007f',
    'a\u0085',
    '\ud800',
    true,
    null,
  ])('may not be %j', (id) => {
    expect(accepted(id)).toBe(false);
  });

  it('in a list is named by its place', () => {
    const context = { ...contextOf('userMessageInbound'), mediaIds: ['1', 2, ''] };
    expect(faults('userMessageInbound', context)).toEqual(['/context/mediaIds/1', '/context/mediaIds/2']);
  });
});

describe('numbers', () => {
  const accepts = (hook: string, field: string, value: Json) =>
    faults(hook, { ...contextOf(hook), [field]: value }).length === 0;

  it.each([
    ['sshConnectionOpening', 'port', [1, 65535, null], [0, 65536, -1, 22.5, '22']],
    ['sshCommandCompleted', 'exitCode', [0, -1, 255], [0.5, 2 ** 53, '0']],
    ['sshCommandCompleted', 'durationMs', [0, 0.25, 1e9], [-1, '1']],
    ['notifyScheduled', 'delaySeconds', [0, 0.001, 2147483647], [-0.001, 2147483648, '5']],
    ['sessionClearing', 'messageCount', [0, 9007199254740991], [-1, 1.5, 9007199254740992]],
  ])('%s.%s', (hook, field, good, bad) => {
    for (const value of good) expect([value, accepts(hook, field, value)]).toEqual([value, true]);
    for (const value of bad) expect([value, accepts(hook, field, value)]).toEqual([value, false]);
  });
});

describe('what an opening tells', () => {
  const opened = (hook: string) => {
    const opening = open(hook, contextOf(hook));
    if (opening.kind !== 'opened') throw new Error('refused');
    return opening;
  };

  it('the value: one field itself, several an object of all, none null', () => {
    expect(opened('userMessageInbound').value).toBe(samples.text);
    expect(opened('todoAdded').value).toEqual(samples.texts);
    expect(opened('notifyScheduled').value).toEqual({ message: samples.text, delaySeconds: 5 });
    expect(Object.keys(opened('sshCommandSending').value as JsonObject)).toEqual(['command', 'path', 'content']);
    expect(opened('cronJobCompleted').value).toBeNull();
  });

  it('session, agent and target, each where the hook has one (MW-62, MW-71, MW-73)', () => {
    const ids = (hook: string) => {
      const { sessionId, agentId, target, targetIsAddress } = opened(hook);
      return [sessionId, agentId, target, targetIsAddress];
    };
    const id = samples.id;
    expect(ids('systemPrompt')).toEqual([id, id, null, false]);
    expect(ids('interAgentMessage')).toEqual([id, id, id, false]);
    expect(ids('todoAdded')).toEqual([id, null, null, false]);
    expect(ids('sshCommandSending')).toEqual([id, id, id, false]);
    expect(ids('cronJobFiring')).toEqual([null, id, id, false]);
    expect(ids('cronJobCompleted')).toEqual([id, id, id, false]);
  });

  it('texts cross without loss, whatever they hold (MW-15)', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) }),
        (text) => {
          const opening = open('assistantMessageOutbound', { sessionId: '1', channelId: null, text });
          expect(opening.kind === 'opened' && (JSON.parse(opening.input) as JsonObject).text).toBe(text);
          expect(opening.kind === 'opened' && opening.value).toBe(text);
        },
      ),
    );
  });

  it('is total for any JSON', () => {
    fc.assert(
      fc.property(fc.constantFrom(...hooks), fc.jsonValue(), (hook, context) => {
        expect(['opened', 'refused']).toContain(open(hook, context as Json).kind);
      }),
    );
  });
});

describe('the host view', () => {
  it('withholds the session past hop 4, where there is one (MW-101)', () => {
    const state = (hook: string, hop: number) => middleware.hostView(hook, contextOf(hook), hop).session.state;
    expect([0, 4, 5, 9].map((hop) => state('interAgentMessage', hop))).toEqual([
      'granted',
      'granted',
      'withheld',
      'withheld',
    ]);
    expect([0, 5].map((hop) => state('cronJobFiring', hop))).toEqual(['absent', 'absent']);
  });
});
