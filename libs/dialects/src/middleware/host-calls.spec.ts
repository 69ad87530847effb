import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { checkCall, memberNames, refusals } from './host-calls.js';

const check = (member: string, args: unknown, accepted?: number) =>
  checkCall(member, JSON.stringify(args), null, accepted)?.code ?? null;

describe('a host call', () => {
  it.each([
    ['log', ['info', 'x']],
    ['session.conversation.read', []],
    ['session.peer.send', ['7342918273645182978', 'hi\u0000']],
    ['agents.list', []],
    ['fetch', ['https://x/']],
    ['fetch', ['https://x/', { method: 'POST' }]],
    ['llm', ['p', { n: 1 }]],
    ['decide', []],
    ['ssh.command', ['true', { timeoutSeconds: 60 }]],
    ['ssh.command', ['true', { timeoutSeconds: 0.5 }]],
  ])('may be made: %s %j', (member, args) => {
    expect(check(member, args)).toBeNull();
  });

  it.each([
    ['process.exit', [], 'unknown_member'],
    ['constructor', [], 'unknown_member'],
    ['log', ['info'], 'bad_argument'],
    ['agents.list', [1], 'bad_argument'],
    ['session.peer.send', [7, 'x'], 'id_must_be_string'],
    ['session.peer.send', ['a\u0000', 'x'], 'id_must_be_string'],
    ['session.peer.send', ['9', 5], 'text_must_be_string'],
    ['session.peer.send', ['9'], 'bad_argument'],
    ['fetch', [5], 'url_must_be_string'],
    ['fetch', ['a', {}, 1], 'bad_argument'],
    ['ssh.command', ['', { timeoutSeconds: 60 }], 'bad_command'],
    ['ssh.command', ['true'], 'bad_argument'],
    ['ssh.command', ['true', {}], 'bad_timeout'],
    ['ssh.command', ['true', { timeoutSeconds: 91 }], 'bad_timeout'],
    ['ssh.command', ['true', { timeoutSeconds: 0 }], 'bad_timeout'],
    ['ssh.command', ['true', { timeoutSeconds: '60' }], 'bad_timeout'],
    ['llm', 'text', 'bad_argument'],
    ['llm', { refused: 'made_up' }, 'bad_argument'],
    ['ssh.command', { refused: 'bad_timeout' }, 'bad_timeout'],
  ])('is refused: %s %j, %s', (member, args, code) => {
    expect(check(member, args)).toBe(code);
  });

  it('is refused when an argument is no JSON', () => {
    expect(checkCall('llm', null, 'Do not know how to serialize a BigInt')?.code).toBe('bad_argument');
    expect(checkCall('llm', '[', null)?.code).toBe('bad_argument');
  });

  it('of host.ssh.command is refused after ten that were accepted (MW-88)', () => {
    const args = ['true', { timeoutSeconds: 60 }];
    expect(check('ssh.command', args, 9)).toBeNull();
    expect(check('ssh.command', args, 10)).toBe('ssh_call_limit');
    expect(check('fetch', ['https://x/'], 1000)).toBeNull();
  });

  it('shows the plugin the code as its message', () => {
    expect(checkCall('session.peer.send', '[5,"x"]', null)).toEqual({
      code: 'id_must_be_string',
      message: 'id_must_be_string',
    });
  });

  it('is judged without a throw, whatever comes', () => {
    fc.assert(
      fc.property(fc.constantFrom(...memberNames, 'x'), fc.oneof(fc.string(), fc.json()), (member, args) => {
        const judged = checkCall(member, args, null);
        expect(judged === null || (refusals as readonly string[]).includes(judged.code)).toBe(true);
      }),
    );
  });
});
