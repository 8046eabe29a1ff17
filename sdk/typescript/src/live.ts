import type { QueryDocument } from "./document.js";
import { WaveHouseError } from "./errors.js";
import type { AnswerMeta } from "./meta.js";
import type { QueryOptions, Snapshot } from "./query.js";
import type { StreamEvent, StreamOptions } from "./stream.js";
import { viewOf, type View } from "./view.js";

type Values = Record<string, unknown>;

/**
 * - `connecting`: there is no answer yet
 * - `live`: the rows are all that the server has streamed so far
 * - `reconnecting`: the connection was lost; the rows are those of before
 * - `stale`: rows were missed, or cannot be told from the stream; the query is asked again
 * - `closed`: it ended, by its owner or by the error
 */
export type LiveStatus = "connecting" | "live" | "reconnecting" | "stale" | "closed";

/** What a live query shows. Each change makes a new one. */
export interface LiveState<T> {
  readonly status: LiveStatus;
  readonly rows: readonly T[];
  /** What the server said of the last answer, to which the stream's rows were added. */
  readonly meta?: AnswerMeta;
  /** Why the query ended, or why it could not be asked again just now. */
  readonly error?: WaveHouseError;
}

export interface LiveOptions {
  /** A column, or columns, of which each combination is shown once: a later row replaces an earlier one. */
  key?: string | readonly string[] | undefined;
  /** The least time between two askings of a query that the stream alone cannot keep right. Default 1,000. */
  refreshMs?: number | undefined;
  /** Shares one connection with the other tabs of the same caller. Default true. */
  tabs?: boolean | undefined;
}

/** What a live query needs of a client. */
export interface LiveSource {
  snapshot(table: string, document: QueryDocument, options: QueryOptions & { signal: AbortSignal }): Promise<Snapshot<Values>>;
  stream(table: string, options: StreamOptions): AsyncIterable<StreamEvent<Values>>;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Who is calling, and where; undefined when that cannot be told. */
  caller(): Promise<string | undefined>;
}

/** A range that ends now is asked again so often, since rows leave it without a word. */
const rangeMs = 30_000;
/** An overlap of answer and stream is asked about again so often; then a row may be shown twice. */
const mostOverlaps = 5;
const firstBackoffMs = 1000;
const longestBackoffMs = 30_000;

/** Keeps the answer of one query up to date, and tells `changed` of each new state. */
export async function run(
  source: LiveSource,
  table: string,
  document: QueryDocument,
  options: LiveOptions,
  signal: AbortSignal,
  changed: (state: LiveState<Values>) => void,
  state: LiveState<Values> = { status: "connecting", rows: [] },
): Promise<void> {
  const refreshMs = options.refreshMs ?? 1000;
  const keys = typeof options.key === "string" ? [options.key] : options.key;
  let { meta } = state;
  const tell = (status: LiveStatus, rows = state.rows, error?: WaveHouseError) => {
    if (!signal.aborted) {
      state = { status, rows, ...(meta && { meta }), ...(error && { error }) };
      changed(state);
    }
  };
  let overlaps = 0;
  for (let failures = 0; !signal.aborted; ) {
    const turn = new AbortController();
    const stop = () => turn.abort();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const answer = await source.snapshot(table, document, { signal, onMeta: (said) => (meta = said) });
      failures = 0;
      // Rows of an overlap can be told apart by their keys alone.
      overlaps = answer.exact || keys ? 0 : overlaps + 1;
      const view = viewOf(document, answer.rows, keys, overlaps > 0);
      if (overlaps > 0 && overlaps <= mostOverlaps) {
        tell("stale", view.rows());
        await source.sleep(refreshMs, signal);
        continue;
      }
      await follow(source, table, document, answer.position, view, refreshMs, turn, tell);
      // It is known to be behind: not at once, so that many rows are one question.
      await source.sleep(refreshMs, signal);
    } catch (cause) {
      if (signal.aborted) {
        return;
      }
      const error = cause instanceof WaveHouseError ? cause : new WaveHouseError(String(cause), { code: "client.internal", cause });
      if (!error.retryable && error.status !== 0 && error.status !== 408) {
        tell("closed", state.rows, error);
        return;
      }
      tell(state.status === "connecting" ? "connecting" : "stale", state.rows, error);
      const wait = Math.min(longestBackoffMs, firstBackoffMs * 2 ** failures++);
      await source.sleep(Math.max(wait, (error.retryAfter ?? 0) * 1000), signal).catch(() => undefined);
    } finally {
      signal.removeEventListener("abort", stop);
      turn.abort();
    }
  }
}

/** Shows the stream's rows in the view until the query has to be asked again. */
async function follow(
  source: LiveSource,
  table: string,
  document: QueryDocument,
  position: string,
  view: View,
  refreshMs: number,
  leave: AbortController,
  tell: (status: LiveStatus, rows?: readonly Values[]) => void,
): Promise<void> {
  const { signal } = leave;
  const stream = source.stream(table, {
    lastEventId: position,
    signal,
    ...(document.int64 && { int64: document.int64 }),
    onOpen: () => tell("live", view.rows()),
    onLost: () => tell("reconnecting"),
  });
  // Rows that arrive together are shown together.
  let told = true;
  let due = false;
  const since = document.time_range?.since;
  const relative = typeof since === "string" && /^(-?[\d.]+[a-z]|[a-z])/.test(since);
  const timer = relative ? setTimeout(() => ((due = true), leave.abort()), Math.max(rangeMs, refreshMs)) : undefined;
  const show = () => {
    told = true;
    if (!signal.aborted) {
      tell("live", view.rows());
    }
  };
  try {
    for await (const event of stream) {
      if (event.type === "end") {
        continue; // onLost tells
      }
      if (event.type === "gap" || !view.take(event.row)) {
        tell("stale", view.rows());
        return;
      }
      if (told) {
        told = false;
        queueMicrotask(show);
      }
    }
  } finally {
    clearTimeout(timer);
  }
  if (due || signal.aborted) {
    return;
  }
  throw new WaveHouseError("the server has no more rows for this stream", { code: "stream.ended", status: 204 });
}
