import { invalidResponse, type Transport } from "./transport.js";

export type FilterOp =
  | "eq"
  | "neq"
  | "gt"
  | "gte"
  | "lt"
  | "lte"
  | "in"
  | "not_in"
  | "like"
  | "not_like"
  | "is_null"
  | "is_not_null";

export interface Filter {
  column: string;
  op: FilterOp;
  /** Absent for `is_null` and `is_not_null`; an array for `in` and `not_in`. */
  value?: unknown;
}

export interface Aggregation {
  fn: string;
  /** Absent, or `"*"`, for the `count` of rows; every other function needs one. */
  column?: string;
  alias?: string;
  /** Parameters of the function, such as the level of a quantile. */
  params?: number[];
}

export interface OrderBy {
  column: string;
  dir?: "asc" | "desc";
}

/** Bounds are RFC 3339 times or durations back from now, such as `"1h"` or `"7d"`. */
export interface TimeRange {
  column: string;
  since?: string;
  until?: string;
}

export interface TimeBucket {
  column: string;
  every: string;
  alias?: string;
}

/** What to read; see the server's API reference for each key. */
export interface QueryDocument {
  columns?: string[];
  select_all?: boolean;
  aggregations?: Aggregation[];
  filters?: Filter[];
  group_by?: string[];
  order_by?: OrderBy[];
  limit?: number;
  offset?: number;
  time_range?: TimeRange;
  time_bucket?: TimeBucket;
  /** `"string"` quotes 64-bit and wider integers and decimals, which JSON.parse would round. */
  int64?: "number" | "string";
}

export interface QueryOptions {
  signal?: AbortSignal | undefined;
}

export async function query<T>(
  transport: Transport,
  table: string,
  document: QueryDocument,
  options: QueryOptions,
): Promise<T[]> {
  const answer = await transport.call(
    {
      method: "POST",
      path: "/v1/query",
      params: { table },
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify(document),
    },
    "safe", // a query changes nothing
    options.signal,
  );
  if (!Array.isArray(answer)) {
    throw invalidResponse("a query answers an array of rows", undefined);
  }
  return answer as T[];
}
