import { Batcher, type BatcherOptions } from "./batcher.js";
import { QueryBuilder } from "./builder.js";
import type { Checked, DocumentOver, QueryDocument, ResultOf } from "./document.js";
import type { InsertOptions, InsertResult } from "./insert.js";
import type { LiveOptions, LiveSource } from "./live.js";
import { Engines, LiveQuery } from "./livequery.js";
import { resolve, type WaveHouseOptions } from "./options.js";
import { pipe, type PipeOptions } from "./pipe.js";
import type { ExportFormat } from "./export.js";
import type { Page } from "./pages.js";
import { Queries, type QueryOptions, type Snapshot } from "./query.js";
import type { AnyDatabase, DatabaseTypes, InsertOf, PipeName, Row, RowOf, Shown, TableName } from "./schema.js";
import type { StreamEvent, StreamOptions } from "./stream.js";
import { Transport } from "./transport.js";

/**
 * A client of one WaveHouse server. It holds no connection and needs no closing.
 * `DB` is what `wavehouse codegen ts` writes: with it tables, columns, filters
 * and rows are checked by the compiler.
 */
export class WaveHouse<DB extends DatabaseTypes = AnyDatabase> {
  readonly #transport: Transport;
  readonly #queries: Queries;
  readonly #engines = new Engines();

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
  async insert<T extends TableName<DB>>(
    table: T,
    rows: InsertOf<DB, T> | readonly InsertOf<DB, T>[],
    options: InsertOptions = {},
  ): Promise<InsertResult> {
    return (await import("./insert.js")).insert(this.#transport, table, rows, options);
  }

  /** Collects rows of a table and sends them in batches; see BatcherOptions. Close it. */
  batcher<T extends TableName<DB>>(table: T, options: BatcherOptions<InsertOf<DB, T>> = {}): Batcher<InsertOf<DB, T>> {
    return new Batcher(this.#transport, table, options);
  }

  /** Begins a query that is put together step by step, from a document on where there is one: its pages, its totals, its formats. */
  from<T extends TableName<DB>>(table: T): QueryBuilder<RowOf<DB, T>, unknown>;
  from<T extends TableName<DB>, const D extends DocumentOver<RowOf<DB, T>>>(
    table: T,
    document: D & Checked<RowOf<DB, T>, D>,
  ): QueryBuilder<RowOf<DB, T>, ResultOf<RowOf<DB, T>, D>>;
  from(table: string, document: QueryDocument = {}): QueryBuilder<any, any> {
    return new QueryBuilder(
      {
        run: (t, document, options) => this.#queries.rows(t, document, options),
        totals: (t, document, options) => this.#queries.totals(t, document, options),
        export: (t, document, format, options) => this.#export(t, document, format, options),
        pages: (t, document, options) => this.#pages(t, document, options),
        lines: (t, document, options) => this.#lines(t, document, options),
      },
      table,
      document,
    );
  }

  /** Runs a query document and returns its rows. */
  query<R>(table: TableName<DB>, document: unknown extends R ? never : QueryDocument, options?: QueryOptions): Promise<R[]>;
  query<T extends TableName<DB>, const D extends DocumentOver<RowOf<DB, T>>>(
    table: T,
    document: D & Checked<RowOf<DB, T>, D>,
    options?: QueryOptions,
  ): Promise<ResultOf<RowOf<DB, T>, D>[]>;
  query(table: string, document: QueryDocument, options: QueryOptions = {}): Promise<unknown[]> {
    return this.#queries.rows(table, document, options);
  }

  /** The rows of a query, and the place from which a stream brings every later one. */
  snapshot<R>(table: TableName<DB>, document: unknown extends R ? never : QueryDocument, options?: QueryOptions): Promise<Snapshot<R>>;
  snapshot<T extends TableName<DB>, const D extends DocumentOver<RowOf<DB, T>>>(
    table: T,
    document: D & Checked<RowOf<DB, T>, D>,
    options?: QueryOptions,
  ): Promise<Snapshot<ResultOf<RowOf<DB, T>, D>>>;
  snapshot(table: string, document: QueryDocument, options: QueryOptions = {}): Promise<Snapshot<unknown>> {
    return this.#queries.snapshot(table, document, options);
  }

  /** The answer in another format: text for CSV, TSV and NDJSON, bytes for Arrow and Parquet. */
  export<F extends ExportFormat, T extends TableName<DB>, const D extends DocumentOver<RowOf<DB, T>>>(
    table: T,
    document: D & Checked<RowOf<DB, T>, D>,
    format: F,
    options: QueryOptions = {},
  ): Promise<F extends "arrow" | "parquet" ? Uint8Array : string> {
    const answer = this.#export(table, document, format, options);
    return answer as Promise<F extends "arrow" | "parquet" ? Uint8Array : string>;
  }

  // What not every page needs is loaded when it is used.

  async #export(table: string, document: QueryDocument, format: ExportFormat, options: QueryOptions): Promise<string | Uint8Array> {
    return (await import("./export.js")).exported(this.#transport, table, document, format, options);
  }

  async *#pages<T>(table: string, document: QueryDocument, options: QueryOptions): AsyncGenerator<Page<T>, void, undefined> {
    yield* (await import("./pages.js")).pages<T>(this.#transport, table, document, options);
  }

  async *#lines<T>(table: string, document: QueryDocument, options: QueryOptions): AsyncGenerator<T, void, undefined> {
    yield* (await import("./export.js")).lines<T>(this.#transport, table, document, options);
  }

  /** Runs a named pipe and returns its rows. */
  pipe<P extends PipeName<DB>>(name: P, params: DB["pipes"][P]["params"], options: PipeOptions = {}): Promise<Shown<DB["pipes"][P]["row"]>[]> {
    return pipe(this.#transport, name, params, options);
  }

  /**
   * The answer of a query, and then every later row: a view that stays right.
   * Subscribers of equal queries, other tabs included, share one connection.
   */
  live<R, S>(query: QueryBuilder<R, S>, options?: LiveOptions): LiveQuery<Shown<S>>;
  live<R>(query: { table: TableName<DB>; document: unknown extends R ? never : QueryDocument }, options?: LiveOptions): LiveQuery<R>;
  live<T extends TableName<DB>, const D extends DocumentOver<RowOf<DB, T>>>(
    query: { table: T; document: D & Checked<RowOf<DB, T>, D> },
    options?: LiveOptions,
  ): LiveQuery<ResultOf<RowOf<DB, T>, D>>;
  live({ table, document }: { table: string; document: QueryDocument }, options: LiveOptions = {}): LiveQuery<unknown> {
    const source: LiveSource = {
      snapshot: (t, d, o) => this.#queries.snapshot(t, d, o),
      stream: (t, o) => this.stream(t as TableName<DB>, o) as AsyncGenerator<StreamEvent<Row>, void, undefined>,
      sleep: (ms, signal) => this.#transport.settings.clock.sleep(ms, signal),
      caller: () => this.#transport.caller(),
    };
    return new LiveQuery(this.#engines.get(table, document, options, source));
  }

  /**
   * Watches a table live. The iteration reconnects by itself, at the place it
   * had reached, until the caller leaves the loop, the signal aborts (both end
   * it quietly), the server says that there is nothing more to come, or a
   * failure that will not pass is thrown.
   */
  stream<R>(table: unknown extends R ? never : TableName<DB>, options?: StreamOptions): AsyncGenerator<StreamEvent<R>, void, undefined>;
  stream<T extends TableName<DB>>(table: T, options?: StreamOptions): AsyncGenerator<StreamEvent<RowOf<DB, T>>, void, undefined>;
  async *stream(table: string, options: StreamOptions = {}): AsyncGenerator<StreamEvent<unknown>, void, undefined> {
    yield* (await import("./stream.js")).stream(this.#transport, table, options);
  }
}
