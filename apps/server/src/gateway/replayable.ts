import type { CommandBus } from '@nestjs/cqrs';
import type { FastifyReply } from 'fastify';
import type { AccountCommand } from '#platform';

/** Executes a command and says in the answer when it is that of an earlier request (api.md, idempotency). */
export const replayable = async <R>(bus: CommandBus, command: AccountCommand<R>, reply: FastifyReply): Promise<R> => {
  const result = await bus.execute<AccountCommand<R>, R>(command);
  if (command.done !== null) reply.header('Idempotency-Replayed', 'true');
  return result;
};
