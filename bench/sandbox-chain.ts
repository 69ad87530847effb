import { measureChains } from '../libs/sandbox/bench/chain.js';
import type { ChainFigures } from '../libs/sandbox/bench/chain.js';
import type { Figure } from './figures.js';
import { atMost, rounded, spread } from './figures.js';

/** A warm chain of five in the sandbox against the same functions in a bare child. */
export const measureSandbox = async (): Promise<readonly Figure[]> => {
  const { jitless, jit } = await measureChains();
  return [figure('without JIT', 3, jitless), figure('with JIT', 2, jit)];
};

const figure = (kind: string, limit: number, { bareUs, sandboxUs, ratio, spread: rounds }: ChainFigures): Figure => {
  const from = `${rounded(sandboxUs)} µs against ${rounded(bareUs)} µs; rounds ${spread(rounds)}`;
  return atMost(`warm chain of five in the sandbox against a bare child, ${kind}`, limit, ratio, '×', from);
};
