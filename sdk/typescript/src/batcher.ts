import type { Batches } from "./batches.js";
import type { WaveHouseError } from "./errors.js";
import type { Transport } from "./transport.js";

/** Why rows will not be sent any more. */
export type DropReason =
  /** The row has no JSON form. */
  | "invalid"
  /** The server refused the row, or the request that held it. */
  | "refused"
  /** So much waits already that there is no room. */
  | "queue_full"
  /** It waited so long that a repetition could store it twice, or nobody wants it any more. */
  | "expired";

export interface Drop<R> {
  rows: R[];
  reason: DropReason;
  /** What the server, or the encoder, said. */
  error?: WaveHouseError;
}

export interface BatcherOptions<R> {
  /** A batch leaves with so many rows. Default 500, at most 10,000. */
  maxRows?: number | undefined;
  /** A batch leaves before it exceeds so many bytes. Default 60,000, which a page that closes may still send. */
  maxBytes?: number | undefined;
  /** A row waits for others for so long. Default 2,000. */
  maxAgeMs?: number | undefined;
  /** The bytes that may wait while the server cannot be reached. Default 4 MiB. */
  maxQueueBytes?: number | undefined;
  /**
   * Keeps batches in the browser's IndexedDB until they are stored, so that
   * they outlive the page. Ignored where there is none. Default false.
   */
  offline?: boolean | undefined;
  /** Told of rows that will not be sent. */
  onDrop?: ((drop: Drop<R>) => void) | undefined;
  /** Told of each failure after which the batch is tried again. */
  onError?: ((error: WaveHouseError) => void) | undefined;
}

/** What was left when a batcher was closed. */
export interface Leftover<R> {
  /** Rows that were not stored as far as is known, and will not be sent by this batcher. */
  unsent: R[];
  /** Of these, how many the offline queue keeps for the next page. */
  kept: number;
}

/**
 * Collects rows of a table and sends them in batches, so that one whose answer
 * was lost is repeated and stored once. It flushes when the page is hidden.
 */
export class Batcher<R extends object> {
  readonly #loading: Promise<Batches<R>>;
  #batches: Batches<R> | undefined;
  #early: R[] = [];

  /** @internal */
  constructor(transport: Transport, table: string, options: BatcherOptions<R>) {
    this.#loading = import("./batches.js").then(({ Batches }) => {
      this.#batches = new Batches(transport, table, options);
      this.#batches.add(this.#early);
      this.#early = [];
      return this.#batches;
    });
    // Told where it is awaited: by flush and close.
    this.#loading.catch(() => undefined);
  }

  /** How many rows wait: those of this page, and those an earlier one left. */
  get size(): number {
    return this.#batches?.size ?? this.#early.length;
  }

  /** Takes one row or many. Those that cannot be are told to `onDrop`. */
  add(rows: R | readonly R[]): void {
    if (this.#batches) {
      this.#batches.add(rows);
    } else {
      this.#early = this.#early.concat(rows);
    }
  }

  /** Sends what waits, and resolves when nothing does. */
  async flush(): Promise<void> {
    await (await this.#loading).flush();
  }

  /**
   * Takes no more rows, tries for `timeoutMs` (5,000) to send what waits, and
   * says what was not sent.
   */
  async close({ timeoutMs = 5000 } = {}): Promise<Leftover<R>> {
    return (await this.#loading).close(timeoutMs);
  }
}
