import { passing, type WaveHouseError } from "./errors.js";
import type { Clock } from "./options.js";

/**
 * How a call may be repeated: `"safe"` when doing it twice is doing it once,
 * `"unstored"` when it may be repeated only after an answer that says nothing
 * of it was stored.
 */
export type Repeat = "safe" | "unstored";

/** The longest Retry-After that is waited for; a longer one fails the call. */
const longestRetryAfterMs = 60_000;
const firstBackoffMs = 250;
const longestBackoffMs = 20_000;

/** Whether the failed attempt may be made again. */
export function mayRepeat(error: WaveHouseError, repeat: Repeat): boolean {
  if (!error.retryable || (error.retryAfter ?? 0) * 1000 > longestRetryAfterMs) {
    return false;
  }
  if (error.status === 0) {
    // A timeout is not repeated: the server may still be busy with the first.
    return error.code === "client.network" && repeat === "safe";
  }
  return passing(error.status) && (repeat === "safe" || nothingStored(error));
}

/**
 * Whether the answer is WaveHouse's own and says that no row of the request
 * was kept. A proxy's answer says nothing about what happened behind it.
 */
function nothingStored(error: WaveHouseError): boolean {
  if (error.status !== 429 && error.status !== 503) {
    return false;
  }
  const ours = !error.code.startsWith("http.") && error.code !== "queue.outcome_unknown";
  const kept = error.details["succeeded"];
  return ours && (kept === undefined || kept === 0);
}

/**
 * Milliseconds to wait before attempt number `attempt` (1 is the first
 * repeat): full jitter over a doubling backoff, on top of what the server
 * asked for, so that clients that were refused together come back apart.
 */
export function backoff(clock: Clock, attempt: number, retryAfter: number | undefined): number {
  const ceiling = Math.min(longestBackoffMs, firstBackoffMs * 2 ** (attempt - 1));
  return (retryAfter ?? 0) * 1000 + clock.random() * ceiling;
}
