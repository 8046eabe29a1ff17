import { InsertError, WaveHouseError } from "./errors.js";
import { batches, type Batch } from "./rows.js";
import { invalidResponse, type Transport } from "./transport.js";

/**
 * One row: column names to values. A bigint keeps all its digits, a Date
 * becomes RFC 3339, an undefined value leaves its column out.
 */
export type Row = Record<string, unknown>;

export interface InsertOptions {
  signal?: AbortSignal | undefined;
  /**
   * Names this insert. It is sent as `Idempotency-Key` (with a number from the
   * second request on), and says that a second copy of it does no harm, so that
   * requests are repeated even when it is not known whether the first attempt
   * was stored.
   */
  idempotencyKey?: string | undefined;
  /**
   * The rows carry ids by which duplicates are dropped, so that requests may be
   * repeated as with `idempotencyKey`. Default false.
   */
  idempotent?: boolean | undefined;
}

/** Why one row was not stored. */
export interface InsertFailure {
  /** The row's index in the caller's array, from 0. */
  index: number;
  /** The server's code, or `client.invalid_row` for a row with no JSON form. */
  code: string;
  message: string;
  /** The column at fault, when there is one. */
  column?: string;
}

/** What became of the rows: `total` is the sum of the other counts. */
export interface InsertResult {
  total: number;
  succeeded: number;
  failed: number;
  duplicates: number;
  /** One entry for each failed row, in order. */
  failures: InsertFailure[];
}

export async function insert(
  transport: Transport,
  table: string,
  rows: object | readonly object[],
  options: InsertOptions,
): Promise<InsertResult> {
  const result: InsertResult = { total: 0, succeeded: 0, failed: 0, duplicates: 0, failures: [] };
  let confirmed = 0;
  let number = 0;
  for (const batch of batches(Array.isArray(rows) ? rows : [rows])) {
    number++;
    try {
      await send(transport, table, batch, keyOf(options, number), options, result);
    } catch (failure) {
      throw failure instanceof WaveHouseError ? new InsertError(failure, result, confirmed) : failure;
    }
    confirmed = batch.end;
  }
  return result;
}

function keyOf(options: InsertOptions, number: number): string | undefined {
  const key = options.idempotencyKey;
  return key === undefined || number === 1 ? key : `${key}-${number}`;
}

async function send(
  transport: Transport,
  table: string,
  batch: Batch,
  key: string | undefined,
  options: InsertOptions,
  result: InsertResult,
): Promise<void> {
  const failures: InsertFailure[] = batch.unreadable.map((u) => ({ ...u, code: "client.invalid_row" }));
  let counts = { succeeded: 0, failed: 0, duplicates: 0 };
  if (batch.indexes.length > 0) {
    const answer = await transport.call(
      {
        method: "POST",
        path: "/v1/ingest",
        params: { table },
        headers: { "Content-Type": "application/x-ndjson", Accept: "application/json", "Idempotency-Key": key },
        body: batch.body,
      },
      key !== undefined || options.idempotent ? "safe" : "unstored",
      options.signal,
    );
    counts = countsOf(answer, batch);
    failures.push(...failuresOf(answer, batch));
  }
  result.succeeded += counts.succeeded;
  result.failed += counts.failed + batch.unreadable.length;
  result.duplicates += counts.duplicates;
  result.total += batch.indexes.length + batch.unreadable.length;
  result.failures.push(...failures.sort((a, b) => a.index - b.index));
}

interface Answer {
  succeeded: number;
  failed: number;
  duplicates: number;
  results: { index: number; error?: string; code?: string; column?: string }[];
}

function countsOf(answer: unknown, batch: Batch): Answer {
  const a = answer as Partial<Answer> | null;
  const counts = [a?.succeeded, a?.failed, a?.duplicates];
  if (!counts.every(Number.isInteger) || !Array.isArray(a?.results)) {
    throw invalidResponse("an ingest answers counts and results", undefined);
  }
  const counted = (counts as number[]).reduce((x, y) => x + y, 0);
  if (counted !== batch.indexes.length) {
    throw invalidResponse(`it accounts for ${counted} of ${batch.indexes.length} rows`, undefined);
  }
  return a as Answer;
}

/** Failures of the answer, whose indexes count this request's rows from 1. */
function failuresOf(answer: unknown, batch: Batch): InsertFailure[] {
  const failures: InsertFailure[] = [];
  for (const { index: line, error, code, column } of (answer as Answer).results) {
    const index = batch.indexes[line - 1];
    if (error === undefined || index === undefined) {
      continue;
    }
    failures.push({ index, code: code ?? "record.failed", message: error, ...(column === undefined ? {} : { column }) });
  }
  return failures;
}
