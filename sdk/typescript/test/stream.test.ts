import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { WaveHouse, WaveHouseError, type StreamEvent, type StreamOptions, type WaveHouseOptions } from "@wavehouse/sdk";

import { failure, FakeClock, json, reset, sse, Stub, type Answer } from "./stub.js";

const hello = ": connected\nretry: 2000\n\n";
const row = (id: string, n: number) =>
  `id: ${id}\ndata: {"table":"t","received_at":"2026-03-24T12:00:00Z","row":{"n":${n}}}\n\n`;
const gone: Answer = (response) => response.writeHead(204).end();

/** A stub, a client and a clock; events are collected until the stream ends. */
async function watch(t: TestContext, answers: Answer[], options: StreamOptions = {}, client: Partial<WaveHouseOptions> = {}) {
  const stub = await Stub.start(...answers);
  t.after(() => stub[Symbol.asyncDispose]());
  const clock = new FakeClock();
  const stream = new WaveHouse({ url: stub.url, clock, ...client }).stream<{ n: number }>("t", options);
  const events: StreamEvent<{ n: number }>[] = [];
  let error: unknown;
  try {
    for await (const event of stream) {
      events.push(event);
    }
  } catch (e) {
    error = e;
  }
  return { stub, clock, events, error, ns: events.flatMap((e) => (e.type === "row" ? [e.row.n] : [])) };
}

test("rows, gaps and ends come as typed events; 204 stops", async (t) => {
  const text = hello + row("a.1", 1) +
    'event: gap\ndata: {"from":"f","to":"t","reason":"overflow"}\n\n' +
    'event: future\ndata: x\n\n' + 'event: end\ndata: {"reason":"shutdown"}\n\n';
  const { events, error, stub } = await watch(t, [sse(text), gone], { since: new Date("2026-03-24T11:00:00Z"), int64: "string" }, { token: "abc", tenant: "birch" });
  assert.equal(error, undefined);
  assert.deepEqual(events, [
    { type: "row", id: "a.1", table: "t", receivedAt: "2026-03-24T12:00:00Z", row: { n: 1 } },
    { type: "gap", from: "f", to: "t", reason: "overflow" },
    { type: "end", reason: "shutdown" },
  ]);
  const [first] = stub.received;
  assert.equal(first?.url.pathname, "/v1/stream");
  assert.equal(first?.url.searchParams.get("since"), "2026-03-24T11:00:00.000Z");
  assert.equal(first?.url.searchParams.get("int64"), "string");
  assert.equal(first?.url.searchParams.get("token"), null, "the token stays out of the URL");
  assert.equal(first?.headers.authorization, "Bearer abc");
  assert.equal(first?.headers["x-tenant-id"], "birch");
  assert.equal(first?.headers["last-event-id"], undefined);
});

test("a reconnect resumes after the last row that was handed out", async (t) => {
  // The third row is cut before its blank line: it was not handed out.
  const cut = hello + row("a.1", 1) + row("a.2", 2) + row("a.3", 3).trimEnd();
  const { stub, ns, clock } = await watch(t, [sse(cut), sse(hello + row("a.3", 3)), gone], { lastEventId: "a.0" });
  assert.deepEqual(ns, [1, 2, 3]);
  assert.deepEqual(stub.received.map((r) => r.headers["last-event-id"]), ["a.0", "a.2", "a.3"]);
  assert.deepEqual(clock.slept, [1000, 1000], "half of retry: 2000, and no jitter");
});

test("a connection that breaks is a reconnect", async (t) => {
  const broken: Answer = (response) => {
    sse(hello + row("a.1", 1), true)(response, {} as never);
    setTimeout(() => response.socket?.destroy(), 300);
  };
  const { stub, ns, error } = await watch(t, [reset, broken, sse(row("a.2", 2)), gone]);
  assert.equal(error, undefined);
  assert.deepEqual(ns, [1, 2]);
  assert.deepEqual(stub.received.map((r) => r.headers["last-event-id"]), [undefined, undefined, "a.1", "a.2"]);
});

test("a reconnect before the first row resumes at the id that opened the stream", async (t) => {
  const quiet: Answer = (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream", Date: "Tue, 24 Mar 2026 12:00:00 GMT" });
    response.end(hello + "id: o.0\n\n");
  };
  const { stub, ns } = await watch(t, [quiet, sse(hello + row("a.1", 1)), gone]);
  assert.deepEqual(ns, [1]);
  assert.deepEqual(stub.received.map((r) => r.headers["last-event-id"]), [undefined, "o.0", "a.1"]);
  assert.deepEqual(stub.received.map((r) => r.url.searchParams.get("since")), [null, null, null]);
});

test("an id on a keepalive is the place to resume from, and that of a cut event is not", async (t) => {
  const text = hello + "id: o.0\n\n" + row("a.1", 1) + ": keepalive\nid: k.9\n\n" + "id: k.10\n";
  const { stub, ns } = await watch(t, [sse(text), gone]);
  assert.deepEqual(ns, [1]);
  assert.deepEqual(stub.received.map((r) => r.headers["last-event-id"]), [undefined, "k.9"]);
});

test("a row names the columns whose values are as they were sent", async (t) => {
  const text = row("a.1", 1).replace('"row"', '"as_sent":["n"],"row"') + row("a.2", 2);
  const { events } = await watch(t, [sse(text), gone]);
  assert.deepEqual(events.map((e) => e.type === "row" && e.asSent), [["n"], undefined]);
});

test("integers that JavaScript would round arrive exact", async (t) => {
  const text = 'id: a.1\ndata: {"table":"t","received_at":"2026-03-24T12:00:00Z","row":{"n":9007199254740993}}\n\n';
  const { ns } = await watch(t, [sse(text), gone]);
  assert.deepEqual(ns, [9007199254740993n]);
});

test("the server's retry is honoured, with a floor", async (t) => {
  const { clock } = await watch(t, [sse("retry: 5000\n\n"), sse("retry: 0\n\n"), gone]);
  assert.deepEqual(clock.slept, [2500, 50]);
});

test("what a stream retries, and when", async (t) => {
  const open = sse(hello + row("a.1", 1));
  const cases: { name: string; answers: Answer[]; requests: number; slept: number[]; code?: string }[] = [
    { name: "429", answers: [failure(429, "tenant.rate_limited", true, { "Retry-After": "7" }), gone], requests: 2, slept: [7000] },
    { name: "408", answers: [open, json(408, "x"), gone], requests: 3, slept: [1000, 1000] },
    { name: "503", answers: [failure(503, "schema.not_loaded", true, { "Retry-After": "5" }), gone], requests: 2, slept: [5000] },
    { name: "403", answers: [failure(403, "auth.forbidden", false)], requests: 1, slept: [], code: "auth.forbidden" },
    { name: "401 later", answers: [open, failure(401, "auth.token_expired", false)], requests: 2, slept: [1000], code: "auth.token_expired" },
    { name: "404", answers: [failure(404, "table.unknown", false)], requests: 1, slept: [], code: "table.unknown" },
    { name: "500", answers: [failure(500, "internal", true)], requests: 1, slept: [], code: "internal" },
    { name: "204", answers: [gone], requests: 1, slept: [] },
    { name: "never opened", answers: [json(503, "x")], requests: 4, slept: [1000, 2000, 4000], code: "http.503" },
    { name: "not an event stream", answers: [json(200, {})], requests: 1, slept: [], code: "client.invalid_response" },
    { name: "not JSON", answers: [sse("data: {\n\n")], requests: 1, slept: [], code: "client.invalid_response" },
  ];
  for (const { name, answers, requests, slept, code } of cases) {
    await t.test(name, async (t) => {
      const { stub, clock, error } = await watch(t, answers);
      assert.equal(error instanceof WaveHouseError ? error.code : error, code);
      assert.equal(stub.received.length, requests);
      assert.deepEqual(clock.slept, slept);
    });
  }
});

test("one that was open goes on trying, ever more slowly", async (t) => {
  const down = json(503, "x");
  const { error, clock, ns } = await watch(t, [sse(row("a.1", 1)), ...Array(8).fill(down), sse(row("a.2", 2)), gone]);
  assert.equal(error, undefined);
  assert.deepEqual(ns, [1, 2]);
  assert.deepEqual(clock.slept, [1000, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000, 15_000, 1000]);
});

test("the signal ends the iteration quietly, and the connection with it", async (t) => {
  const closed = deferred();
  const stub = await Stub.start((response) => {
    response.on("close", () => closed.resolve(undefined));
    sse(hello + row("a.1", 1), true)(response, {} as never);
  });
  t.after(() => stub[Symbol.asyncDispose]());
  const controller = new AbortController();
  let seen = 0;
  for await (const _ of new WaveHouse({ url: stub.url }).stream("t", { signal: controller.signal })) {
    seen++;
    setImmediate(() => controller.abort());
  }
  assert.equal(seen, 1);
  await closed.promise;
  assert.equal(stub.received.length, 1);
});

test("leaving the loop closes the connection", async (t) => {
  const closed = deferred();
  const stub = await Stub.start((response) => {
    response.on("close", () => closed.resolve(undefined));
    sse(hello + row("a.1", 1) + row("a.2", 2), true)(response, {} as never);
  });
  t.after(() => stub[Symbol.asyncDispose]());
  for await (const _ of new WaveHouse({ url: stub.url }).stream("t")) {
    break;
  }
  await closed.promise;
});

test("silence is a dead connection", async (t) => {
  const { ns, stub } = await watch(t, [sse(hello + row("a.1", 1), true), sse(row("a.2", 2)), gone], { idleTimeoutMs: 1500 });
  assert.deepEqual(ns, [1, 2]);
  assert.equal(stub.received.length, 3);
});

function deferred() {
  let resolve!: (value: unknown) => void;
  const promise = new Promise((done) => (resolve = done));
  return { promise, resolve };
}
