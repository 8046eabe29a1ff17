import type { QueryDocument } from "./document.js";
import { callOf, parserOf, rowsOf, type QueryOptions } from "./query.js";
import { invalidResponse, jsonBy, type Transport } from "./transport.js";

/** One page of a query. */
export interface Page<T> {
  rows: T[];
  /** What ended it: `limit`, `role.max_rows` or `query.default_max_rows`; undefined when there are no more rows. */
  truncated: string | undefined;
  /** Continues behind it, as the document's `cursor`; undefined at the end, and where no cursor can. */
  cursor: string | undefined;
}

async function page<T>(transport: Transport, table: string, document: QueryDocument, { signal }: QueryOptions): Promise<Page<T>> {
  const { body, response } = await transport.call(callOf(table, document, "application/json"), "safe", signal, jsonBy(parserOf(document)));
  const header = (name: string) => response.headers.get(name) ?? undefined;
  return { rows: rowsOf<T>(body), truncated: header("x-result-truncated"), cursor: header("x-next-cursor") };
}

/** Asks for page after page, from the document's cursor on. */
export async function* pages<T>(transport: Transport, table: string, document: QueryDocument, options: QueryOptions): AsyncGenerator<Page<T>, void, undefined> {
  // An empty cursor has a document without pages refused.
  let cursor = document.cursor ?? "";
  for (;;) {
    const found = await page<T>(transport, table, { ...document, cursor }, options);
    yield found;
    if (found.truncated === undefined && found.cursor === undefined) {
      return;
    }
    if (found.cursor === undefined || found.cursor === cursor) {
      throw invalidResponse("there are more rows, and the page says not where; take a smaller limit", undefined);
    }
    cursor = found.cursor;
  }
}
