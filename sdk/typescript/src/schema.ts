// The shape of a server's tables and pipes, as `wavehouse codegen ts` writes it.

/** A table as one role may read it and insert into it. */
export interface TableTypes {
  row: object;
  insert: object;
}

/** A pipe's parameters and the rows it answers. */
export interface PipeTypes {
  params: object;
  row: object;
}

/** What a generated `Database` looks like. */
export interface DatabaseTypes {
  tables: Record<string, TableTypes>;
  pipes: Record<string, PipeTypes>;
}

/** One row: column names to values. */
export type Row = Record<string, unknown>;

/** Tables that nothing is known of: every name and every column goes. */
export interface AnyDatabase {
  tables: Record<string, { row: Row; insert: object }>;
  pipes: Record<string, { params: object; row: Row }>;
}

export type TableName<DB extends DatabaseTypes> = keyof DB["tables"] & string;
export type PipeName<DB extends DatabaseTypes> = keyof DB["pipes"] & string;
export type RowOf<DB extends DatabaseTypes, T extends TableName<DB>> = DB["tables"][T]["row"];
export type InsertOf<DB extends DatabaseTypes, T extends TableName<DB>> = DB["tables"][T]["insert"];
export type ColumnOf<R> = keyof R & string;
/** A column of R, or a part of one: `attrs.key`, `tags[1]`. */
export type ReferenceOf<R> = ColumnOf<R> | `${ColumnOf<R>}.${string}` | `${ColumnOf<R>}[${string}`;

/** Makes a computed type readable where an editor shows it. */
export type Shown<T> = { [K in keyof T]: T[K] };

/** What a filter may compare a column of type V with. */
export type Comparable<V> = unknown extends V ? unknown : Exclude<V, null> | (string extends V ? Date : never);

/** What a column of type V may contain: a part of a text, an element of an array, a key of a map. */
export type Within<V> = unknown extends V
  ? unknown
  : NonNullable<V> extends string
    ? string
    : NonNullable<V> extends readonly (infer E)[]
      ? Comparable<E>
      : NonNullable<V> extends object
        ? string | number | Date
        : never;
