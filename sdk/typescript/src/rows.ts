/** Bounds of one request. A single row over the bytes travels alone. */
export const maxRows = 10_000;
export const maxBytes = 4 * 1024 * 1024;

/** The rows of one request. */
export interface Batch {
  /** NDJSON, one row a line. */
  body: Uint8Array<ArrayBuffer>;
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
export function encode(row: unknown): Uint8Array | string {
  if (typeof row !== "object" || row === null || Array.isArray(row)) {
    return "a row is an object";
  }
  try {
    return new TextEncoder().encode(`${stringify(row)}\n`);
  } catch (cause) {
    return cause instanceof Error ? cause.message : String(cause);
  }
}

/**
 * JSON in which each value means what it means in JavaScript. A bigint, NaN and
 * the infinities travel as text, from which the server reads them; what JSON
 * would turn into something else (`{}` for a Map, `null` for a hole) throws an
 * error that names its place.
 */
export function stringify(value: unknown): string {
  // Places by the object that holds them, so that the error can say where.
  const places = new Map<unknown, string>();
  return JSON.stringify(value, function (this: unknown, key: string, given: unknown): unknown {
    const raw = (this as Record<string, unknown>)[key];
    const parent = places.get(this) ?? "";
    const place = Array.isArray(this) ? `${parent}[${key}]` : parent && key ? `${parent}.${key}` : key;
    if (typeof given === "bigint" || (typeof given === "number" && !Number.isFinite(given))) {
      return given.toString();
    }
    const fault = unfit(raw, given, Array.isArray(this));
    if (fault !== undefined) {
      throw new TypeError(`${place || "the row"} ${fault}`);
    }
    if (typeof given === "object" && given !== null) {
      places.set(given, place);
    }
    return given;
  });
}

/** Why JSON cannot hold the value; undefined when it can. */
function unfit(raw: unknown, given: unknown, inArray: boolean): string | undefined {
  switch (typeof given) {
    case "undefined":
      return inArray ? "is undefined, which an array cannot leave out" : undefined;
    case "function":
    case "symbol":
      return `is a ${typeof given}, which JSON has no form for`;
    case "object":
      break;
    default:
      return undefined;
  }
  if (given === null) {
    return raw instanceof Date ? "is an invalid Date" : undefined;
  }
  if (Array.isArray(given)) {
    return undefined;
  }
  const kind = Object.prototype.toString.call(given).slice(8, -1);
  // A class of the caller's own is read by its fields, like a plain object.
  if (kind === "Object" || kind === "Arguments") {
    return undefined;
  }
  if (kind === "String" || kind === "Number" || kind === "Boolean") {
    return undefined; // boxed values are written as what they hold
  }
  const hint = kind === "Map" ? "; use Object.fromEntries" : kind === "Set" || ArrayBuffer.isView(given) ? "; use Array.from" : "";
  return `is a ${kind}, which JSON has no form for${hint}`;
}
