import { describe, expect, it } from '@jest/globals';
import { fit, fitting } from './affinity.js';
import { everything, type Serves } from './frames.js';

const runtime = (serves: Partial<Serves>, keyId = 'k') => ({ serves: { ...everything, ...serves }, keyId });
const wanted = (member: string, scope: object = {}, firedBy: string | null = null) => ({
  member,
  scope: { sessionId: null, agentId: null, sshHostId: null, ...scope },
  firedBy,
});

describe('a runtime', () => {
  it('that said nothing serves everything', () => {
    expect(fit(runtime({}), wanted('ssh.command', { sshHostId: 'h' }))).toBe(0);
  });

  it('serves the members it names, and groups of them by their whole name', () => {
    expect(fit(runtime({ members: ['session'] }), wanted('session.peer.send'))).toBe(0);
    expect(fit(runtime({ members: ['sess'] }), wanted('session.peer.send'))).toBeNull();
    expect(fit(runtime({ members: [] }), wanted('llm'))).toBeNull();
  });

  it('that named others does not serve this one; a list says nothing of calls that are about none', () => {
    expect(fit(runtime({ sshHostIds: ['a'] }), wanted('ssh.command', { sshHostId: 'b' }))).toBeNull();
    expect(fit(runtime({ sshHostIds: ['a'] }), wanted('agents.list'))).toBe(0);
    expect(fit(runtime({ sessionIds: ['s'] }), wanted('agents.list', { sessionId: 't' }))).toBeNull();
  });

  it('goes first when it named the server, then the session, then the agent, then by its key, then by its place', () => {
    const any = runtime({}, 'any');
    const fired = runtime({}, 'me');
    const agent = runtime({ agentIds: ['a'] });
    const session = runtime({ sessionIds: ['s'] });
    const ssh = runtime({ sshHostIds: ['h'] });
    const call = wanted('ssh.command', { sessionId: 's', agentId: 'a', sshHostId: 'h' }, 'me');
    expect(fitting([any, fired, agent, session, ssh], call)).toEqual([ssh, session, agent, fired, any]);
    expect(fitting([any, runtime({}, 'other')], call)[0]).toBe(any);
  });
});
