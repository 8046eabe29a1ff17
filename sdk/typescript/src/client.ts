import { QueryBuilder } from "./builder.js";
import type { DocumentOver, QueryDocument, ResultOf } from "./document.js";
import { insert, type InsertOptions, type InsertResult } from "./insert.js";
import { resolve, type WaveHouseOptions } from "./options.js";
import { pipe, type PipeOptions } from "./pipe.js";
import { type ExportFormat, Queries, type QueryOptions, type Snapshot } from "./query.js";
import type { AnyDatabase, ColumnOf, DatabaseTypes, InsertOf, PipeName, RowOf, Shown, TableName } from "./schema.js";
import { stream, type StreamEvent, type StreamOptions } from "./stream.js";
import { Transport } from "./transport.js";

/**
 * A client of one WaveHouse server. It holds no connection and needs no closing.
 * `DB` is what `wavehouse codegen ts` writes: with it tables, columns, filters
 * and rows are checked by the compiler.
 */
export class WaveHouse<DB extends DatabaseTypes = AnyDatabase> {
  readonly #transport: Transport;
  readonly #queries: Queries;

  /** Throws a WaveHouseError with code `client.invalid_option`. */
  constructor(options: WaveHouseOptions) {
    this.#transport = new Transport(resolve(options));
    this.#queries = new Queries(this.#transport);
  }

  /**
   * Posts one row or many. Many are split into requests of at most 10,000 rows
   * and 4 MiB, sent one after another. Rows that are refused are named in the
   * result by their index. It throws an InsertError, which carries what was
   * achieved, when a request fails as a whole and when every row was refused.
   */
  insert<T extends TableName<DB>>(
    table: T,
    rows: InsertOf<DB, T> | readonly InsertOf<DB, T>[],
    options: InsertOptions = {},
  ): Promise<InsertResult> {
    return insert(this.#transport, table, rows, options);
  }

  /** Begins a query that is put together step by step. */
  from<T extends TableName<DB>>(table: T): QueryBuilder<RowOf<DB, T>, unknown> {
    return new QueryBuilder(
      {
        run: (t, document, options) => this.#queries.rows(t, document, options),
        text: (t, document, format, options) => this.#queries.text(t, document, format, options),
        bytes: (t, document, format, options) => this.#queries.bytes(t, document, format, options),
        lines: (t, document, options) => this.#queries.lines(t, document, options),
      },
      table,
      {},
    );
  }

  /** Runs a query document and returns its rows. */
  query<R>(table: TableName<DB>, document: unknown extends R ? never : QueryDocument, options?: QueryOptions): Promise<R[]>;
  query<T extends TableName<DB>, const D extends DocumentOver<RowOf<DB, T>>>(
    table: T,
    document: D,
    options?: QueryOptions,
  ): Promise<ResultOf<RowOf<DB, T>, D>[]>;
  query(table: string, document: QueryDocument, options: QueryOptions = {}): Promise<unknown[]> {
    return this.#queries.rows(table, document, options);
  }

  /** The rows of a query, and the place from which a stream brings every later one. */
  snapshot<R>(table: TableName<DB>, document: unknown extends R ? never : QueryDocument, options?: QueryOptions): Promise<Snapshot<R>>;
  snapshot<T extends TableName<DB>, const D extends DocumentOver<RowOf<DB, T>>>(
    table: T,
    document: D,
    options?: QueryOptions,
  ): Promise<Snapshot<ResultOf<RowOf<DB, T>, D>>>;
  snapshot(table: string, document: QueryDocument, options: QueryOptions = {}): Promise<Snapshot<unknown>> {
    return this.#queries.snapshot(table, document, options);
  }

  /** The answer in another format: text for CSV, TSV and NDJSON, bytes for Arrow and Parquet. */
  export<F extends ExportFormat, T extends TableName<DB>>(
    table: T,
    document: QueryDocument<ColumnOf<RowOf<DB, T>>>,
    format: F,
    options: QueryOptions = {},
  ): Promise<F extends "arrow" | "parquet" ? Uint8Array : string> {
    const answer: Promise<Uint8Array | string> =
      format === "arrow" || format === "parquet"
        ? this.#queries.bytes(table, document, format, options)
        : this.#queries.text(table, document, format, options);
    return answer as Promise<F extends "arrow" | "parquet" ? Uint8Array : string>;
  }

  /** Runs a named pipe and returns its rows. */
  pipe<P extends PipeName<DB>>(name: P, params: DB["pipes"][P]["params"], options: PipeOptions = {}): Promise<Shown<DB["pipes"][P]["row"]>[]> {
    return pipe(this.#transport, name, params, options);
  }

  /**
   * Watches a table live. The iteration reconnects by itself, at the place it
   * had reached, until the caller leaves the loop, the signal aborts (both end
   * it quietly), the server says that there is nothing more to come, or a
   * failure that will not pass is thrown.
   */
  stream<R>(table: unknown extends R ? never : TableName<DB>, options?: StreamOptions): AsyncGenerator<StreamEvent<R>, void, undefined>;
  stream<T extends TableName<DB>>(table: T, options?: StreamOptions): AsyncGenerator<StreamEvent<RowOf<DB, T>>, void, undefined>;
  stream(table: string, options: StreamOptions = {}): AsyncGenerator<StreamEvent<unknown>, void, undefined> {
    return stream(this.#transport, table, options);
  }
}
