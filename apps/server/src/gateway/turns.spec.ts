import { describe, expect, it } from '@jest/globals';
import { inferTurn } from './turns.js';

const newId = () => 'new';
const at = (startsTurn: 'always' | 'unless-just-started' | 'never') => ({ startsTurn });

describe('an inferred turn', () => {
  it('begins with the first firing of a session', () => {
    expect(inferTurn(at('never'), null, newId)).toEqual({ turnId: 'new', inferred: true, prompted: false });
  });

  it('goes on at hooks that start none', () => {
    const current = { turnId: 't', prompted: false };
    expect(inferTurn(at('never'), current, newId)).toEqual({ turnId: 't', inferred: true, prompted: false });
  });

  it('begins anew at an inbound message', () => {
    expect(inferTurn(at('always'), { turnId: 't', prompted: true }, newId)).toMatchObject({ turnId: 'new' });
  });

  it('takes the system prompt that follows the message that started it', () => {
    const current = { turnId: 't', prompted: false };
    expect(inferTurn(at('unless-just-started'), current, newId)).toMatchObject({ turnId: 't', prompted: true });
  });

  it('begins anew at a second system prompt', () => {
    const current = { turnId: 't', prompted: true };
    expect(inferTurn(at('unless-just-started'), current, newId)).toEqual({
      turnId: 'new',
      inferred: true,
      prompted: true,
    });
  });
});
