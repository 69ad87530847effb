import { Controller, Get } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { Public } from '#platform';
import type { EventSchema } from '#record';
import { eventSchemas } from '#record';

/** The shape of every event, for whoever reads the log, the stream or the topics. Open, as the API's description is. */
@ApiTags('events')
@Public()
@Controller('v1/event-schemas')
export class EventSchemasRoute {
  private readonly answer = { items: eventSchemas() };

  @Get()
  @ApiOkResponse({
    description: 'One JSON Schema (draft 2020-12) for each version of each event type.',
    schema: {
      type: 'object',
      required: ['items'],
      properties: {
        items: {
          type: 'array',
          items: {
            type: 'object',
            required: ['type', 'version', 'current', 'schema'],
            properties: {
              type: { type: 'string' },
              version: { type: 'integer', minimum: 1 },
              current: { type: 'boolean', description: 'Whether new events are written with it.' },
              schema: { type: 'object' },
            },
          },
        },
      },
    },
  })
  list(): { readonly items: readonly EventSchema[] } {
    return this.answer;
  }
}
