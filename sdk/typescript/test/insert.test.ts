import assert from "node:assert/strict";
import { test } from "node:test";

import { InsertError, WaveHouse, WaveHouseError } from "@wavehouse/sdk";

import { failure, FakeClock, ingest, json, reset, Stub } from "./stub.js";

const rows = (count: number) => Array.from({ length: count }, (_, n) => ({ n }));

async function insertError(work: Promise<unknown>): Promise<InsertError> {
  const error = await work.then(() => assert.fail("the insert should have failed"), (e: unknown) => e);
  assert.ok(error instanceof InsertError);
  assert.ok(error instanceof WaveHouseError);
  return error;
}

test("a row is posted as NDJSON with the table, token and tenant", async (t) => {
  const stub = await Stub.start(ingest());
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: `${stub.url}/base/`, token: async () => "abc", tenant: "birch" });

  const result = await client.insert("page views&x", { page: "/home", n: 1 });

  assert.deepEqual(result, { total: 1, succeeded: 1, failed: 0, duplicates: 0, failures: [] });
  const [request] = stub.received;
  assert.equal(request?.method, "POST");
  assert.equal(request?.url.pathname, "/base/v1/ingest");
  assert.equal(request?.url.searchParams.get("table"), "page views&x");
  assert.equal(request?.headers["content-type"], "application/x-ndjson");
  assert.equal(request?.headers["authorization"], "Bearer abc");
  assert.equal(request?.headers["x-tenant-id"], "birch");
  assert.equal(request?.headers["idempotency-key"], undefined);
  assert.equal(request?.body, '{"page":"/home","n":1}\n');
});

test("values that JSON would lose keep their meaning", async (t) => {
  const stub = await Stub.start(ingest());
  t.after(() => stub[Symbol.asyncDispose]());
  const at = new Date("2026-03-24T12:00:00.123Z");

  await new WaveHouse({ url: stub.url }).insert("t", {
    big: 123456789012345678901234567890n, nan: NaN, inf: -Infinity, at, gone: undefined, list: [1n],
  });

  assert.deepEqual(JSON.parse(stub.received[0]?.body ?? ""), {
    big: "123456789012345678901234567890", nan: "NaN", inf: "-Infinity", at: "2026-03-24T12:00:00.123Z", list: ["1"],
  });
});

test("a row with no JSON form fails alone, and keeps the indexes of the others right", async (t) => {
  const stub = await Stub.start(ingest((_, line) => (line === 2 ? "not a number" : undefined)));
  t.after(() => stub[Symbol.asyncDispose]());
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;

  const result = await new WaveHouse({ url: stub.url }).insert("t", [circle, { n: 1 }, [] as object, { n: "x" }]);

  assert.deepEqual([result.total, result.succeeded, result.failed], [4, 1, 3]);
  assert.deepEqual(result.failures.map((f) => [f.index, f.code]), [
    [0, "client.invalid_row"], [2, "client.invalid_row"], [3, "record.type_mismatch"],
  ]);
  assert.deepEqual(result.failures[2], { index: 3, code: "record.type_mismatch", message: "not a number", column: "n" });
});

test("an insert that waits says what is in ClickHouse", async (t) => {
  const letter = { index: 2, error: "constraint", code: "record.dead_lettered" };
  const counts = { total: 3, succeeded: 2, failed: 0, duplicates: 0 };
  const stub = await Stub.start(
    json(200, { ...counts, dead_lettered: 1, inserted: true, results: [letter] }),
    json(202, { ...counts, succeeded: 3, dead_lettered: 0, inserted: false, results: [] }),
  );
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url });

  const result = await client.insert("t", rows(3), { wait: "inserted", waitTimeoutMs: 1500 });
  assert.deepEqual(result, {
    ...counts, deadLettered: 1, inserted: true, failures: [{ index: 1, code: "record.dead_lettered", message: "constraint" }],
  });
  assert.equal(stub.received[0]?.url.searchParams.get("wait"), "inserted");
  assert.equal(stub.received[0]?.url.searchParams.get("timeout"), "1500ms");

  const late = await client.insert("t", rows(3), { wait: "inserted" });
  assert.equal(late.inserted, false);
  assert.equal(late.deadLettered, 0);
  assert.equal(stub.received[1]?.url.searchParams.get("timeout"), null);
});

test("an attempt that waits has its time beside the client's", async (t) => {
  const answer = json(200, { total: 1, succeeded: 1, failed: 0, duplicates: 0, dead_lettered: 0, inserted: true, results: [] });
  const stub = await Stub.start((response, request) => void setTimeout(() => answer(response, request), 300));
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url, timeoutMs: 100, maxRetries: 0 });

  assert.equal((await client.insert("t", rows(1), { wait: "inserted", waitTimeoutMs: 20_000 })).inserted, true);
});

test("no rows make no request", async (t) => {
  const stub = await Stub.start(ingest());
  t.after(() => stub[Symbol.asyncDispose]());
  assert.equal((await new WaveHouse({ url: stub.url }).insert("t", [])).total, 0);
  assert.equal(stub.received.length, 0);
});

test("requests hold at most 10,000 rows and 4 MiB, and a larger row travels alone", async (t) => {
  const stub = await Stub.start(ingest());
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url });

  await client.insert("t", rows(25_000));
  assert.deepEqual(stub.received.map((r) => r.body.trim().split("\n").length), [10_000, 10_000, 5_000]);

  stub.received.length = 0;
  const mebi = "é".repeat(512 * 1024); // 1 MiB of UTF-8
  const result = await client.insert("t", [...Array(5).fill({ mebi }), { huge: mebi.repeat(5) }, { n: 1 }]);
  assert.deepEqual(stub.received.map((r) => r.body.trim().split("\n").length), [3, 2, 1, 1]);
  assert.equal(result.succeeded, 7);
  const sizes = stub.received.map((r) => Buffer.byteLength(r.body));
  assert.ok(sizes.every((s, at) => at === 2 || s <= 4 * 1024 * 1024), String(sizes));
});

test("a batch with some failures names rows by their index in the caller's array", async (t) => {
  const bad = (row: Record<string, unknown>) => (row["n"] === 10 || row["n"] === 20_000 ? "bad" : undefined);
  const stub = await Stub.start(
    ingest(bad),
    failure(503, "queue.unavailable", true, { "Retry-After": "5" }),
    ingest(bad),
  );
  t.after(() => stub[Symbol.asyncDispose]());
  const clock = new FakeClock();

  const result = await new WaveHouse({ url: stub.url, clock }).insert("t", rows(25_000), { idempotencyKey: "load-7" });

  assert.deepEqual(result.failures.map((f) => f.index), [10, 20_000]);
  assert.deepEqual([result.total, result.succeeded, result.failed], [25_000, 24_998, 2]);
  assert.deepEqual(clock.slept, [5000]);
  // The repeated request is the same, under the same key, so that the server can tell.
  assert.deepEqual(stub.received.map((r) => r.headers["idempotency-key"]), ["load-7", "load-7-2", "load-7-2", "load-7-3"]);
  assert.equal(stub.received[1]?.body, stub.received[2]?.body);
});

test("a request that fails for good does not hide what earlier ones stored", async (t) => {
  const stub = await Stub.start(
    ingest((row) => (row["n"] === 3 ? "bad" : undefined)),
    failure(403, "auth.forbidden", false),
  );
  t.after(() => stub[Symbol.asyncDispose]());

  const error = await insertError(new WaveHouse({ url: stub.url }).insert("t", rows(25_000)));

  assert.equal(error.code, "auth.forbidden");
  assert.equal(error.status, 403);
  assert.equal(error.requestId, "req-1");
  assert.equal(error.confirmed, 10_000);
  assert.deepEqual([error.result.total, error.result.succeeded], [10_000, 9_999]);
  assert.equal(error.result.failures[0]?.index, 3);
  assert.equal(stub.received.length, 2, "later rows are not sent");
});

test("what is repeated when rows are not idempotent", async (t) => {
  const partial = json(503, { error: "e", code: "queue.full", retryable: true, succeeded: 256 }, { "Retry-After": "1" });
  const cases = [
    { name: "a refusal by the server", first: failure(503, "queue.full", true, { "Retry-After": "30" }), repeated: true },
    { name: "a rate limit", first: failure(429, "tenant.rate_limited", true), repeated: true },
    { name: "a lost answer", first: reset, repeated: false },
    { name: "an outcome the server does not know", first: failure(503, "queue.outcome_unknown", true), repeated: false },
    { name: "an answer that stored a part", first: partial, repeated: false },
    { name: "a proxy's answer", first: json(503, "upstream"), repeated: false },
    { name: "a gateway timeout", first: failure(504, "x", true), repeated: false },
  ];
  for (const { name, first, repeated } of cases) {
    await t.test(name, async () => {
      const stub = await Stub.start(first, ingest());
      const work = new WaveHouse({ url: stub.url, clock: new FakeClock() }).insert("t", { n: 1 });
      if (repeated) {
        assert.equal((await work).succeeded, 1);
      } else {
        assert.equal((await insertError(work)).confirmed, 0);
      }
      assert.equal(stub.received.length, repeated ? 2 : 1);
      await stub[Symbol.asyncDispose]();
    });
    await t.test(`${name}, idempotent`, async () => {
      const stub = await Stub.start(first, ingest());
      const client = new WaveHouse({ url: stub.url, clock: new FakeClock() });
      assert.equal((await client.insert("t", { n: 1 }, { idempotent: true })).succeeded, 1);
      assert.equal(stub.received.length, 2);
      await stub[Symbol.asyncDispose]();
    });
  }
});

test("an answer that does not account for every row is an error", async (t) => {
  for (const body of [{ total: 1, succeeded: 0, failed: 0, duplicates: 0, results: [] }, {}, null, []]) {
    await t.test(JSON.stringify(body), async () => {
      const stub = await Stub.start(json(200, body));
      const error = await insertError(new WaveHouse({ url: stub.url }).insert("t", { n: 1 }));
      assert.equal(error.code, "client.invalid_response");
      await stub[Symbol.asyncDispose]();
    });
  }
});
