/**
 * What the server says of an answer. What it cost and how fresh it is, it tells to
 * callers who may see all rows that were read, or whose role has `show_cost`.
 */
export interface AnswerMeta {
  /** What the server's log calls the request. */
  requestId?: string;
  /** Whether it came from the server's cache. */
  cached: boolean;
  /** The bound that cut the answer. */
  truncated?: string;
  /** What ClickHouse calls the statement. */
  queryId?: string;
  /** What ClickHouse read when it began to answer. */
  rowsRead?: number;
  bytesRead?: number;
  /** Every row that was accepted before is in the tables that were read. */
  dataThrough?: Date;
  /** Milliseconds by part: `queue`, `clickhouse`, `send`. */
  timing: Record<string, number>;
}

export function metaOf({ headers }: Response): AnswerMeta {
  const meta: AnswerMeta = { cached: headers.get("x-cache") === "HIT", timing: {} };
  const set = <K extends keyof AnswerMeta>(key: K, header: string, read: (text: string) => AnswerMeta[K]): void => {
    const text = headers.get(header);
    if (text !== null) {
      meta[key] = read(text);
    }
  };
  set("requestId", "x-request-id", String);
  set("truncated", "x-result-truncated", String);
  set("queryId", "x-query-id", String);
  set("rowsRead", "x-rows-read", Number);
  set("bytesRead", "x-bytes-read", Number);
  set("dataThrough", "x-data-through", (text) => new Date(text));
  for (const [, name, took] of (headers.get("server-timing") ?? "").matchAll(/([a-z]+);dur=([0-9.]+)/g)) {
    meta.timing[name as string] = Number(took);
  }
  return meta;
}
