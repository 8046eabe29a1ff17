import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { WaveHouse, type BatcherOptions, type Drop } from "@wavehouse/sdk";

import { failure, FakeClock, ingest, json, reset, Stub, type Answer } from "./stub.js";

interface R { n: unknown }

async function batching(t: TestContext, answers: Answer[], options: BatcherOptions<R> = {}) {
  const stub = await Stub.start(...answers);
  t.after(() => stub[Symbol.asyncDispose]());
  const clock = new FakeClock();
  const drops: Drop<R>[] = [];
  const errors: string[] = [];
  const batcher = new WaveHouse({ url: stub.url, clock, maxRetries: 0, token: "abc" }).batcher<string>("t", {
    maxAgeMs: 60_000, onDrop: (drop) => drops.push(drop as Drop<R>), onError: (e) => errors.push(e.code), ...(options as BatcherOptions<object>),
  });
  return { stub, clock, drops, errors, batcher, sent: () => stub.received.map((r) => r.body.trim().split("\n").length) };
}

const until = async (what: () => boolean) => {
  for (let i = 0; i < 4000 && !what(); i++) {
    await new Promise((done) => setTimeout(done, 5));
  }
  assert.ok(what());
};

test("rows leave by count, by bytes and by age, in the order in which they came", async (t) => {
  const count = await batching(t, [ingest()], { maxRows: 2 });
  count.batcher.add([{ n: 1 }, { n: 2 }, { n: 3 }]);
  await until(() => count.stub.received.length === 1);
  assert.equal(count.batcher.size >= 1, true);
  await count.batcher.flush();
  assert.deepEqual(count.sent(), [2, 1]);
  assert.equal(count.batcher.size, 0);
  assert.equal(count.stub.received.map((r) => r.body).join(""), '{"n":1}\n{"n":2}\n{"n":3}\n');

  const bytes = await batching(t, [ingest()], { maxBytes: 16 });
  bytes.batcher.add([{ n: 1 }, { n: 2 }, { n: "long enough to be alone" }, { n: 4 }]);
  await bytes.batcher.flush();
  assert.deepEqual(bytes.sent(), [2, 1, 1]);

  const age = await batching(t, [ingest()], { maxAgeMs: 10 });
  age.batcher.add({ n: 1 });
  await until(() => age.stub.received.length === 1);
});

test("a batch is repeated under its key until it is answered, and the next waits", async (t) => {
  const { stub, batcher, errors, drops, clock } = await batching(
    t, [reset, failure(503, "queue.full", true, { "Retry-After": "7" }), failure(401, "auth.token_expired", false), json(500, {}), ingest()], { maxRows: 1 });
  batcher.add([{ n: 1 }, { n: 2 }]);
  await batcher.flush();
  assert.deepEqual(errors, ["client.network", "queue.full", "auth.token_expired", "http.500"]);
  assert.deepEqual(clock.slept, [1000, 7000, 4000, 8000]);
  const keys = stub.received.map((r) => r.headers["idempotency-key"]);
  assert.equal(keys.length, 6);
  assert.equal(new Set(keys.slice(0, 5)).size, 1);
  assert.notEqual(keys[5], keys[0]);
  assert.deepEqual(drops, []);
});

test("rows that will never be stored are told with their reason", async (t) => {
  const { batcher, drops, stub } = await batching(
    t, [ingest((row) => (row["n"] === 2 ? "bad" : undefined)), failure(403, "auth.forbidden", false)], { maxQueueBytes: 40 });
  batcher.add([{ n: 1 }, { n: 2 }, { n: new Map() }]);
  await batcher.flush();
  batcher.add({ n: 3 });
  batcher.add({ n: "x".repeat(40) });
  await batcher.flush();
  assert.deepEqual(drops.map(({ rows, reason, error }) => [rows.length, reason, error?.code]), [
    [1, "invalid", "client.invalid_row"], [1, "refused", "record.type_mismatch"],
    [1, "queue_full", undefined], [1, "refused", "auth.forbidden"],
  ]);
  assert.deepEqual(drops[1]?.rows, [{ n: 2 }]);
  assert.equal(stub.received.length, 2);
});

test("what was tried is not sent again when the server has forgotten its key", async (t) => {
  const { batcher, drops, clock, stub } = await batching(t, [failure(503, "queue.full", true)]);
  clock.sleep = async (ms) => {
    clock.slept.push(ms);
    clock.time += 24 * 3_600_000;
  };
  batcher.add({ n: 1 });
  await batcher.flush();
  assert.deepEqual(drops.map((d) => [d.rows, d.reason]), [[[{ n: 1 }], "expired"]]);
  assert.equal(stub.received.length, 1);
});

test("closing says what was not sent, and takes nothing more", async (t) => {
  const { batcher, drops } = await batching(t, [failure(503, "queue.full", true)], { maxRows: 2 });
  batcher.add([{ n: 1 }, { n: 2 }, { n: 3 }]);
  assert.deepEqual(await batcher.close({ timeoutMs: 30 }), { unsent: [{ n: 1 }, { n: 2 }, { n: 3 }], kept: 0 });
  batcher.add({ n: 4 });
  assert.equal(drops.at(-1)?.reason, "queue_full");
  const happy = await batching(t, [ingest()]);
  happy.batcher.add({ n: 1 });
  assert.deepEqual(await happy.batcher.close(), { unsent: [], kept: 0 });
});
