import type { QueryDocument } from "./document.js";
import { nameOf } from "./doubleaggregates.js";
import { type Answer, evaluate } from "./double.js";
import { print, Refused, unsupported } from "./doublevalues.js";
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
 * Tables take any column and keep rows as they were sent; queries, pages, streams,
 * snapshots and idempotency keys work as on a server, without policies, types and
 * pipes of its own (`pipe` gives it some). What it cannot do as a server would, it
 * refuses with the code `double.unsupported`.
 */
export class FakeWaveHouse {
  readonly asked: Asked[] = [];
  readonly #tables = new Map<string, { id: number; at: string; row: Values }[]>();
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
      const kept = { id: ++this.#last, at: new Date().toISOString(), row };
      const rows = this.#tables.get(table);
      rows === undefined ? this.#tables.set(table, [kept]) : rows.push(kept);
      this.#streams.forEach((s) => s.table === table && s.send(frame(table, kept)));
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
    let answer: Response;
    try {
      answer = this.#answer(url.pathname, params, headers, body, init.signal ?? undefined);
    } catch (cause) {
      const { status, code, message } = cause instanceof Refused ? cause : unsupported(String(cause));
      return json({ error: message, code, retryable: false, request_id: "test" }, status);
    }
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
        return this.#stream(table, headers["last-event-id"], params["since"], signal);
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
    const lines = accept.includes("ndjson");
    if (!lines && !accept.includes("json")) {
      throw unsupported(`answers of the type ${accept}`);
    }
    if (lines && document.totals) {
      throw new Refused("totals: only JSON has a place for them");
    }
    const { rows, totals, truncated, cursor } = this.#page(table, document);
    const headers = {
      ...(position && { "X-Stream-Position": String(this.#last), "X-Stream-Join": "exact" }),
      ...(truncated !== undefined && { "X-Result-Truncated": truncated }),
      ...(cursor !== undefined && { "X-Next-Cursor": cursor }),
    };
    if (lines) {
      return new Response(rows.map((row) => `${print(row)}\n`).join(""), { headers: { "Content-Type": accept, ...headers } });
    }
    return json(totals ? { rows, totals } : rows, 200, headers);
  }

  /** An answer, and where the page behind it begins; pages show the rows that were there at the first. */
  #page(table: string, document: QueryDocument): Answer & { cursor?: string } {
    const { cursor, offset, order_by = [], limit, ...question } = document;
    const mine = `${table} ${print({ ...question, order_by })}`;
    const [, last = this.#last, from = offset ?? 0, of = mine] = cursor ? (parseExact(cursor) as [string, number, number, string]) : [];
    const changing = order_by.some(({ column }) => question.aggregations?.some((a) => (a.alias ?? nameOf(a)) === column));
    const paged = order_by.length > 0 && !offset && !changing;
    if (cursor !== undefined && !paged) {
      throw new Refused("cursor: a cursor continues an order by columns: name some in order_by, and no offset");
    }
    if (of !== mine) {
      throw new Refused("the cursor belongs to another query", "query.cursor_invalid");
    }
    const there = (this.#tables.get(table) ?? []).filter(({ id }) => id <= last).map(({ row }) => row);
    const answer = evaluate({ ...question, order_by, offset: from, ...(limit !== undefined && { limit }) }, there);
    const more = answer.truncated !== undefined && paged && (limit !== undefined || cursor !== undefined);
    return more ? { ...answer, cursor: print(["page", last, from + answer.rows.length, mine]) } : answer;
  }

  #stream(table: string, from: string | undefined, since: string | undefined, signal: AbortSignal | undefined): Response {
    const encoder = new TextEncoder();
    const streams = this.#streams;
    const all = this.#tables.get(table) ?? [];
    const earlier = since === undefined ? this.#last : (all.find(({ at }) => Date.parse(at) >= Date.parse(since))?.id ?? this.#last + 1) - 1;
    const start = from === undefined || from === "" ? earlier : Number(from);
    const missed = all.filter(({ id }) => id > start);
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
        missed.forEach((kept) => mine.send(frame(table, kept)));
      },
      cancel: () => void streams.delete(mine),
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  }
}

function frame(table: string, { id, at, row }: { id: number; at: string; row: Values }): string {
  return `id: ${id}\ndata: ${print({ table, received_at: at, row })}\n\n`;
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
