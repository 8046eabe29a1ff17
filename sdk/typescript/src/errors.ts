import type { ServerCode } from "./codes.js";
import type { InsertResult } from "./insert.js";

/** The codes that an error of a call may have; a newer server may send others. */
export type ErrorCode =
  | ServerCode
  | "client.network"
  | "client.timeout"
  | "client.aborted"
  | "client.redirect"
  | "client.token"
  | "client.invalid_response"
  | "client.invalid_option"
  | "client.invalid_row"
  | "client.caller_changed"
  | "client.offline_queue"
  | "client.internal"
  | `http.${number}`
  | (string & {});

export interface ErrorFields {
  code: ErrorCode;
  status?: number | undefined;
  requestId?: string | undefined;
  retryable?: boolean | undefined;
  retryAfter?: number | undefined;
  details?: Readonly<Record<string, unknown>> | undefined;
  cause?: unknown;
}

/**
 * Every failure of a call. `code` is the server's stable code, or one of the
 * client's own:
 *
 * - `client.network`: no answer; whether the server acted is not known
 * - `client.timeout`: no answer within `timeoutMs`
 * - `client.aborted`: the caller's signal aborted
 * - `client.redirect`: the server answered with a redirect, which is not followed
 * - `client.token`: the token function failed
 * - `client.invalid_response`: an answer that is not WaveHouse's
 * - `client.invalid_option`: an option that cannot be used
 * - `http.<status>`: an error status without WaveHouse's error body
 */
export class WaveHouseError extends Error {
  override readonly name: string = "WaveHouseError";
  readonly code: ErrorCode;
  /** The HTTP status, 0 when there was no answer. */
  readonly status: number;
  /** The server's id of the request, for its logs. */
  readonly requestId: string | undefined;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;
  /** Seconds to wait before trying again, when the server named them. */
  readonly retryAfter: number | undefined;
  /** The other fields of the server's error body. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(message: string, fields: ErrorFields) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.code = fields.code;
    this.status = fields.status ?? 0;
    this.requestId = fields.requestId;
    this.retryable = fields.retryable ?? false;
    this.retryAfter = fields.retryAfter;
    this.details = fields.details ?? {};
  }

  /** What a logger that prints JSON shows; without it an error prints as `{}`. */
  toJSON(): Record<string, unknown> {
    const { name, message, code, status, requestId, retryable, retryAfter, details, cause } = this;
    return {
      ...{ name, message, code, status, requestId, retryable, retryAfter, details },
      ...(cause === undefined ? {} : { cause: describe(cause) }),
    };
  }
}

/** The messages of an error and of what caused it, outermost first. */
export function describe(cause: unknown): string {
  const parts: string[] = [];
  for (let at: unknown = cause, depth = 0; at !== undefined && at !== null && depth < 5; depth++) {
    const { message, code } = at as { message?: unknown; code?: unknown };
    const text = typeof message === "string" ? message || String(code ?? "") : String(at);
    if (text && !parts.some((part) => part.includes(text))) {
      parts.push(text);
    }
    at = at instanceof Error ? at.cause : undefined;
  }
  return parts.join(": ");
}

/**
 * A request of an insert failed as a whole. What earlier requests of the same
 * call achieved is in `result`; the rows from `confirmed` on have no outcome
 * there: those of the failed request may or may not be stored, as its code
 * says, and later ones were not sent.
 */
export class InsertError extends WaveHouseError {
  override readonly name: string = "InsertError";
  readonly result: InsertResult;
  /** The index of the first row without an outcome in `result`. */
  readonly confirmed: number;

  constructor(failure: WaveHouseError, result: InsertResult, confirmed: number) {
    super(failure.message, {
      code: failure.code,
      status: failure.status,
      requestId: failure.requestId,
      retryable: failure.retryable,
      retryAfter: failure.retryAfter,
      details: failure.details,
      cause: failure,
    });
    this.result = result;
    this.confirmed = confirmed;
  }

  override toJSON(): Record<string, unknown> {
    const { result, confirmed } = this;
    return { ...super.toJSON(), result, confirmed };
  }
}

/** Reads an error answer. The body may be anything a proxy makes up. */
export async function fromResponse(response: Response): Promise<WaveHouseError> {
  const { error, code, retryable, request_id, ...details } = await errorBody(response);
  const status = response.status;
  return new WaveHouseError(typeof error === "string" ? error : `the server answered ${status}`, {
    code: typeof code === "string" ? code : `http.${status}`,
    status,
    requestId: typeof request_id === "string" ? request_id : (response.headers.get("x-request-id") ?? undefined),
    retryable: typeof retryable === "boolean" ? retryable : passing(status),
    retryAfter: retryAfterOf(response.headers.get("retry-after")),
    details,
  });
}

/** Whether the status says that the condition passes by itself. */
export function passing(status: number): boolean {
  return status === 429 || status === 502 || status === 503 || status === 504;
}

async function errorBody(response: Response): Promise<Record<string, unknown>> {
  try {
    const body: unknown = JSON.parse(await response.text());
    return typeof body === "object" && body !== null ? { ...body } : {};
  } catch {
    return {};
  }
}

/** Seconds of a Retry-After header, which holds seconds or a date. */
export function retryAfterOf(value: string | null): number | undefined {
  if (value === null) {
    return undefined;
  }
  if (/^\d+$/.test(value.trim())) {
    return Number(value);
  }
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - Date.now()) / 1000));
}
