import type { Int64 } from "./document.js";
import { parseExact } from "./json.js";
import { type AnswerMeta, metaOf } from "./meta.js";
import { stringify } from "./rows.js";
import { invalidResponse, jsonBy, type Transport } from "./transport.js";

export interface PipeOptions {
  signal?: AbortSignal | undefined;
  /** Called with what the server says of the answer, before its rows are handed out. */
  onMeta?: ((meta: AnswerMeta) => void) | undefined;
  /** How numbers that JavaScript would round are written; as in a query document. */
  int64?: Int64 | undefined;
  /**
   * Doing it twice is doing it once, so that it may be repeated like a query. A
   * pipe may write; the client cannot tell. Default false.
   */
  idempotent?: boolean | undefined;
}

export async function pipe<T>(transport: Transport, name: string, params: object, options: PipeOptions): Promise<T[]> {
  const { int64, idempotent, signal, onMeta } = options;
  const exact = int64 === undefined || int64 === "exact";
  const { body, response } = await transport.call(
    {
      method: "POST",
      path: `/v1/pipes/${encodeURIComponent(name)}`,
      params: { int64: exact ? undefined : int64 },
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: stringify(params),
    },
    idempotent ? "safe" : "unstored",
    signal,
    jsonBy(exact ? parseExact : JSON.parse),
  );
  if (!Array.isArray(body)) {
    throw invalidResponse("a pipe answers an array of rows", undefined);
  }
  onMeta?.(metaOf(response));
  return body as T[];
}
