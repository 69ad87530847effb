import { Controller, Get, Inject, Res } from '@nestjs/common';
import { ApiExcludeEndpoint, ApiOkResponse, ApiServiceUnavailableResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { Registry } from 'prom-client';
import { Public } from './auth.js';
import type { ReadinessReport } from './readiness.js';
import { Readiness } from './readiness.js';
import { METRICS } from './tokens.js';

const readinessSchema = {
  type: 'object',
  required: ['status', 'details'],
  properties: {
    status: { type: 'string', enum: ['ready', 'not_ready'] },
    details: { type: 'object', additionalProperties: true, description: 'By part: what else there is to say.' },
  },
  additionalProperties: { description: 'By part: a word or a number.' },
};

/** What an orchestrator and a monitoring system ask. Open: it says nothing about any account. */
@ApiTags('operating')
@Public()
@Controller()
export class OperatingController {
  constructor(
    @Inject(Readiness) private readonly readiness: Readiness,
    @Inject(METRICS) private readonly metrics: Registry,
  ) {}

  @Get('health/live')
  @ApiOkResponse({
    description: 'The process answers.',
    schema: { type: 'object', required: ['status'], properties: { status: { type: 'string', enum: ['live'] } } },
  })
  live(): { readonly status: 'live' } {
    return { status: 'live' };
  }

  @Get('health/ready')
  @ApiOkResponse({ description: 'Hooks can be fired. Lists every part and how it is.', schema: readinessSchema })
  @ApiServiceUnavailableResponse({
    description: 'Hooks cannot be fired now; the parts say why.',
    schema: readinessSchema,
  })
  async ready(@Res({ passthrough: true }) reply: FastifyReply): Promise<ReadinessReport> {
    const report = await this.readiness.report();
    void reply.code(report.status === 'ready' ? 200 : 503).header('cache-control', 'no-store');
    return report;
  }

  @Get('metrics')
  @ApiExcludeEndpoint(false)
  @ApiOkResponse({ description: 'Prometheus text.', content: { 'text/plain': { schema: { type: 'string' } } } })
  async scrape(@Res({ passthrough: true }) reply: FastifyReply): Promise<string> {
    void reply.header('content-type', this.metrics.contentType);
    return this.metrics.metrics();
  }
}
