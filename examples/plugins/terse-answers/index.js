// Makes every answer terse. The prompt is composed anew each turn, so the guidance stands in it once and wears off at
// once when the plugin is switched off.

const guidance = [
  'Answer tersely.',
  '- Lead with the answer. No greeting, no restating of the question, no closing offer.',
  '- Short sentences. Drop filler and hedging; keep articles where leaving them out would change the meaning.',
  '- Code, commands, paths, numbers, quotes and error texts stay exact and whole.',
  '- Warnings about loss of data, money or access are never shortened.',
].join('\n');

const { sessionKinds, exceptAgents } = { sessionKinds: null, exceptAgents: [], ...host.config };

const applies = (context) =>
  (sessionKinds === null || sessionKinds.includes(context.sessionKind)) && !exceptAgents.includes(context.agentId);

globalThis.middleware.systemPrompt = (context) => {
  const { systemPrompt } = context;
  // A runtime may hand yesterday's prompt back; saying it twice would cost tokens and say no more.
  if (!applies(context) || systemPrompt.includes(guidance)) return systemPrompt;
  return systemPrompt === '' ? guidance : `${systemPrompt.trimEnd()}\n\n${guidance}`;
};
