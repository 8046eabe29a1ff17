import type { Aggregation, Filter, QueryDocument } from "./document.js";
import { parseExact } from "./json.js";
import type { Fetch } from "./options.js";

type Values = Record<string, unknown>;

/** A refusal that the next request gets. */
export interface Refusal {
  status: number;
  code: string;
  message?: string;
  retryable?: boolean;
  retryAfter?: number;
}

/** A request that the double was asked. */
export interface Asked {
  method: string;
  path: string;
  params: Record<string, string>;
  headers: Record<string, string>;
  body: unknown;
}

/**
 * A server in memory for tests: `new WaveHouse({ url: "http://test", fetch: fake.fetch })`.
 * Tables take any column and keep rows as they were sent; queries, streams,
 * snapshots and idempotency keys work as on a server, without policies, types and
 * pipes of its own (`pipe` gives it some).
 */
export class FakeWaveHouse {
  readonly asked: Asked[] = [];
  readonly #tables = new Map<string, { id: number; row: Values }[]>();
  readonly #streams = new Set<{ table: string; send: (text: string) => void }>();
  readonly #keys = new Map<string, string>();
  readonly #pipes = new Map<string, (params: Values) => readonly object[]>();
  readonly #refusals: (Refusal | "lost")[] = [];
  #last = 0;

  /** The rows of a table, in the order in which they came. */
  rows<T = Values>(table: string): T[] {
    return (this.#tables.get(table) ?? []).map(({ row }) => ({ ...row }) as T);
  }

  /** Puts rows into a table, as another client would. Streams see them. */
  insert(table: string, rows: object | readonly object[]): void {
    for (const given of Array.isArray(rows) ? (rows as object[]) : [rows]) {
      const row = parseExact(print(given)) as Values;
      const id = ++this.#last;
      this.#tables.set(table, [...(this.#tables.get(table) ?? []), { id, row }]);
      this.#streams.forEach((s) => s.table === table && s.send(frame(table, id, row)));
    }
  }

  /** What a pipe answers. */
  pipe(name: string, answer: (params: Values) => readonly object[]): void {
    this.#pipes.set(name, answer);
  }

  /** The next request is refused, or with `"lost"` its answer is. Several wait their turn. */
  failNext(...refusals: (Refusal | "lost")[]): void {
    this.#refusals.push(...refusals);
  }

  /** Ends every stream, as a server that restarts does. */
  cutStreams(): void {
    this.#streams.forEach((s) => s.send(""));
  }

  /** For the client's option of that name. */
  readonly fetch: Fetch = async (address, init) => {
    if (init.signal?.aborted) {
      throw init.signal.reason;
    }
    const url = new URL(address);
    const headers = Object.fromEntries(new Headers(init.headers).entries());
    const text = await bodyOf(init);
    const params = Object.fromEntries(url.searchParams);
    const method = init.method ?? "GET";
    const lines = (headers["content-type"] ?? "").includes("ndjson");
    const body = text === "" ? undefined : lines ? text.trim().split("\n").map(parseExact) : parseExact(text);
    this.asked.push({ method, path: url.pathname, params, headers, body });
    const failure = this.#refusals.shift();
    if (failure !== undefined && failure !== "lost") {
      const { status, code, message = code, retryable = false, retryAfter } = failure;
      return json({ error: message, code, retryable, request_id: "test" }, status, retryAfter === undefined ? {} : { "Retry-After": String(retryAfter) });
    }
    const answer = this.#answer(url.pathname, params, headers, body, init.signal ?? undefined);
    if (failure === "lost") {
      throw new TypeError("fetch failed");
    }
    return answer;
  };

  #answer(path: string, params: Record<string, string>, headers: Record<string, string>, body: unknown, signal: AbortSignal | undefined): Response {
    const table = params["table"] ?? "";
    switch (path) {
      case "/v1/ingest":
        return this.#ingest(table, headers["idempotency-key"], body as Values[], params["wait"] !== undefined);
      case "/v1/query":
        return this.#query(table, body as QueryDocument, params["position"] === "1", headers["accept"] ?? "");
      case "/v1/stream":
        return this.#stream(table, headers["last-event-id"], signal);
    }
    const pipe = /^\/v1\/pipes\/(.+)$/.exec(path)?.[1];
    const run = pipe === undefined ? undefined : this.#pipes.get(decodeURIComponent(pipe));
    return run ? json(run(body as Values)) : json({ error: `no ${path}`, code: pipe === undefined ? "route.unknown" : "pipe.unknown", retryable: false }, 404);
  }

  #ingest(table: string, key: string | undefined, rows: Values[], wait: boolean): Response {
    const known = key !== undefined && this.#keys.has(key);
    if (key !== undefined && known && this.#keys.get(key) !== print(rows)) {
      return json({ error: "the key was used for another body", code: "idempotency.key_reused", retryable: false }, 422);
    }
    if (!known) {
      this.insert(table, rows);
      if (key !== undefined) {
        this.#keys.set(key, print(rows));
      }
    }
    const total = rows.length;
    const counts = { total, succeeded: known ? 0 : total, failed: 0, duplicates: known ? total : 0, results: [] };
    return json(wait ? { ...counts, dead_lettered: 0, inserted: true } : counts);
  }

  #query(table: string, document: QueryDocument, position: boolean, accept: string): Response {
    const { rows, totals } = evaluate(document, this.rows(table));
    const more = position ? { "X-Stream-Position": String(this.#last), "X-Stream-Join": "exact" } : {};
    if (accept.includes("ndjson")) {
      return new Response(rows.map((row) => `${print(row)}\n`).join(""), { headers: { "Content-Type": accept, ...more } });
    }
    return json(totals ? { rows, totals } : rows, 200, more);
  }

  #stream(table: string, from: string | undefined, signal: AbortSignal | undefined): Response {
    const encoder = new TextEncoder();
    const streams = this.#streams;
    const start = from === undefined || from === "" ? this.#last : Number(from);
    const missed = (this.#tables.get(table) ?? []).filter(({ id }) => id > start);
    let mine: { table: string; send: (text: string) => void };
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        const end = () => {
          if (streams.delete(mine)) {
            controller.close();
          }
        };
        mine = { table, send: (text) => (text === "" ? end() : controller.enqueue(encoder.encode(text))) };
        streams.add(mine);
        signal?.addEventListener("abort", end, { once: true });
        controller.enqueue(encoder.encode(`: connected\nretry: 1\n\nid: ${start}\n\n`));
        missed.forEach(({ id, row }) => mine.send(frame(table, id, row)));
      },
      cancel: () => void streams.delete(mine),
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  }
}

function frame(table: string, id: number, row: Values): string {
  return `id: ${id}\ndata: ${print({ table, received_at: new Date().toISOString(), row })}\n\n`;
}

async function bodyOf(init: RequestInit): Promise<string> {
  if (init.body === undefined || init.body === null) {
    return "";
  }
  const sent = new Response(init.body as BodyInit);
  const gzip = new Headers(init.headers).get("content-encoding") === "gzip";
  return gzip && sent.body ? new Response(sent.body.pipeThrough(new DecompressionStream("gzip"))).text() : sent.text();
}

function json(value: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(print(value), { status, headers: { "Content-Type": "application/json", ...headers } });
}

/** JSON in which a bigint is a number, as a server writes it. */
function print(value: unknown): string {
  const marks: string[] = [];
  const text = JSON.stringify(value, (_key, v: unknown) => (typeof v === "bigint" ? `\0${marks.push(v.toString()) - 1}\0` : v));
  return marks.length === 0 ? text : text.replace(/"\\u0000(\d+)\\u0000"/g, (_, n: string) => marks[Number(n)] as string);
}

/** The answer of a document over rows. */
function evaluate(document: QueryDocument, all: Values[]): { rows: Values[]; totals?: Values } {
  const { columns = [], aggregations, filters = [], having = [], group_by = [], order_by = [], time_bucket: bucket, time_range: range } = document;
  const since = bound(range?.since);
  const until = bound(range?.until);
  const rows = all.filter((row) => {
    const at = range === undefined ? NaN : Date.parse(String(row[range.column]));
    return filters.every((f) => meets(f, row)) && !(at < since) && !(at >= until);
  });
  const name = bucket?.alias ?? "time_bucket";
  const shown = rows.map((row) => {
    const picked: Values = document.select_all ? { ...row } : Object.fromEntries(columns.map((c) => [c, row[c] ?? null]));
    return bucket === undefined ? picked : { ...picked, [name]: startOf(String(row[bucket.column]), bucket.every) };
  });
  let answer = document.distinct ? uniques(shown) : shown;
  let totals: Values | undefined;
  if (aggregations !== undefined) {
    const groups = new Map<string, { first: Values; rows: Values[] }>();
    rows.forEach((row, i) => {
      const key = print([...group_by.map((c) => row[c] ?? shown[i]?.[c]), bucket && shown[i]?.[name]]);
      const group = groups.get(key) ?? { first: shown[i] as Values, rows: [] };
      group.rows.push(row);
      groups.set(key, group);
    });
    if (groups.size === 0 && group_by.length === 0 && bucket === undefined) {
      groups.set("", { first: {}, rows: [] });
    }
    const over = (first: Values, members: Values[]): Values => ({
      ...first,
      ...Object.fromEntries(aggregations.map((a) => [a.alias ?? nameOf(a), aggregate(a, members)])),
    });
    const kept = [...groups.values()]
      .map((group) => ({ ...group, shown: over(group.first, group.rows) }))
      .filter(({ rows: [one], shown: row }) => having.every((f) => meets(f, { ...one, ...row })));
    answer = kept.map((group) => group.shown);
    if (document.totals) {
      const names = [...columns, ...(bucket === undefined ? [] : [name])];
      totals = over(Object.fromEntries(names.map((n) => [n, null])), kept.flatMap((group) => group.rows));
    }
  }
  answer.sort((a, b) => {
    for (const { column, dir } of order_by) {
      const order = compare(a[column], b[column]);
      if (order !== 0) {
        return dir === "desc" ? -order : order;
      }
    }
    return 0;
  });
  const from = document.offset ?? 0;
  return { rows: answer.slice(from, from + (document.limit ?? 10_000)), ...(totals && { totals }) };
}

function uniques<T>(values: T[]): T[] {
  return [...new Map(values.map((v) => [print(v), v])).values()];
}

function nameOf({ fn, column }: Aggregation): string {
  return column === undefined || column === "*" ? fn : `${fn}_${column}`;
}

function aggregate({ fn, column, params, by = "", where = [], numerator, denominator, scale = 1 }: Aggregation, all: Values[]): unknown {
  if (fn === "ratio" && numerator && denominator) {
    const below = Number(aggregate(denominator, all));
    return below === 0 ? null : (Number(aggregate(numerator, all)) * scale) / below;
  }
  const rows = all.filter((row) => where.every((f) => meets(f, row)));
  const values = column === undefined || column === "*" ? rows.map(() => 1) : rows.map((row) => row[column]).filter((v) => v !== null && v !== undefined);
  const numbers = values.map(Number).sort((a, b) => a - b);
  const level = (q: number) => numbers[Math.min(numbers.length - 1, Math.floor(q * numbers.length))] ?? null;
  switch (fn) {
    case "count":
      return values.length;
    case "count_distinct":
    case "uniq":
      return new Set(values.map(print)).size;
    case "sum":
      return values.some((v) => typeof v === "bigint") ? values.reduce((sum: bigint, v) => sum + BigInt(v as number), 0n) : numbers.reduce((a, b) => a + b, 0);
    case "avg":
      return numbers.length === 0 ? null : numbers.reduce((a, b) => a + b, 0) / numbers.length;
    case "min":
    case "max":
      return values.length === 0 ? null : values.reduce((a, b) => ((fn === "min") === compare(b, a) < 0 ? b : a));
    case "any":
      return values[0] ?? null;
    case "any_last":
      return values.at(-1) ?? null;
    case "arg_max":
    case "arg_min": {
      const decided = rows.filter((row) => (row[column as string] ?? null) !== null && (row[by] ?? null) !== null);
      return decided.reduce((a, b) => ((fn === "arg_min") === compare(b[by], a[by]) < 0 ? b : a), decided[0] ?? {})[column as string] ?? null;
    }
    case "group_array":
      return values.slice(0, params?.[0] ?? 100);
    case "group_uniq_array":
      return uniques(values).slice(0, params?.[0] ?? 100);
    case "top_k": {
      const counts = new Map<string, number>();
      values.forEach((v) => counts.set(print(v), (counts.get(print(v)) ?? 0) + 1));
      return uniques(values).sort((a, b) => (counts.get(print(b)) ?? 0) - (counts.get(print(a)) ?? 0)).slice(0, params?.[0] ?? 10);
    }
    case "median":
      return level(0.5);
    case "quantile":
      return level(params?.[0] ?? 0.5);
    case "quantiles":
      return (params ?? []).map(level);
  }
  throw new Error(`the double knows no aggregation ${fn}`);
}

/** Whether a row meets a condition; null when that is neither true nor false. */
function meets(filter: Filter, row: Values): boolean | null {
  if ("not" in filter) {
    const met = meets(filter.not, row);
    return met === null ? null : !met;
  }
  if (!("column" in filter)) {
    const [filters, decides] = "or" in filter ? [filter.or, true] : [filter.and, false];
    const met = filters.map((part) => meets(part, row));
    return met.includes(decides) ? decides : met.includes(null) ? null : !decides;
  }
  const { column, op, value } = filter;
  const own = row[column] ?? null;
  if (op === "is_null" || op === "is_not_null") {
    return (own === null) === (op === "is_null");
  }
  if (own === null) {
    return null;
  }
  const order = () => compare(own, value);
  const like = (flags?: string) =>
    new RegExp(`^${String(value).replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/%/g, "[^]*").replace(/_/g, "[^]")}$`, flags).test(String(own));
  const among = () => (value as unknown[]).some((one) => compare(own, one) === 0);
  const between = () => compare(own, (value as unknown[])[0]) >= 0 && compare(own, (value as unknown[])[1]) <= 0;
  const has = (one: unknown) =>
    Array.isArray(own) ? own.some((item) => compare(item, one) === 0) : typeof own === "object" ? String(one) in own : String(own).includes(String(one));
  const ops: Record<string, () => boolean> = {
    eq: () => order() === 0, neq: () => order() !== 0, gt: () => order() > 0, gte: () => order() >= 0, lt: () => order() < 0, lte: () => order() <= 0,
    in: among, not_in: () => !among(), like: () => like(), not_like: () => !like(), ilike: () => like("iu"), not_ilike: () => !like("iu"),
    between, not_between: () => !between(), starts_with: () => String(own).startsWith(String(value)), ends_with: () => String(own).endsWith(String(value)),
    contains: () => has(value), not_contains: () => !has(value), contains_any: () => (value as unknown[]).some(has), contains_all: () => (value as unknown[]).every(has),
  };
  const judge = ops[op];
  if (judge === undefined) {
    throw new Error(`the double knows no operator ${op}`);
  }
  return judge();
}

/** Orders numbers by value and everything else as text, null last. */
function compare(a: unknown, b: unknown): number {
  if (a === null || b === null || a === undefined || b === undefined) {
    return Number(a === null || a === undefined) - Number(b === null || b === undefined);
  }
  const number = (v: unknown) => typeof v === "number" || typeof v === "bigint";
  const [x, y] = number(a) && number(b) ? [a as number, b as number] : [String(a), String(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

const units: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

function milliseconds(duration: string): number {
  const [, n, unit] = /^(\d+)([smhdw])$/.exec(duration) ?? [];
  return unit === undefined ? NaN : Number(n) * (units[unit] as number) * 1000;
}

function bound(text: string | number | undefined): number {
  if (typeof text === "number") {
    throw new Error("the double knows no time ranges of numbers");
  }
  const back = milliseconds(text ?? "");
  return text === undefined ? NaN : Number.isNaN(back) ? Date.parse(text) : Date.now() - back;
}

function startOf(time: string, every: string): string {
  const length = milliseconds(every);
  const monday = length % 604_800_000 === 0 ? 345_600_000 : 0;
  const start = Math.floor((Date.parse(time) - monday) / length) * length + monday;
  return new Date(start).toISOString().replace(".000Z", "Z");
}
