/** Rows as the driver gives them: int8 as string, bytea as Buffer, timestamptz as Date. */
export type Row = Record<string, unknown>;

/** The handle through which read models and keys reach the database; nobody else sees `pg`. */
export interface Sql {
  query<R extends object = Row>(text: string, values?: readonly unknown[]): Promise<readonly R[]>;
  /** Runs `work` in one transaction on one connection; a throw rolls it back. */
  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
}
