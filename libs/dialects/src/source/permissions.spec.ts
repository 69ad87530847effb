import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { compile } from './compile.js';
import { derivePermissions, knownPermissions } from './permissions.js';

describe('permissions (MW-72)', () => {
  it.each([
    ['host.fetch("https://x/")', ['host:fetch']],
    ['host?.fetch?.("https://x/")', ['host:fetch']],
    ['(host.fetch)("https://x/")', ['host:fetch']],
    ['globalThis.host.fetch("x")', ['host:fetch']],
    ['globalThis?.host?.ssh?.command("x")', ['host:ssh:command']],
    ['await host.agents.list()', ['host:agents:list']],
    ['host.llm("p"); host.decide({}); host.agents.list()', ['host:agents:list', 'host:llm', 'host:decide']],
    ['if (false) { host.ssh.command("never") }', ['host:ssh:command']],
    ['host.ssh.command`x`', []],
    ['host["fetch"]("x")', []],
    ['host["s" + "sh"].command("x")', []],
    ['host.ssh["command"]("x")', []],
    ['const { fetch } = host; fetch("x")', []],
    ['const h = host; h.fetch("x")', []],
    ['const f = host.fetch; f("x")', []],
    ['typeof host.ssh', []],
    ['host.fetch.call(null, "x")', []],
    ['new host.fetch("x")', []],
    ['other.host.fetch("x")', []],
    ['this.host.fetch("x")', []],
    ['// host.fetch("x")', []],
    ['"host.fetch(1)"; `host.llm(2)`', []],
    ['`${host.fetch("x")}`', ['host:fetch']],
    ['host.log("info", "x"); host.session.peer.send("1", "x"); host.workspace.agentId', []],
    ['host.constructor("x"); host.toString()', []],
  ])('%s derives %j', (line, expected) => {
    expect(derivePermissions(`async function f() { ${line} \n}`)).toEqual(expected);
  });

  it('are derived from TypeScript with its assertions stripped', async () => {
    const compiled = await compile(
      { source: 'const run = async (): Promise<void> => { await host.ssh!.command("x"); };' },
      'typescript',
    );
    expect(compiled.kind === 'compiled' && derivePermissions(compiled.code)).toEqual(['host:ssh:command']);
  });

  it('are none for code that does not parse or nests without end', () => {
    expect(derivePermissions('host.fetch(')).toEqual([]);
    expect(derivePermissions(`${'('.repeat(100_000)}host.fetch()${')'.repeat(100_000)}`)).toEqual([]);
    expect(derivePermissions(`host.fetch()${'.a'.repeat(200_000)}`)).toEqual([]);
  });

  it('are known ones, whatever the text', () => {
    fc.assert(
      fc.property(fc.string(), (code) => {
        expect(derivePermissions(code).every((permission) => knownPermissions.includes(permission))).toBe(true);
      }),
    );
  });
});
