import { describe, WaveHouseError } from "./errors.js";

/** One signal that aborts with the caller's, or when its time is up. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #parent: AbortSignal | undefined;
  readonly #forward = () => this.#controller.abort(this.#parent?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #expired = false;

  constructor(parent: AbortSignal | undefined) {
    this.#parent = parent;
    if (parent?.aborted) {
      this.#forward();
    } else {
      parent?.addEventListener("abort", this.#forward, { once: true });
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Starts the time, or starts it again. 0 means no limit. */
  restart(ms: number): void {
    clearTimeout(this.#timer);
    if (ms > 0) {
      this.#timer = setTimeout(() => {
        this.#expired = true;
        this.#controller.abort();
      }, ms);
    }
  }

  /** Stops the time and lets go of the caller's signal. */
  release(): void {
    clearTimeout(this.#timer);
    this.#parent?.removeEventListener("abort", this.#forward);
  }

  /** Releases, and ends whatever still listens to the signal. */
  cancel(): void {
    this.release();
    this.#controller.abort();
  }

  /** Says in the client's terms why something under this deadline failed. */
  explain(cause: unknown): WaveHouseError {
    if (cause instanceof WaveHouseError) {
      return cause;
    }
    if (this.#parent?.aborted) {
      return new WaveHouseError("the call was aborted", { code: "client.aborted", cause });
    }
    if (this.#expired) {
      return new WaveHouseError("the server did not answer in time", { code: "client.timeout", retryable: true, cause });
    }
    return new WaveHouseError(`no answer from the server: ${describe(cause)}`, { code: "client.network", retryable: true, cause });
  }
}
