import { applyDecorators, Header, UseInterceptors } from '@nestjs/common';
import { ApiOkResponse, ApiOperation } from '@nestjs/swagger';
import { Allow } from '#platform';
import type { Schema } from './schemas.js';
import { RecordReads } from './record-reads.js';

/** A route that reads the record: for auditors, and admins by their keys; the read itself is put on record. */
export const ReadRoute = (summary: string, schema: Schema): MethodDecorator =>
  applyDecorators(
    Allow('auditor', 'admin'),
    UseInterceptors(RecordReads),
    // The answers are JSON text already: content goes in as it was sealed.
    Header('content-type', 'application/json; charset=utf-8'),
    ApiOperation({ summary }),
    ApiOkResponse({ description: 'Content shows by the key: as it is, `hidden`, or `erased`.', schema }),
  );
