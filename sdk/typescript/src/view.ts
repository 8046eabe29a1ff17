import type { Condition, Filter, QueryDocument } from "./document.js";

type Values = Record<string, unknown>;

/** The rows of an answer, and what the stream adds to them. */
export interface View {
  rows(): readonly Values[];
  /** Takes a row of the stream; false when what the answer would be now cannot be told from it. */
  take(row: Values): boolean;
}

/**
 * A view that is kept up as far as that is exact. Where it is not, the first
 * row that could matter says so, and the query has to be asked again.
 */
export function viewOf(document: QueryDocument, answer: Values[], keys: readonly string[] | undefined, overlaps: boolean): View {
  const grouped = document.aggregations !== undefined || document.group_by !== undefined || document.time_bucket !== undefined;
  // What only some rows of a group count for is for the server to say, as is what of it all is left out.
  const parts = document.aggregations?.some(({ where, by, numerator }) => where || by || numerator);
  if (parts || document.having || document.distinct || document.totals) {
    return { rows: () => answer, take: () => false };
  }
  // What days and months are in a zone is for the server to say.
  const { time_range: range, time_bucket: bucket, compare: compared } = document;
  if (overlaps || document.offset || compared || range?.until !== undefined || bucket?.time_zone !== undefined || bucket?.fill) {
    return { rows: () => answer, take: () => false };
  }
  return grouped ? new GroupedView(document, answer) : new RowsView(document, answer, keys);
}

/** Whether the answer may lack rows that the table has. */
function cut({ limit }: QueryDocument, rows: number): boolean {
  return rows >= (limit ?? 10_000);
}

class RowsView implements View {
  readonly #document: QueryDocument;
  readonly #keys: readonly string[] | undefined;
  #rows: Values[];

  constructor(document: QueryDocument, rows: Values[], keys: readonly string[] | undefined) {
    this.#document = document;
    this.#rows = rows;
    this.#keys = keys;
  }

  rows(): readonly Values[] {
    return this.#rows;
  }

  take(row: Values): boolean {
    const { columns, order_by: order = [], limit } = this.#document;
    const fits = matches(this.#document, row);
    if (fits !== true) {
      return fits === false;
    }
    // A column that was not sent is what ClickHouse computes for it.
    const shown = columns === undefined ? row : pick(row, columns);
    const all = this.#rows[0];
    if (shown === undefined || (columns === undefined && (all === undefined || Object.keys(all).some((c) => !(c in row))))) {
      return false;
    }
    const rest = this.#rows.filter((other) => !this.#same(other, shown));
    let at = rest.length;
    for (const { column } of order) {
      if (!(column in shown) || rest.some((other) => !(column in other) || compare(other[column], shown[column]) === undefined)) {
        return false; // an order that cannot be told from what is shown
      }
    }
    while (order.length > 0 && at > 0 && before(order, shown, rest[at - 1] as Values)) {
      at--;
    }
    const full = cut(this.#document, this.#rows.length);
    if (full && order.length === 0) {
      return true; // any rows are an answer, and there are enough
    }
    rest.splice(at, 0, shown);
    this.#rows = rest.slice(0, limit ?? 10_000);
    return true;
  }

  #same(a: Values, b: Values): boolean {
    return this.#keys !== undefined && this.#keys.every((key) => key in a && key in b && a[key] === b[key]);
  }
}

/** Groups whose aggregates can be kept up: counts, whole sums, minima and maxima. */
class GroupedView implements View {
  readonly #document: QueryDocument;
  readonly #outputs: string[];
  #rows: Values[];

  constructor(document: QueryDocument, rows: Values[]) {
    this.#document = document;
    this.#rows = rows;
    this.#outputs = [...(document.columns ?? [])];
    if (document.time_bucket !== undefined) {
      this.#outputs.push(document.time_bucket.alias ?? "time_bucket");
    }
  }

  rows(): readonly Values[] {
    return this.#rows;
  }

  take(row: Values): boolean {
    const { aggregations = [], group_by = [], order_by = [], time_bucket: bucket } = this.#document;
    const fits = matches(this.#document, row);
    if (fits !== true) {
      return fits === false;
    }
    // Each group shows what it is a group of, and nothing else is shown of it.
    const grouped = new Set([...group_by, ...(bucket ? [bucket.alias ?? "time_bucket"] : [])]);
    if (grouped.size !== this.#outputs.length || !this.#outputs.every((name) => grouped.has(name))) {
      return false;
    }
    const group = pick(row, this.#document.columns ?? []);
    if (group === undefined || Object.values(group).some((v) => typeof v === "object" && v !== null)) {
      return false;
    }
    if (bucket !== undefined) {
      const name = bucket.alias ?? "time_bucket";
      const start = startOf(row[bucket.column], bucket.every);
      // How the server writes the column's times is seen in its answer.
      if (start === undefined || String(this.#rows[0]?.[name]).length !== start.length) {
        return false;
      }
      group[name] = start;
    }
    const at = this.#rows.findIndex((other) => this.#outputs.every((name) => other[name] === group[name]));
    // A group that is not shown may be one that the limit cut off.
    if (at < 0 && cut(this.#document, this.#rows.length)) {
      return false;
    }
    const old = at < 0 ? undefined : this.#rows[at];
    const next: Values = old === undefined ? group : { ...old };
    for (const { fn, column, alias, params } of aggregations) {
      const name = alias ?? (column === undefined || column === "*" ? fn : `${fn}_${column}`);
      const value = column === undefined || column === "*" ? 1 : row[column];
      if (value === undefined || params !== undefined) {
        return false;
      }
      const sum = fold(fn, old === undefined ? undefined : old[name], value);
      if (sum === undefined) {
        return false;
      }
      next[name] = sum;
    }
    const rest = this.#rows.filter((_, i) => i !== at);
    let place = at < 0 ? rest.length : at;
    if (order_by.length > 0) {
      if ([...rest, next].some((r) => order_by.some(({ column }) => !(column in r) || compare(r[column], next[column]) === undefined))) {
        return false;
      }
      // With a limit, a group that sinks may let one in that is not shown.
      place = rest.findIndex((other) => before(order_by, next, other));
      place = place < 0 ? rest.length : place;
      if (old !== undefined && place > at && cut(this.#document, this.#rows.length)) {
        return false;
      }
    }
    rest.splice(place, 0, next);
    this.#rows = rest;
    return true;
  }
}

/** An aggregate with one more value; undefined when that cannot be told. */
function fold(fn: string, old: unknown, value: unknown): unknown {
  if (value === null) {
    return fn === "count" || fn === "sum" ? (old ?? (fn === "count" ? 0 : undefined)) : old;
  }
  switch (fn) {
    case "count":
      return add(old ?? 0, 1);
    case "sum":
      return whole(value) ? add(old ?? 0, value) : undefined;
    case "min":
    case "max": {
      if (old === undefined || (typeof value !== "number" && typeof value !== "bigint")) {
        return typeof value === "number" || typeof value === "bigint" ? value : undefined;
      }
      const order = compare(value, old);
      return order === undefined ? undefined : (fn === "min") === order < 0 ? value : old;
    }
    default:
      return undefined;
  }
}

function whole(value: unknown): value is number | bigint {
  return typeof value === "bigint" || Number.isSafeInteger(value);
}

/** An exact sum of whole numbers, as a number where JavaScript can print it, as answers are read. */
function add(a: unknown, b: number | bigint): number | bigint | undefined {
  if (!whole(a)) {
    return undefined;
  }
  const sum = BigInt(a) + BigInt(b);
  return String(Number(sum)) === String(sum) ? Number(sum) : sum;
}

function pick(row: Values, columns: readonly string[]): Values | undefined {
  return columns.every((c) => c in row) ? Object.fromEntries(columns.map((c) => [c, row[c]])) : undefined;
}

/** Whether a row meets the document's conditions; undefined when that cannot be told. */
function matches({ filters = [], time_range: range }: QueryDocument, row: Values): boolean | undefined {
  let sure: boolean | undefined = true;
  for (const filter of filters) {
    const met = meets(filter, row);
    if (met === false) {
      return false;
    }
    sure &&= met;
  }
  if (range?.since !== undefined) {
    const at = instant(row[range.column]);
    const since = instant(range.since);
    if (at === undefined || since === undefined) {
      return undefined;
    }
    if (at < since) {
      return false;
    }
  }
  return sure;
}

function meets(filter: Filter, row: Values): boolean | undefined {
  if (!("column" in filter)) {
    return meetsGroup(filter, row);
  }
  const { column, op, value } = filter;
  if (!(column in row)) {
    return undefined;
  }
  const own = row[column];
  if (op === "is_null" || op === "is_not_null") {
    return (own === null) === (op === "is_null");
  }
  if (own === null) {
    return false; // NULL meets no comparison
  }
  if (op === "in" || op === "not_in") {
    const found = (value as unknown[]).map((one) => equal(own, one));
    const is = found.includes(true) ? true : found.includes(undefined) ? undefined : false;
    return is === undefined ? undefined : is === (op === "in");
  }
  if (op === "eq" || op === "neq") {
    const is = equal(own, value);
    return is === undefined ? undefined : is === (op === "eq");
  }
  const order = typeof own === "string" ? undefined : compare(own, value);
  switch (order === undefined ? "" : op) {
    case "gt":
      return (order as number) > 0;
    case "gte":
      return (order as number) >= 0;
    case "lt":
      return (order as number) < 0;
    case "lte":
      return (order as number) <= 0;
    default:
      return undefined;
  }
}

/** What does not hold may be false or null, of which only one makes a `not` hold. */
function meetsGroup(group: Exclude<Filter, Condition>, row: Values): boolean | undefined {
  if ("not" in group) {
    return meets(group.not, row) === true ? false : undefined;
  }
  const [filters, decides] = "or" in group ? [group.or, true] : [group.and, false];
  const met = filters.map((filter) => meets(filter, row));
  return met.includes(decides) ? decides : met.includes(undefined) ? undefined : !decides;
}

/** Text that is written in one way only: no number, time, address or id. */
const plain = /^[^\d\0]*$/;

function equal(own: unknown, value: unknown): boolean | undefined {
  if (own === value) {
    return true;
  }
  if (typeof own === "string" && typeof value === "string") {
    return plain.test(own) && plain.test(value) ? false : undefined;
  }
  const order = compare(own, value);
  return order === undefined ? undefined : order === 0;
}

/** How two values are ordered; undefined when that is not certain. null is last. */
function compare(a: unknown, b: unknown): number | undefined {
  if (a === null || b === null) {
    return a === b ? 0 : a === null ? 1 : -1;
  }
  const numbers = (typeof a === "number" || typeof a === "bigint") && (typeof b === "number" || typeof b === "bigint");
  if (numbers || (typeof a === "boolean" && typeof b === "boolean")) {
    return a < b ? -1 : a > b ? 1 : 0;
  }
  if (typeof a !== "string" || typeof b !== "string") {
    return undefined;
  }
  // ClickHouse orders bytes; UTF-16 orders alike below the surrogates.
  return /[\ud800-\uffff]/.test(a + b) ? undefined : a < b ? -1 : a > b ? 1 : 0;
}

function before(order: readonly { column: string; dir?: "asc" | "desc" }[], a: Values, b: Values): boolean {
  for (const { column, dir } of order) {
    const x = a[column];
    const y = b[column];
    const o = compare(x, y) ?? 0;
    if (o !== 0) {
      // null is last in either direction
      return (dir === "desc" && x !== null && y !== null ? -o : o) < 0;
    }
  }
  return false;
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?\d*(Z|[+-]\d\d:\d\d)$/;

function instant(text: unknown): number | undefined {
  return typeof text === "string" && rfc3339.test(text) ? Date.parse(text) : undefined;
}

const units: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };
/** 1970-01-05, the first Monday. */
const monday = 4 * 86_400;

/** The start of the interval that the time lies in, as the server prints it. */
function startOf(time: unknown, every: string): string | undefined {
  const at = instant(time);
  const [, n, unit] = /^(\d+)([smhdw])$/.exec(every) ?? [];
  if (at === undefined || unit === undefined) {
    return undefined;
  }
  const length = Number(n) * (units[unit] as number);
  const offset = length % 604_800 === 0 ? monday : 0;
  const start = Math.floor((Math.floor(at / 1000) - offset) / length) * length + offset;
  return new Date(start * 1000).toISOString().replace(".000Z", "Z");
}
