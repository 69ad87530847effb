import { ApiPropertyOptional } from '@nestjs/swagger';
import { applyDecorators } from '@nestjs/common';
import { IsInt, Max, Min } from 'class-validator';
import { AbsentOrNull, IsInstant, IsWireId } from '#platform';
import type { EventFields, JsonObject } from '#record';
import { inUtc } from './instants.js';
import { knownDialect, readOrder, type FiringEnvelope, type FiringOrder } from './firing-order.js';

/** What a runtime may say of any step of a clear or a cron run, for the hooks that it comes to. */
export class StepBody {
  @ApiPropertyOptional({ type: String, nullable: true, description: 'The turn that the hook belongs to.' })
  @AbsentOrNull()
  @IsWireId()
  turnId?: string | null;

  @ApiPropertyOptional({ type: String, nullable: true })
  @AbsentOrNull()
  @IsWireId()
  correlationId?: string | null;

  @ApiPropertyOptional({ type: String, format: 'date-time', nullable: true, description: "The caller's clock." })
  @AbsentOrNull()
  @IsInstant()
  occurredAt?: string | null;

  @ApiPropertyOptional({
    type: String,
    nullable: true,
    description: 'Whose data this is: the scope under which the content can be erased.',
  })
  @AbsentOrNull()
  @IsWireId()
  dataSubject?: string | null;
}

/** A whole number from 0. */
export const IsCount = (): PropertyDecorator =>
  applyDecorators(
    IsInt({ message: wantedCount }),
    Min(0, { message: wantedCount }),
    Max(Number.MAX_SAFE_INTEGER, { message: wantedCount }),
  );

const wantedCount = 'must be a whole number, 0 or more';

/** Longest lease of a run, and longest wait for a slot, seconds. */
export const longestLease = 7 * 86_400;

/** Seconds of a lease. */
export const IsLease = (): PropertyDecorator =>
  applyDecorators(
    IsInt({ message: wantedLease }),
    Min(1, { message: wantedLease }),
    Max(longestLease, { message: wantedLease }),
  );

const wantedLease = `must be a whole number of seconds from 1 to ${String(longestLease)}`;

/** The firing of a hook that the platform comes to by itself: the context is made here, of fields that were checked. */
export const hookOrder = (
  hook: string,
  context: JsonObject,
  step: StepBody,
  more: Partial<Pick<FiringEnvelope, 'operationId'>>,
): FiringOrder => {
  const { turnId, correlationId, occurredAt, dataSubject } = step;
  const envelope = Object.entries({ turnId, correlationId, occurredAt, dataSubject, ...more });
  const given = Object.fromEntries(envelope.filter(([, value]) => value !== undefined && value !== null));
  return readOrder(knownDialect('middleware', hook), hook, { ...given, context });
};

/** What a step says of itself, as its own events have it. */
export const stepFields = ({ turnId, correlationId, occurredAt }: StepBody): EventFields => ({
  ...(typeof turnId === 'string' ? { turnId } : {}),
  ...(typeof correlationId === 'string' ? { correlationId } : {}),
  ...(typeof occurredAt === 'string' ? { occurredAt: inUtc(occurredAt) } : {}),
});
