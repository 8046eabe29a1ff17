import { insert, type InsertOptions, type InsertResult, type Row } from "./insert.js";
import { resolve, type WaveHouseOptions } from "./options.js";
import { query, type QueryDocument, type QueryOptions } from "./query.js";
import { stream, type StreamEvent, type StreamOptions } from "./stream.js";
import { Transport } from "./transport.js";

/** A client of one WaveHouse server. It holds no connection and needs no closing. */
export class WaveHouse {
  readonly #transport: Transport;

  /** Throws a WaveHouseError with code `client.invalid_option`. */
  constructor(options: WaveHouseOptions) {
    this.#transport = new Transport(resolve(options));
  }

  /**
   * Posts one row or many. Many are split into requests of at most 10,000 rows
   * and 4 MiB, sent one after another. Rows that are refused are named in the
   * result by their index; a request that fails as a whole throws an
   * InsertError, which carries what earlier requests achieved.
   */
  insert<R extends object = Row>(table: string, rows: R | readonly R[], options: InsertOptions = {}): Promise<InsertResult> {
    return insert(this.#transport, table, rows, options);
  }

  /** Runs a structured query and returns its rows. */
  query<T = Row>(table: string, document: QueryDocument, options: QueryOptions = {}): Promise<T[]> {
    return query<T>(this.#transport, table, document, options);
  }

  /**
   * Watches a table live. The iteration reconnects by itself, after the last
   * row it handed out, until the caller leaves the loop, the signal aborts
   * (both end it quietly), the server says that there is nothing more to come,
   * or a failure that will not pass is thrown.
   */
  stream<T = Row>(table: string, options: StreamOptions = {}): AsyncGenerator<StreamEvent<T>, void, undefined> {
    return stream<T>(this.#transport, table, options);
  }
}
