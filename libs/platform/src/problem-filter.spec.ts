import { describe, expect, it } from '@jest/globals';
import { headerPointer, pathPointer, Problem, queryPointer } from './problem.js';
import { problemJson } from './problem-filter.js';

describe('a problem over the wire', () => {
  it('says place and reason of each fault, and nothing that a fault carries besides', () => {
    const faults = [
      { kind: 'faulty', pointer: '/name', reason: 'is missing' },
      { file: 'main.js', pointer: '/source', reason: 'does not parse', line: 3, column: null },
    ];
    const problem = new Problem(422, 'bad_fields', 'The body does not fit.', faults);
    expect(JSON.parse(JSON.stringify(problemJson(problem, 'r')))).toEqual({
      type: 'urn:hookledger:problem:bad_fields',
      title: 'Unprocessable Entity',
      status: 422,
      code: 'bad_fields',
      detail: 'The body does not fit.',
      errors: [
        { pointer: '/name', reason: 'is missing' },
        { pointer: '/source', reason: 'does not parse', line: 3, column: null },
      ],
      requestId: 'r',
    });
  });

  it('has a JSON Pointer for what is not in the body too', () => {
    expect(queryPointer('a/b~c')).toBe('/query/a~1b~0c');
    expect(pathPointer('turn')).toBe('/path/turn');
    expect(headerPointer('Idempotency-Key')).toBe('/header/idempotency-key');
  });
});
