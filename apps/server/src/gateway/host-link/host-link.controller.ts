import { Controller, Get } from '@nestjs/common';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import { Account, Allow, Problem } from '#platform';
import { helloSchema, subprotocol } from './frames.js';

const id = { type: 'string', minLength: 1, maxLength: 200 };
const maybeId = { ...id, nullable: true };
const frame = (type: string, properties: object, required: readonly string[]) => ({
  type: 'object',
  required: ['type', ...required],
  properties: { type: { type: 'string', enum: [type] }, ...properties },
});

const scope = {
  type: 'object',
  required: ['sessionId', 'agentId', 'sshHostId'],
  properties: { sessionId: maybeId, agentId: maybeId, sshHostId: maybeId },
};

/** The frames of the link, either way. */
const framesSchema = {
  oneOf: [
    frame(
      'call',
      {
        callId: id,
        invocationId: id,
        pluginId: id,
        member: { type: 'string', description: 'ssh.command, session.conversation.read, cron.list, …' },
        args: { type: 'array', items: {} },
        cause: { type: 'string', description: 'The token that the operation carries which this call leads to.' },
        scope,
        timeoutMs: { type: 'integer', description: 'Time left for the answer.' },
      },
      ['callId', 'invocationId', 'pluginId', 'member', 'args', 'cause', 'scope', 'timeoutMs'],
    ),
    frame('cancel', { callId: id }, ['callId']),
    frame('welcome', { protocol: { type: 'integer', enum: [1] }, runtimeId: id }, ['protocol', 'runtimeId']),
    frame('fault', { code: { type: 'string' }, detail: { type: 'string' } }, ['code', 'detail']),
    helloSchema,
    frame('result', { callId: id, value: {} }, ['callId']),
    frame('error', { callId: id, message: { type: 'string' }, code: { type: 'string' } }, ['callId', 'message']),
  ],
};

/** The route as far as it is HTTP: the WebSocket itself is opened by `LinkDoor`. */
@ApiTags('firing')
@Controller('v1/accounts/:account/host-link')
export class HostLinkRoute {
  @Get()
  @Allow('runtime')
  @ApiOperation({
    summary: 'Connects a runtime that serves host calls, as a WebSocket.',
    description:
      'The platform sends call and cancel, the runtime result or error, once per callId whatever it receives twice. ' +
      'Without a subprotocol calls come at once; with it they come after a hello, which names the runtime and what it serves.',
  })
  @ApiHeader({ name: 'Sec-WebSocket-Protocol', required: false, schema: { type: 'string', enum: [subprotocol] } })
  @ApiResponse({ status: 101, description: 'The connection is a WebSocket.' })
  @ApiResponse({ status: 426, description: 'The request did not ask for a WebSocket.' })
  @ApiResponse({ status: 429, description: 'The account has too many runtimes at this server.' })
  @ApiOkResponse({ description: 'Never answered: the frames of the WebSocket.', schema: framesSchema as object })
  open(@Account() _account: string): never {
    throw new Problem(426, 'upgrade_required', 'This is a WebSocket: ask for an upgrade.', [], {
      upgrade: 'websocket',
      connection: 'Upgrade',
    });
  }
}
