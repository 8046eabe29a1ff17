import { InsertError, WaveHouseError } from "./errors.js";
import { batches, type Batch } from "./rows.js";
import { invalidResponse, jsonBy, type Transport } from "./transport.js";

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
  /**
   * `"inserted"` waits until the rows are in ClickHouse. Without it an insert
   * resolves once they are durable, which is sooner.
   */
  wait?: "inserted" | undefined;
  /**
   * How long each request waits with `wait`, up to 60 000; the server's default
   * is 10 000. The rows are durable when the time is up, and `inserted` is false.
   */
  waitTimeoutMs?: number | undefined;
  /** The request may outlive its page; browsers allow 64 KiB of such bodies at a time. */
  keepalive?: boolean | undefined;
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
  /**
   * With `wait`: rows that were accepted and that ClickHouse refused. They are
   * the server's dead letters, need not be sent again, and have an entry in
   * `failures` with the code `record.dead_lettered`.
   */
  deadLettered?: number;
  /** With `wait`: whether all that succeeded were in ClickHouse in time. */
  inserted?: boolean;
  /** One entry for each failed row, in order. */
  failures: InsertFailure[];
}

export async function insert(
  transport: Transport,
  table: string,
  rows: object | readonly object[],
  options: InsertOptions,
): Promise<InsertResult> {
  const result = newResult();
  if (options.wait !== undefined) {
    result.deadLettered = 0;
    result.inserted = true;
  }
  let confirmed = 0;
  let number = 0;
  for (const batch of batches(Array.isArray(rows) ? rows : [rows])) {
    number++;
    try {
      await sendBatch(transport, table, batch, keyOf(options, number), options, result);
    } catch (failure) {
      throw failure instanceof WaveHouseError ? new InsertError(failure, result, confirmed) : failure;
    }
    confirmed = batch.end;
  }
  const [first] = result.failures;
  if (first !== undefined && result.failed === result.total) {
    throw new InsertError(refusal(first, result), result, confirmed);
  }
  return result;
}

/** None of the rows was taken: that is no insert, whatever the status says. */
function refusal({ code, message, column }: InsertFailure, { total }: InsertResult): WaveHouseError {
  const which = total === 1 ? "the row was refused" : `all ${total} rows were refused, the first`;
  return new WaveHouseError(`${which}: ${message}`, { code, details: column === undefined ? {} : { column } });
}

function keyOf(options: InsertOptions, number: number): string | undefined {
  const key = options.idempotencyKey;
  return key === undefined || number === 1 ? key : `${key}-${number}`;
}

export function newResult(): InsertResult {
  return { total: 0, succeeded: 0, failed: 0, duplicates: 0, failures: [] };
}

/** Sends the rows of one request and adds what became of them to `result`. */
export async function sendBatch(
  transport: Transport,
  table: string,
  batch: Batch,
  key: string | undefined,
  options: InsertOptions,
  result: InsertResult,
): Promise<void> {
  const failures: InsertFailure[] = batch.unreadable.map((u) => ({ ...u, code: "client.invalid_row" }));
  let counts: Counts = { succeeded: 0, failed: 0, duplicates: 0 };
  if (batch.indexes.length > 0) {
    const { body: answer } = await transport.call(
      {
        method: "POST",
        path: "/v1/ingest",
        params: { table, wait: options.wait, timeout: timeoutOf(options) },
        headers: { "Content-Type": "application/x-ndjson", Accept: "application/json", "Idempotency-Key": key },
        body: batch.body,
        extraMs: options.wait === undefined ? 0 : (options.waitTimeoutMs ?? defaultWaitMs),
        keepalive: options.keepalive ?? false,
      },
      key !== undefined || options.idempotent ? "safe" : "unstored",
      options.signal,
      jsonBy(JSON.parse),
    );
    counts = countsOf(answer, batch);
    if (result.deadLettered !== undefined) {
      result.deadLettered += counts.dead_lettered ?? 0;
      result.inserted = result.inserted === true && counts.inserted === true;
    }
    failures.push(...failuresOf(answer, batch));
  }
  result.succeeded += counts.succeeded;
  result.failed += counts.failed + batch.unreadable.length;
  result.duplicates += counts.duplicates;
  result.total += batch.indexes.length + batch.unreadable.length;
  result.failures.push(...failures.sort((a, b) => a.index - b.index));
}

/** The server's, when it is not told how long to wait. */
const defaultWaitMs = 10_000;

function timeoutOf(options: InsertOptions): string | undefined {
  return options.wait === undefined || options.waitTimeoutMs === undefined ? undefined : `${options.waitTimeoutMs}ms`;
}

interface Counts {
  succeeded: number;
  failed: number;
  duplicates: number;
  dead_lettered?: number;
  inserted?: boolean;
}

interface Answer extends Counts {
  results: { index: number; error?: string; code?: string; column?: string }[];
}

function countsOf(answer: unknown, batch: Batch): Answer {
  const a = answer as Partial<Answer> | null;
  const counts = [a?.succeeded, a?.failed, a?.duplicates, a?.dead_lettered ?? 0];
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
