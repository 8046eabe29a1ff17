import { Deadline } from "./deadline.js";
import type { Int64 } from "./document.js";
import { passing, WaveHouseError } from "./errors.js";
import { parseExact } from "./json.js";
import type { Settings } from "./options.js";
import { EventParser, type ServerEvent } from "./sse.js";
import { invalidResponse, type Transport } from "./transport.js";

export interface StreamOptions {
  /** Replays rows received at or after this time before the live ones. */
  since?: Date | string | undefined;
  /** Resumes after this place, an `id` or a `position`; wins over `since`. */
  lastEventId?: string | undefined;
  /** How numbers that JavaScript would round are written; as in a query document. */
  int64?: Int64 | undefined;
  /** Ends the iteration, quietly. */
  signal?: AbortSignal | undefined;
  /**
   * Reconnects when nothing at all, keepalives included, came for so long.
   * Default 90 000, three of the server's default keepalives; 0 for never.
   */
  idleTimeoutMs?: number | undefined;
  /** Called whenever a connection was accepted. */
  onOpen?: (() => void) | undefined;
  /** Called when a connection ended or failed, before the wait for the next. */
  onLost?: ((error: WaveHouseError | undefined) => void) | undefined;
}

/** A row as it was ingested. */
export interface RowEvent<T> {
  type: "row";
  /** Where the stream stands after this row; pass it as `lastEventId` to resume. */
  id: string;
  table: string;
  /** When the server took the row, RFC 3339. */
  receivedAt: string;
  /**
   * The columns of the row whose values are as they were sent, which a query may
   * print otherwise: `JSON`, `Dynamic` and their like.
   */
  asSent?: string[] | undefined;
  row: T;
}

/** Rows were missed here: read the range again with a query. */
export interface GapEvent {
  type: "gap";
  from: string;
  to: string;
  reason: string;
}

/** The server ends this connection; the iteration goes on with a new one if it can. */
export interface EndEvent {
  type: "end";
  reason: string;
}

export type StreamEvent<T> = RowEvent<T> | GapEvent | EndEvent;

/** What outlives a connection. */
interface Place {
  id: string;
  since: string | undefined;
  /** Milliseconds before the first reconnect, as the server asked. */
  retryMs: number;
  /** Whether a connection was ever accepted. */
  opened: boolean;
  /** Failures since the last connection that was accepted. */
  failures: number;
}

const longestBackoffMs = 30_000;
const longestRetryAfterMs = 300_000;
const shortestDelayMs = 100;

export async function* stream<T>(
  transport: Transport,
  table: string,
  options: StreamOptions,
): AsyncGenerator<StreamEvent<T>, void, undefined> {
  const place = start(options);
  for (;;) {
    let error: WaveHouseError | undefined;
    try {
      if ((yield* connection<T>(transport, table, options, place)) === "done") {
        return;
      }
    } catch (cause) {
      if (options.signal?.aborted) {
        return;
      }
      error = failure(cause);
      place.failures++;
      if (!reconnects(error, place, transport.settings)) {
        throw error;
      }
    }
    options.onLost?.(error);
    if (!(await waited(transport.settings, place, error?.retryAfter, options.signal))) {
      return;
    }
  }
}

function start(options: StreamOptions): Place {
  const { since, lastEventId } = options;
  return {
    id: lastEventId ?? "",
    since: since instanceof Date ? since.toISOString() : since,
    retryMs: 2000,
    opened: false,
    failures: 0,
  };
}

/** Hands out the events of one connection until it ends. */
async function* connection<T>(
  transport: Transport,
  table: string,
  options: StreamOptions,
  place: Place,
): AsyncGenerator<StreamEvent<T>, "done" | "closed", undefined> {
  const deadline = new Deadline(options.signal);
  try {
    const response = await opened(transport, table, options.int64, deadline, place);
    if (response.status === 204 || response.body === null) {
      return "done";
    }
    place.opened = true;
    place.failures = 0;
    options.onOpen?.();
    for await (const event of events(response, response.body, deadline, options.idleTimeoutMs ?? 90_000, place)) {
      const read = interpret<T>(event, response, options.int64);
      // Each id is the place to go on from, whether or not it came with a row.
      if (event.id !== "") {
        place.id = event.id;
      }
      if (read !== undefined) {
        yield read;
      }
    }
    return "closed";
  } finally {
    deadline.cancel();
  }
}

async function opened(
  transport: Transport,
  table: string,
  int64: string | undefined,
  deadline: Deadline,
  place: Place,
): Promise<Response> {
  deadline.restart(transport.settings.timeoutMs);
  try {
    const response = await transport.open(
      {
        method: "GET",
        path: "/v1/stream",
        params: { table, since: place.since, int64: int64 === "exact" ? undefined : int64 },
        headers: { Accept: "text/event-stream", "Last-Event-ID": place.id || undefined },
      },
      deadline,
    );
    const type = response.headers.get("content-type") ?? "";
    if (response.status !== 204 && !/^text\/event-stream\b/i.test(type)) {
      throw invalidResponse(`its content type is ${JSON.stringify(type)}`, response);
    }
    return response;
  } catch (cause) {
    throw deadline.explain(cause);
  }
}

async function* events(
  response: Response,
  body: ReadableStream<Uint8Array>,
  deadline: Deadline,
  idleMs: number,
  place: Place,
): AsyncGenerator<ServerEvent, void, undefined> {
  const parser = new EventParser(place.id);
  const text = new TextDecoder("utf-8", { ignoreBOM: true });
  const reader = body.getReader();
  for (;;) {
    deadline.restart(idleMs);
    let piece: ReadableStreamReadResult<Uint8Array>;
    try {
      piece = await reader.read();
    } catch (cause) {
      throw deadline.explain(cause);
    }
    // The caller takes its time over the events; only silence is counted.
    deadline.restart(0);
    if (piece.done) {
      return;
    }
    let found: ServerEvent[];
    try {
      found = parser.push(text.decode(piece.value, { stream: true }));
    } catch (cause) {
      throw invalidResponse(cause instanceof Error ? cause.message : String(cause), response, cause);
    }
    place.retryMs = parser.retry ?? place.retryMs;
    yield* found;
  }
}

/** The event in the client's terms; undefined for one this version does not know. */
function interpret<T>({ event, data, id }: ServerEvent, response: Response, int64: Int64 | undefined): StreamEvent<T> | undefined {
  if (data === undefined || (event !== "message" && event !== "gap" && event !== "end")) {
    return undefined;
  }
  let fields: Record<string, unknown>;
  try {
    fields = (int64 === undefined || int64 === "exact" ? parseExact(data) : JSON.parse(data)) as Record<string, unknown>;
  } catch (cause) {
    throw invalidResponse(`a ${event} event that is not JSON`, response, cause);
  }
  const text = (name: string) => String(fields[name] ?? "");
  switch (event) {
    case "gap":
      return { type: "gap", from: text("from"), to: text("to"), reason: text("reason") };
    case "end":
      return { type: "end", reason: text("reason") };
    default: {
      const asSent = fields["as_sent"] as string[] | undefined;
      return { type: "row", id, table: text("table"), receivedAt: text("received_at"), ...(asSent && { asSent }), row: fields["row"] as T };
    }
  }
}

function failure(cause: unknown): WaveHouseError {
  if (cause instanceof WaveHouseError) {
    return cause;
  }
  return new WaveHouseError(cause instanceof Error ? cause.message : String(cause), { code: "client.internal", cause });
}

/**
 * Whether the stream tries again. One that was accepted before tries for as
 * long as it is read; one that never was gives up like any other call.
 */
function reconnects(error: WaveHouseError, place: Place, settings: Settings): boolean {
  if (!place.opened && place.failures > settings.maxRetries) {
    return false;
  }
  if (error.status === 0) {
    return error.code === "client.network" || error.code === "client.timeout";
  }
  // 408 is how some proxies end a connection that was open for long.
  return error.status === 408 || (error.retryable && passing(error.status));
}

/** Waits before the next connection; false when the signal aborts meanwhile. */
async function waited(
  { clock }: Settings,
  place: Place,
  retryAfter: number | undefined,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const doubled = Math.max(shortestDelayMs, place.retryMs) * 2 ** Math.max(0, place.failures - 1);
  const half = Math.min(longestBackoffMs, doubled) / 2;
  const asked = Math.min(longestRetryAfterMs, (retryAfter ?? 0) * 1000);
  try {
    // Half fixed, half jitter: never at once, and never all together.
    await clock.sleep(Math.max(half, asked) + clock.random() * half, signal);
    return true;
  } catch {
    return false;
  }
}
