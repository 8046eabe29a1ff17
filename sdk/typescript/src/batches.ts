import type { BatcherOptions, DropReason, Leftover } from "./batcher.js";
import { WaveHouseError } from "./errors.js";
import { type InsertResult, newResult, sendBatch } from "./insert.js";
import type { Outbox, Parcel } from "./outbox.js";
import { encode } from "./rows.js";
import type { Transport } from "./transport.js";

/** After so long the server has forgotten a key: what may have been stored is not sent again. */
const keyLifeMs = 23 * 3_600_000;
/** Nothing waits longer for the server. */
const longestWaitMs = 7 * 24 * 3_600_000;
const firstBackoffMs = 1000;
const longestBackoffMs = 60_000;
/** The bytes that a browser sends for a page that is gone. */
const keepaliveBytes = 60_000;

/**
 * What a Batcher does once it is loaded. Batches leave one after another, each
 * under an idempotency key of its own.
 */
export class Batches<R extends object> {
  readonly #transport: Transport;
  readonly #table: string;
  readonly #options: BatcherOptions<R>;
  #open: { rows: R[]; lines: Uint8Array[]; bytes: number } = { rows: [], lines: [], bytes: 0 };
  #waiting: (Parcel & { rows?: R[] })[] = [];
  #bytes = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending: Promise<void> | undefined;
  #wake: (() => void) | undefined;
  #outbox: Promise<Outbox | undefined>;
  #closed = false;
  readonly #stop = new AbortController();
  readonly #hidden = () => {
    if (globalThis.document?.visibilityState !== "visible") {
      this.#leave();
    }
  };
  readonly #leaving = () => this.#leave();

  constructor(transport: Transport, table: string, options: BatcherOptions<R>) {
    this.#transport = transport;
    this.#table = table;
    this.#options = options;
    this.#outbox = options.offline && globalThis.indexedDB ? this.#load() : Promise.resolve(undefined);
    globalThis.addEventListener?.("pagehide", this.#leaving);
    globalThis.document?.addEventListener("visibilitychange", this.#hidden);
  }

  get size(): number {
    return this.#waiting.reduce((sum, { count }) => sum + count, this.#open.rows.length);
  }

  add(rows: R | readonly R[]): void {
    const { maxRows = 500, maxBytes = keepaliveBytes, maxAgeMs = 2000, maxQueueBytes = 4 << 20 } = this.#options;
    for (const row of Array.isArray(rows) ? (rows as R[]) : [rows as R]) {
      const line = encode(row);
      if (typeof line === "string") {
        this.#drop([row], "invalid", new WaveHouseError(line, { code: "client.invalid_row" }));
      } else if (this.#closed || this.#bytes + line.length > maxQueueBytes) {
        this.#drop([row], "queue_full");
      } else {
        if (this.#open.bytes + line.length > maxBytes && this.#open.rows.length > 0) {
          this.#seal();
        }
        this.#open.rows.push(row);
        this.#open.lines.push(line);
        this.#open.bytes += line.length;
        this.#bytes += line.length;
        if (this.#open.rows.length >= Math.min(maxRows, 10_000)) {
          this.#seal();
        }
      }
    }
    if (this.#open.rows.length > 0) {
      this.#timer ??= setTimeout(() => this.#seal(), maxAgeMs);
    }
  }

  async flush(): Promise<void> {
    await this.#outbox;
    this.#seal();
    this.#wake?.();
    await this.#sending;
  }

  async close(timeoutMs: number): Promise<Leftover<R>> {
    this.#closed = true;
    globalThis.removeEventListener?.("pagehide", this.#leaving);
    globalThis.document?.removeEventListener("visibilitychange", this.#hidden);
    const outbox = await this.#outbox;
    const timer = setTimeout(() => this.#stop.abort(), timeoutMs);
    await this.flush();
    clearTimeout(timer);
    const unsent = this.#waiting.flatMap(rowsOf<R>);
    return { unsent, kept: outbox ? unsent.length : 0 };
  }

  /** Makes a batch of the rows that were collected. */
  #seal(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const { rows, lines, bytes } = this.#open;
    if (rows.length > 0) {
      this.#open = { rows: [], lines: [], bytes: 0 };
      const body = new Uint8Array(bytes);
      lines.reduce((at, line) => (body.set(line, at), at + line.length), 0);
      const parcel = { key: crypto.randomUUID(), body, count: rows.length, at: this.#now(), tried: false, rows };
      this.#waiting.push(parcel);
      void this.#outbox.then((outbox) => outbox?.put(parcel));
    }
    if (this.#waiting.length > 0) {
      this.#sending ??= this.#run().finally(() => (this.#sending = undefined));
    }
  }

  async #load(): Promise<Outbox | undefined> {
    const { settings } = this.#transport;
    try {
      const outbox = await (await import("./outbox.js")).open(`${settings.base} ${settings.tenant ?? ""} ${this.#table}`);
      for (const parcel of (await outbox.all()).reverse()) {
        this.#waiting.unshift(parcel);
        this.#bytes += parcel.body.length;
      }
      queueMicrotask(() => this.#seal());
      return outbox;
    } catch (cause) {
      // Private windows and full disks have no database: what is in memory goes on.
      this.#options.onError?.(new WaveHouseError(`the offline queue cannot be opened: ${String(cause)}`, { code: "client.offline_queue", cause }));
      return undefined;
    }
  }

  /** Sends batches in order until none waits, or the batcher is stopped. */
  async #run(): Promise<void> {
    const outbox = await this.#outbox;
    for (let failures = 0; !this.#stop.signal.aborted; ) {
      const parcel = this.#waiting[0];
      if (parcel === undefined) {
        return;
      }
      const error = await this.#send(parcel, outbox, false);
      if (error === undefined) {
        failures = 0;
        continue;
      }
      this.#options.onError?.(error);
      await this.#pause(Math.max((error.retryAfter ?? 0) * 1000, Math.min(longestBackoffMs, firstBackoffMs * 2 ** failures++)));
    }
  }

  /** Sends one batch; an error means that it waits for another try. */
  async #send(parcel: Parcel & { rows?: R[] }, outbox: Outbox | undefined, keepalive: boolean): Promise<WaveHouseError | undefined> {
    const age = this.#now() - parcel.at;
    if (age > (parcel.tried ? keyLifeMs : longestWaitMs)) {
      return this.#done(parcel, outbox, () => this.#drop(rowsOf(parcel), "expired"));
    }
    if (!parcel.tried) {
      parcel.tried = true;
      await outbox?.put(parcel);
    }
    const result: InsertResult = newResult();
    try {
      const indexes = Array.from({ length: parcel.count }, (_, i) => i);
      const batch = { body: parcel.body, indexes, unreadable: [], end: parcel.count };
      await sendBatch(this.#transport, this.#table, batch, parcel.key, { signal: this.#stop.signal, keepalive }, result);
    } catch (cause) {
      const error = cause instanceof WaveHouseError ? cause : new WaveHouseError(String(cause), { code: "client.internal", cause });
      if (passes(error)) {
        return error;
      }
      return this.#done(parcel, outbox, () => this.#drop(rowsOf(parcel), "refused", error));
    }
    return this.#done(parcel, outbox, () => {
      const rows = result.failures.length > 0 ? rowsOf<R>(parcel) : [];
      for (const { index, code, message, column } of result.failures) {
        const details = column === undefined ? {} : { column };
        this.#drop([rows[index] as R], "refused", new WaveHouseError(message, { code, details }));
      }
    });
  }

  #done(parcel: Parcel, outbox: Outbox | undefined, tell: () => void): undefined {
    const at = this.#waiting.indexOf(parcel);
    if (at >= 0) {
      // Not twice, when the page was leaving meanwhile.
      this.#waiting.splice(at, 1);
      this.#bytes -= parcel.body.length;
      void outbox?.delete(parcel.key);
      tell();
    }
  }

  /** Sends what a page that goes away may still send. */
  #leave(): void {
    this.#seal();
    let room = keepaliveBytes;
    void this.#outbox.then((outbox) => {
      for (const parcel of this.#waiting) {
        room -= parcel.body.length;
        if (room >= 0) {
          void this.#send(parcel, outbox, true);
        }
      }
    });
  }

  async #pause(ms: number): Promise<void> {
    const wake = new AbortController();
    this.#wake = () => wake.abort();
    const stop = () => wake.abort();
    this.#stop.signal.addEventListener("abort", stop);
    await this.#transport.settings.clock.sleep(ms, wake.signal).catch(() => undefined);
    this.#stop.signal.removeEventListener("abort", stop);
    this.#wake = undefined;
  }

  #drop(rows: R[], reason: DropReason, error?: WaveHouseError): void {
    this.#options.onDrop?.({ rows, reason, ...(error && { error }) });
  }

  #now(): number {
    return this.#transport.settings.clock.now();
  }
}

/** Whether the same batch may be taken later: a new token, a server that is back, a limit that ends. */
function passes({ code, retryable, status }: WaveHouseError): boolean {
  return retryable || status === 0 || status === 401 || status === 408 || status === 409 || status === 429 || status >= 500 || code === "client.token";
}

/** The rows of a batch; an earlier page's are read from its body. */
function rowsOf<R>(parcel: Parcel & { rows?: R[] }): R[] {
  return parcel.rows ?? new TextDecoder().decode(parcel.body).trimEnd().split("\n").map((line) => JSON.parse(line) as R);
}
