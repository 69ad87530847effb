import { ApiPropertyOptional } from '@nestjs/swagger';
import { Equals } from 'class-validator';
import { AbsentOrNull, IsWireId, Problem } from '#platform';

const words = 'exactly one of them';

/** What an erasure is of: one of these, and no other. */
export class ErasureScopeBody {
  @ApiPropertyOptional({ type: String, nullable: true, description: 'A data subject, as the runtime named them.' })
  @AbsentOrNull()
  @IsWireId()
  dataSubject?: string | null;

  @ApiPropertyOptional({ type: String, nullable: true, description: 'A session: what no data subject was named for.' })
  @AbsentOrNull()
  @IsWireId()
  sessionId?: string | null;

  @ApiPropertyOptional({ type: Boolean, nullable: true, enum: [true], description: 'All content of the account.' })
  @AbsentOrNull()
  @Equals(true, { message: 'must be true' })
  account?: true | null;
}

/** What a hold is on: one of these, and no other. */
export class HoldScopeBody extends ErasureScopeBody {
  @ApiPropertyOptional({ type: String, nullable: true })
  @AbsentOrNull()
  @IsWireId()
  agentId?: string | null;

  @ApiPropertyOptional({ type: String, nullable: true })
  @AbsentOrNull()
  @IsWireId()
  pluginId?: string | null;
}

/** The one field that was given. Throws 422 when it is none or several. */
export const onlyField = <S extends object>(scope: S): keyof S & string => {
  const given = Object.entries(scope).flatMap(([name, value]) => (value === undefined || value === null ? [] : [name]));
  const [only] = given;
  if (only !== undefined && given.length === 1) return only as keyof S & string;
  throw new Problem(422, 'bad_fields', 'The body does not fit.', [
    { pointer: '/scope', reason: `must have ${words}: what it is on` },
  ]);
};
