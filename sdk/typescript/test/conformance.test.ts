// What every client of the repository does: sdk/conformance/cases.json.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { WaveHouse, WaveHouseError, type InsertResult, type QueryDocument } from "@wavehouse/sdk";

import { FakeClock, reset, sse, Stub, type Answer } from "./stub.js";

interface Case {
  name: string;
  call: "query" | "rows" | "export" | "totals" | "pages" | "insert" | "stream" | "pipe";
  document?: QueryDocument;
  rows?: object[];
  key?: string;
  format?: "csv" | "tsv" | "ndjson" | "arrow" | "parquet";
  answers?: ("lost" | { status: number; headers?: Record<string, string>; body?: unknown; text?: string })[];
  stream?: string;
  expect: {
    requests?: number;
    rows?: string[];
    gaps?: number;
    succeeded?: number;
    failures?: { index: number; code: string; column: string }[];
    keys?: string[];
    cursors?: string[];
    truncated?: string[];
    accept?: string[];
    text?: string;
    resumed?: string[];
    waited?: number;
    error?: { code?: string; status?: number; retryable?: boolean; request_id?: string; retry_after?: number };
  };
}

const cases = JSON.parse(readFileSync(new URL("../../../conformance/cases.json", import.meta.url), "utf8")) as Case[];

function answerOf(given: NonNullable<Case["answers"]>[number]): Answer {
  if (given === "lost") {
    return reset;
  }
  return (response) => {
    response.writeHead(given.status, { "Content-Type": "application/json", ...given.headers });
    response.end(given.text ?? JSON.stringify(given.body));
  };
}

const gone: Answer = (response) => void response.writeHead(204).end();

/** What follows the id that the client resumes at. */
const rest = (whole: string): Answer => (response, request) => {
  const at = whole.indexOf(`id: ${String(request.headers["last-event-id"])}\n`);
  sse(at < 0 ? whole : whole.slice(whole.indexOf("\n\n", at) + 2))(response, request);
};

async function outcome(c: Case, stub: Stub, clock: FakeClock) {
  const client = new WaveHouse({ url: stub.url, clock });
  const seen: { rows?: string[]; text?: string; truncated: string[]; gaps?: number; result?: InsertResult; error?: WaveHouseError } = { truncated: [] };
  try {
    switch (c.call) {
      case "query":
        seen.rows = (await client.query<{ n: unknown }>("t", c.document ?? { columns: ["n"] })).map(({ n }) => String(n));
        break;
      case "export":
        seen.text = await client.export("t", { columns: ["n"] }, c.format ?? "csv").then(String);
        break;
      case "rows":
        seen.rows = [];
        for await (const { n } of client.from("t").select("n").stream()) {
          seen.rows.push(String(n));
        }
        break;
      case "totals": {
        const answer = await client.from("t").select("n").withTotals();
        seen.rows = [...answer.rows, answer.totals].map(({ n }) => String(n));
        break;
      }
      case "pages":
        seen.rows = [];
        for await (const page of client.from("t").select("n").orderBy("n").limit(2).pages()) {
          seen.rows.push(...page.rows.map(({ n }) => String(n)));
          seen.truncated.push(page.truncated ?? "");
        }
        break;
      case "pipe":
        seen.rows = (await client.pipe("p", {})).map((row) => String(row["n"]));
        break;
      case "insert":
        seen.result = await client.insert("t", c.rows ?? [], { idempotencyKey: c.key });
        break;
      case "stream":
        seen.rows = [];
        seen.gaps = 0;
        for await (const event of client.stream<{ n: unknown }>("t")) {
          if (event.type === "row") {
            seen.rows.push(String(event.row.n));
          }
          seen.gaps += event.type === "gap" ? 1 : 0;
        }
    }
  } catch (error) {
    assert.ok(error instanceof WaveHouseError, String(error));
    seen.error = error;
  }
  return seen;
}

async function check(c: Case, name: string, answers: Answer[]): Promise<void> {
  const stub = await Stub.start(...answers);
  try {
    const clock = new FakeClock();
    const seen = await outcome(c, stub, clock);
    const { requests, rows, gaps, succeeded, failures, keys, resumed, waited, error } = c.expect;
    if (error === undefined) {
      assert.equal(seen.error, undefined, name);
    } else {
      const { code, status, retryable, requestId: request_id, retryAfter: retry_after } = seen.error ?? {};
      const told: Record<string, unknown> = { code, status, retryable, request_id, retry_after };
      assert.deepEqual(Object.fromEntries(Object.keys(error).map((k) => [k, told[k]])), error, name);
    }
    assert.deepEqual(seen.rows, error ? seen.rows : rows, name);
    assert.equal(seen.text, error ? undefined : c.expect.text, name);
    if (c.expect.accept !== undefined) {
      assert.deepEqual(stub.received.map(({ headers }) => headers.accept), c.expect.accept, name);
    }
    assert.equal(requests ?? stub.received.length, stub.received.length, name);
    assert.equal(gaps ?? seen.gaps, seen.gaps, name);
    assert.equal(succeeded ?? seen.result?.succeeded, seen.result?.succeeded, name);
    if (failures) {
      assert.deepEqual(seen.result?.failures.map(({ index, code, column }) => ({ index, code, column })), failures, name);
    }
    if (c.document) {
      assert.deepEqual(JSON.parse(stub.received[0]?.body ?? ""), c.document, name);
    }
    const cursors = () => stub.received.map(({ body }) => (JSON.parse(body) as QueryDocument).cursor);
    assert.deepEqual(c.expect.cursors, c.expect.cursors && cursors(), name);
    assert.deepEqual(c.expect.truncated, c.expect.truncated && seen.truncated, name);
    const headers = (key: string) => stub.received.map((r) => r.headers[key] ?? "");
    assert.deepEqual(keys ?? headers("idempotency-key"), headers("idempotency-key"), name);
    assert.deepEqual(resumed ?? headers("last-event-id"), headers("last-event-id"), name);
    assert.ok((clock.slept[0] ?? 0) >= (waited ?? 0) * 1000, name);
  } finally {
    await stub[Symbol.asyncDispose]();
  }
}

assert.ok(cases.length > 20);
for (const c of cases) {
  test(c.name, async () => {
    const { stream } = c;
    if (stream === undefined) {
      await check(c, c.name, (c.answers ?? []).map(answerOf));
      return;
    }
    for (let cut = 0; cut < stream.length; cut++) {
      await check(c, `cut after ${cut} bytes`, [sse(stream.slice(0, cut)), rest(stream), gone]);
    }
  });
}
