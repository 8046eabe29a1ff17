import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";

import { type AnswerMeta, WaveHouse, WaveHouseError, type WaveHouseOptions } from "@wavehouse/sdk";

import { failure, FakeClock, json, reset, Stub, type Answer } from "./stub.js";

const ok = json(200, [{ page: "/home", views: 3 }]);

async function failed(work: Promise<unknown>): Promise<WaveHouseError> {
  const error = await work.then(() => assert.fail("the call should have failed"), (e: unknown) => e);
  assert.ok(error instanceof WaveHouseError, String(error));
  return error;
}

test("a query posts its document and returns the rows", async (t) => {
  const stub = await Stub.start(ok);
  t.after(() => stub[Symbol.asyncDispose]());
  const document = { columns: ["page"], aggregations: [{ fn: "count", column: "*", alias: "views" }], group_by: ["page"] };

  const rows = await new WaveHouse({ url: stub.url }).query<{ page: string; views: number }>("pages", document);

  assert.equal(rows[0]?.views, 3);
  assert.equal(stub.received[0]?.url.pathname, "/v1/query");
  assert.equal(stub.received[0]?.url.search, "?table=pages");
  assert.deepEqual(JSON.parse(stub.received[0]?.body ?? ""), document);
  assert.equal(stub.received[0]?.headers["authorization"], undefined);
  assert.equal(stub.received[0]?.headers["x-tenant-id"], undefined);
});

test("what is retried, and when", async (t) => {
  const limited = failure(429, "tenant.rate_limited", true, { "Retry-After": "1" });
  const down = failure(503, "clickhouse.unavailable", true, { "Retry-After": "2" });
  const cases: { name: string; answers: Answer[]; requests: number; slept: number[]; code?: string }[] = [
    { name: "503 waits as asked", answers: [down, ok], requests: 2, slept: [2000] },
    { name: "429 waits as asked", answers: [limited, ok], requests: 2, slept: [1000] },
    { name: "400 is final", answers: [failure(400, "query.invalid", false), ok], requests: 1, slept: [], code: "query.invalid" },
    { name: "500 is final", answers: [failure(500, "internal", true), ok], requests: 1, slept: [], code: "internal" },
    { name: "a lost answer to a query", answers: [reset, ok], requests: 2, slept: [0] },
    { name: "a gateway's 502", answers: [json(502, "bad gateway"), ok], requests: 2, slept: [0] },
    { name: "a 502 that will not pass", answers: [failure(502, "clickhouse.misconfigured", false), ok], requests: 1, slept: [], code: "clickhouse.misconfigured" },
    { name: "gives up", answers: [down], requests: 4, slept: [2000, 2000, 2000], code: "clickhouse.unavailable" },
    { name: "does not wait for an hour", answers: [failure(503, "x.y", true, { "Retry-After": "3600" }), ok], requests: 1, slept: [], code: "x.y" },
  ];
  for (const { name, answers, requests, slept, code } of cases) {
    await t.test(name, async () => {
      const stub = await Stub.start(...answers);
      const clock = new FakeClock();
      const work = new WaveHouse({ url: stub.url, clock }).query("t", {});
      if (code === undefined) {
        assert.equal((await work).length, 1);
      } else {
        assert.equal((await failed(work)).code, code);
      }
      assert.equal(stub.received.length, requests);
      assert.deepEqual(clock.slept, slept);
      await stub[Symbol.asyncDispose]();
    });
  }
});

test("the real clock waits at least as long as asked", async (t) => {
  const stub = await Stub.start(failure(429, "tenant.rate_limited", true, { "Retry-After": "1" }), ok);
  t.after(() => stub[Symbol.asyncDispose]());
  const before = performance.now();
  await new WaveHouse({ url: stub.url }).query("t", {});
  assert.ok(performance.now() - before >= 990);
});

test("backoff doubles under full jitter", async (t) => {
  const stub = await Stub.start(json(503, "x"));
  t.after(() => stub[Symbol.asyncDispose]());
  const clock = new FakeClock();
  clock.jitter = 0.5;
  await failed(new WaveHouse({ url: stub.url, clock, maxRetries: 9 }).query("t", {}));
  assert.deepEqual(clock.slept, [125, 250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
});

test("an error carries what the server said", async (t) => {
  const stub = await Stub.start(
    json(400, { error: "no column x", code: "query.invalid", retryable: false, request_id: "r-9", column: "x" }),
  );
  t.after(() => stub[Symbol.asyncDispose]());
  const error = await failed(new WaveHouse({ url: stub.url }).query("t", {}));
  assert.equal(error.name, "WaveHouseError");
  assert.equal(error.message, "no column x");
  assert.deepEqual(
    [error.code, error.status, error.requestId, error.retryable, error.retryAfter, error.details],
    ["query.invalid", 400, "r-9", false, undefined, { column: "x" }],
  );
});

test("an error without WaveHouse's body still says what it is", async (t) => {
  const stub = await Stub.start((response) => {
    response.writeHead(503, { "Retry-After": new Date(Date.now() + 90_000).toUTCString(), "X-Request-ID": "proxy-1" });
    response.end("<html>");
  });
  t.after(() => stub[Symbol.asyncDispose]());
  const error = await failed(new WaveHouse({ url: stub.url }).query("t", {}));
  assert.deepEqual([error.code, error.status, error.requestId, error.retryable], ["http.503", 503, "proxy-1", true]);
  assert.ok((error.retryAfter ?? 0) > 80 && (error.retryAfter ?? 0) <= 90);
});

test("credentials never follow a redirect", async (t) => {
  const other = await Stub.start(ok);
  const redirect: Answer = (response) => {
    response.writeHead(307, { Location: `${other.url}/v1/query` });
    response.end();
  };
  const stub = await Stub.start(redirect);
  t.after(() => Promise.all([stub[Symbol.asyncDispose](), other[Symbol.asyncDispose]()]));
  const client = new WaveHouse({ url: stub.url, token: "secret", tenant: "birch" });

  const calls = [
    () => client.query("t", {}),
    () => client.insert("t", { n: 1 }, { idempotencyKey: "k" }),
    () => client.stream("t").next(),
  ];
  for (const call of calls) {
    const error = await failed(call());
    assert.equal(error.code, "client.redirect");
    assert.equal(error.status, 307);
    assert.equal(error.retryable, false);
  }
  assert.equal(other.received.length, 0);
  assert.equal(stub.received.length, 3);
});

test("a browser's opaque redirect is refused too", async () => {
  const opaque = { type: "opaqueredirect", status: 0, ok: false, headers: new Headers(), body: null } as Response;
  const inits: RequestInit[] = [];
  const client = new WaveHouse({
    url: "https://events.invalid",
    fetch: async (_url, init) => (inits.push(init), opaque),
  });
  assert.equal((await failed(client.query("t", {}))).code, "client.redirect");
  assert.equal(inits[0]?.redirect, "manual");
});

test("the token function is asked before every attempt", async (t) => {
  const stub = await Stub.start(json(503, "x"), ok);
  t.after(() => stub[Symbol.asyncDispose]());
  let asked = 0;
  const client = new WaveHouse({ url: stub.url, clock: new FakeClock(), token: () => `t${++asked}` });
  await client.query("t", {});
  assert.deepEqual(stub.received.map((r) => r.headers.authorization), ["Bearer t1", "Bearer t2"]);
});

test("a token function that fails is not a network error", async () => {
  const cause = new Error("signed out");
  const client = new WaveHouse({ url: "http://127.0.0.1:1", token: () => Promise.reject(cause) });
  const error = await failed(client.query("t", {}));
  assert.deepEqual([error.code, error.cause, error.retryable], ["client.token", cause, false]);
});

test("a timeout is its own error and is not repeated", async (t) => {
  const stub = await Stub.start(() => undefined);
  t.after(() => stub[Symbol.asyncDispose]());
  const error = await failed(new WaveHouse({ url: stub.url, timeoutMs: 1000 }).query("t", {}));
  assert.deepEqual([error.code, error.retryable, error.status], ["client.timeout", true, 0]);
  assert.equal(stub.received.length, 1);
});

test("the timeout covers the body", async (t) => {
  const stub = await Stub.start((response) => {
    response.writeHead(200, { "Content-Type": "application/json" });
    response.write("[");
  });
  t.after(() => stub[Symbol.asyncDispose]());
  assert.equal((await failed(new WaveHouse({ url: stub.url, timeoutMs: 200 }).query("t", {}))).code, "client.timeout");
});

test("an abort ends the call, its waits included, and lets go of the signal", async (t) => {
  const stub = await Stub.start(() => undefined);
  t.after(() => stub[Symbol.asyncDispose]());
  const controller = new AbortController();
  const reason = new Error("left the page");
  const work = new WaveHouse({ url: stub.url }).query("t", {}, { signal: controller.signal });
  controller.abort(reason);
  const error = await failed(work);
  assert.equal(error.code, "client.aborted");
  assert.equal(getEventListeners(controller.signal, "abort").length, 0);

  const waiting = await Stub.start(failure(503, "x.y", true, { "Retry-After": "30" }));
  t.after(() => waiting[Symbol.asyncDispose]());
  const second = new AbortController();
  const client = new WaveHouse({ url: waiting.url });
  const slow = client.query("t", {}, { signal: second.signal });
  while (waiting.received.length === 0) {
    await new Promise((done) => setImmediate(done));
  }
  second.abort();
  assert.equal((await failed(slow)).code, "client.aborted");
  assert.equal((await failed(client.query("t", {}, { signal: second.signal }))).code, "client.aborted");
});

test("an answer that is not WaveHouse's", async () => {
  for (const answer of [json(200, { not: "rows" }), ((r) => r.end("<html>")) as Answer]) {
    const stub = await Stub.start(answer);
    assert.equal((await failed(new WaveHouse({ url: stub.url }).query("t", {}))).code, "client.invalid_response");
    await stub[Symbol.asyncDispose]();
  }
});

test("options that cannot be used are refused at once", async (t) => {
  const bad: [string, WaveHouseOptions][] = [
    ["relative", { url: "/v1" }],
    ["other scheme", { url: "ftp://x" }],
    ["credentials", { url: "http://u:p@x" }],
    ["query", { url: "http://x/?token=1" }],
    ["timeout", { url: "http://x", timeoutMs: 0 }],
    ["retries", { url: "http://x", maxRetries: -1 }],
    ["not a number", { url: "http://x", timeoutMs: NaN }],
  ];
  for (const [name, options] of bad) {
    await t.test(name, () => {
      assert.throws(() => new WaveHouse(options), (e) => e instanceof WaveHouseError && e.code === "client.invalid_option");
    });
  }
});

test("what the server says of an answer comes before its rows", async (t) => {
  const told = {
    "X-Request-ID": "r1", "X-Cache": "HIT", "X-Result-Truncated": "limit", "X-Query-ID": "q1", "X-Rows-Read": "12", "X-Bytes-Read": "340",
    "X-Data-Through": "2026-06-21T04:00:00.250Z", "Server-Timing": "queue;dur=0.5, clickhouse;dur=33",
  };
  const stub = await Stub.start(json(200, [], told), json(200, [], told), json(200, [], { "X-Request-ID": "r2" }));
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url });
  const said: AnswerMeta[] = [];
  const onMeta = (meta: AnswerMeta): void => void said.push(meta);

  await client.query<object>("pages", { columns: ["page"] }, { onMeta });
  await client.pipe("top", {}, { onMeta });
  await client.query<object>("pages", { columns: ["n"] }, { onMeta });

  const whole: AnswerMeta = {
    requestId: "r1", cached: true, truncated: "limit", queryId: "q1", rowsRead: 12, bytesRead: 340,
    dataThrough: new Date("2026-06-21T04:00:00.250Z"), timing: { queue: 0.5, clickhouse: 33 },
  };
  assert.deepEqual(said, [whole, whole, { requestId: "r2", cached: false, timing: {} }]);
});
