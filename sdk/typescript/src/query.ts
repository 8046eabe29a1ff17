import type { QueryDocument, TotalsOf } from "./document.js";
import { parseExact } from "./json.js";
import { type AnswerMeta, metaOf } from "./meta.js";
import { stringify } from "./rows.js";
import { type Call, invalidResponse, jsonBy, type Transport } from "./transport.js";

export interface QueryOptions {
  signal?: AbortSignal | undefined;
  /** Called with what the server says of the answer, before its rows are handed out. */
  onMeta?: ((meta: AnswerMeta) => void) | undefined;
}

/** Rows, and the aggregations over all groups. */
export interface Totalled<T> {
  rows: T[];
  /** What is grouped by is null. */
  totals: TotalsOf<T>;
}

/** Rows, and where in the table's stream they end. */
export interface Snapshot<T> {
  rows: T[];
  /** Pass it as `lastEventId` to a stream of the table: every later row comes there. */
  position: string;
  /** Whether no row can be in both; else rows of the last moments may be. */
  exact: boolean;
}

export function callOf(table: string, document: QueryDocument, accept: string, more: Partial<Call> = {}): Call {
  const { int64, ...rest } = document;
  return {
    method: "POST",
    path: "/v1/query",
    ...more,
    params: { table, ...more.params },
    headers: { "Content-Type": "application/json", Accept: accept, ...more.headers },
    body: stringify(int64 === undefined || int64 === "exact" ? rest : document),
  };
}

/** How an answer's numbers are read. */
export function parserOf({ int64 }: QueryDocument): (text: string) => unknown {
  return int64 === undefined || int64 === "exact" ? parseExact : JSON.parse;
}

export function rowsOf<T>(body: unknown): T[] {
  // With totals the rows are one part of an object.
  const rows = Array.isArray(body) ? body : (body as { rows?: unknown } | null)?.rows;
  if (!Array.isArray(rows)) {
    throw invalidResponse("a query answers an array of rows", undefined);
  }
  return rows as T[];
}

/** Answers that are kept to be used again when the server says that they still hold. */
const mostKept = 32;
const longestKept = 256 * 1024; // characters each

/** Asks and reads; a query changes nothing, so it is repeated. */
export class Queries {
  readonly #transport: Transport;
  readonly #kept = new Map<string, { etag: string; text: string }>();

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async rows<T>(table: string, document: QueryDocument, options: QueryOptions): Promise<T[]> {
    return rowsOf<T>(await this.#ask(table, document, options));
  }

  async totals<T>(table: string, document: QueryDocument, options: QueryOptions): Promise<Totalled<T>> {
    const body = await this.#ask(table, document, options);
    const totals = (body as Partial<Totalled<T>> | null)?.totals;
    if (totals === undefined) {
      throw invalidResponse("it carries no totals; does the server know them?", undefined);
    }
    return { rows: rowsOf<T>(body), totals };
  }

  async #ask(table: string, document: QueryDocument, { signal, onMeta }: QueryOptions): Promise<unknown> {
    const call = callOf(table, document, "application/json");
    const key = `${table}\n${call.body as string}`;
    const kept = this.#kept.get(key);
    const { body, response } = await this.#transport.call(
      kept === undefined ? call : { ...call, headers: { ...call.headers, "If-None-Match": kept.etag } },
      "safe",
      signal,
      (r) => r.text(),
    );
    const text = response.status === 304 ? kept?.text : body;
    if (text === undefined) {
      throw invalidResponse("304 to a question without an ETag", response);
    }
    this.#keep(key, response.headers.get("etag"), text);
    onMeta?.(metaOf(response));
    return jsonBy(parserOf(document))(new Response(text));
  }

  async snapshot<T>(table: string, document: QueryDocument, { signal, onMeta }: QueryOptions): Promise<Snapshot<T>> {
    const call = callOf(table, document, "application/json", { params: { position: "1" } });
    const { body, response } = await this.#transport.call(call, "safe", signal, jsonBy(parserOf(document)));
    const position = response.headers.get("x-stream-position");
    if (!position) {
      throw invalidResponse("it carries no X-Stream-Position; does a proxy, or CORS, hide it?", response);
    }
    onMeta?.(metaOf(response));
    return { rows: rowsOf<T>(body), position, exact: response.headers.get("x-stream-join") === "exact" };
  }

  #keep(key: string, etag: string | null, text: string): void {
    this.#kept.delete(key);
    if (!etag || text.length > longestKept) {
      return;
    }
    this.#kept.set(key, { etag, text });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > mostKept && oldest !== undefined) {
      this.#kept.delete(oldest);
    }
  }
}
