import { Controller, Get } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { Allow } from '#platform';
import { LogKeys } from './log-keys.js';
import type { LogKeyView } from './log-key-view.js';
import { logKeySchema, viewOf } from './log-key-view.js';

@ApiTags('proofs')
@Controller('v1/log-keys')
export class ListLogKeysRoute {
  constructor(private readonly keys: LogKeys) {}

  @Get()
  @Allow('runtime', 'admin', 'approver', 'auditor')
  @ApiOkResponse({
    description: 'The public keys that checkpoints are signed with, oldest first, and when each was in force.',
    schema: {
      type: 'object',
      required: ['log', 'items'],
      properties: {
        log: { type: 'string', format: 'uuid', description: 'Id of the log.' },
        items: { type: 'array', items: logKeySchema },
      },
    },
  })
  async list(): Promise<{ readonly log: string; readonly items: readonly LogKeyView[] }> {
    await this.keys.refresh();
    return { log: this.keys.log, items: this.keys.all().map(viewOf) };
  }
}
