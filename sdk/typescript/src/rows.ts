/** Bounds of one request. A single row over the bytes travels alone. */
export const maxRows = 10_000;
export const maxBytes = 4 * 1024 * 1024;

/** The rows of one request. */
export interface Batch {
  /** NDJSON, one row a line. */
  body: BodyInit;
  /** For each line the row's index in the caller's array. */
  indexes: number[];
  /** Rows that have no JSON form, and why. */
  unreadable: { index: number; message: string }[];
  /** The index after the last row that was looked at. */
  end: number;
}

/** Cuts rows into batches, encoding each only when its turn comes. */
export function* batches(rows: readonly object[]): Generator<Batch, void, undefined> {
  let batch = new Builder();
  for (let index = 0; index < rows.length; index++) {
    const line = encode(rows[index]);
    if (typeof line === "string") {
      batch.unreadable.push({ index, message: line });
      continue;
    }
    if (!batch.fits(line)) {
      yield batch.build(index);
      batch = new Builder();
    }
    batch.add(index, line);
  }
  yield batch.build(rows.length);
}

class Builder {
  readonly indexes: number[] = [];
  readonly unreadable: Batch["unreadable"] = [];
  readonly #lines: Uint8Array[] = [];
  #bytes = 0;

  fits(line: Uint8Array): boolean {
    const count = this.#lines.length;
    return count === 0 || (count < maxRows && this.#bytes + line.length <= maxBytes);
  }

  add(index: number, line: Uint8Array): void {
    this.indexes.push(index);
    this.#lines.push(line);
    this.#bytes += line.length;
  }

  build(end: number): Batch {
    const body = new Uint8Array(this.#bytes);
    let at = 0;
    for (const line of this.#lines) {
      body.set(line, at);
      at += line.length;
    }
    return { body, indexes: this.indexes, unreadable: this.unreadable, end };
  }
}

/** The row as a line of NDJSON, or a sentence that says why it has none. */
function encode(row: unknown): Uint8Array | string {
  if (typeof row !== "object" || row === null || Array.isArray(row)) {
    return "a row is an object";
  }
  try {
    return new TextEncoder().encode(`${JSON.stringify(row, exact)}\n`);
  } catch (cause) {
    return cause instanceof Error ? cause.message : String(cause);
  }
}

/**
 * Keeps values that JSON.stringify would refuse or turn into null: the server
 * reads digits, NaN and Infinity from strings.
 */
function exact(_key: string, value: unknown): unknown {
  if (typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value))) {
    return value.toString();
  }
  return value;
}
