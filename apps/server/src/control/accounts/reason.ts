import { ApiPropertyOptional } from '@nestjs/swagger';
import type { Append } from '#event-store';
import { AbsentOrNull, IsText, queryFreeText } from '#platform';
import type { Sealed } from '#record';
import type { Sealing } from '#sealing';

const longest = 10_000;
const description = 'Why: a ticket or words. Content: kept sealed with the event.';

/** What every change of an account may say of itself. */
export abstract class ReasonBody {
  @ApiPropertyOptional({ type: String, nullable: true, maxLength: longest, description })
  @AbsentOrNull()
  @IsText(0, longest)
  reason?: string | null;
}

/** The same for a change without a body. */
export const reasonQuery = { reason: queryFreeText(description, 4000) } as const;

/** The JSON Schema of `reason` in a body that is checked by one. */
export const reasonSchema = { type: 'string', nullable: true, maxLength: longest, description } as const;

/** A reason as it goes into an event, with what the append must store for it. Without one, the event has none. */
export interface SealedReason {
  readonly data: { readonly reason?: Sealed };
  readonly blobs: NonNullable<Append['blobs']>;
}

export const sealReason = async (
  sealing: Sealing,
  account: string,
  reason: string | null | undefined,
): Promise<SealedReason> => {
  if (reason === undefined || reason === null || reason === '') return { data: {}, blobs: [] };
  const envelope = await sealing.envelope(account, { kind: 'account' });
  const data = { reason: envelope.seal(reason) };
  return { data, blobs: envelope.blobs() };
};
