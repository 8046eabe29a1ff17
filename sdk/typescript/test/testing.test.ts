import assert from "node:assert/strict";
import { test } from "node:test";

import { and, anyLast, argMax, argMin, avg, count, countDistinct, groupArray, groupUniqArray, histogram, max, median, min, not, on, or, quantiles, ratio, sum, topK, WaveHouse, WaveHouseError, type LiveState, type QueryDocument } from "@wavehouse/sdk";
import { WaveHouseOps } from "@wavehouse/sdk/ops";
import { FakeWaveHouse } from "@wavehouse/sdk/testing";

import { failure, FakeClock, json, Stub } from "./stub.js";

function double() {
  const fake = new FakeWaveHouse();
  return { fake, client: new WaveHouse({ url: "http://test", fetch: fake.fetch, clock: new FakeClock() }) };
}

test("the double answers queries as a server does", async () => {
  const { fake, client } = double();
  fake.insert("t", [
    { page: "a", n: 1, at: "2026-03-24T12:01:00Z" }, { page: "b", n: 9007199254740993n, at: "2026-03-24T12:04:00Z" },
    { page: "a", n: 4, at: "2026-03-24T12:06:00Z" }, { page: null, n: 0, at: "2026-03-25T00:00:00Z" },
  ]);
  assert.deepEqual(
    await client.from("t").select("page", count(), max("n"), min("n"), avg("n"), countDistinct("n")).where("page", "eq", "a").groupBy("page"),
    [{ page: "a", count: 2, max_n: 4, min_n: 1, avg_n: 2.5, count_distinct_n: 2 }],
  );
  assert.deepEqual(await client.from("t").select("n").where("page", "in", ["b"]), [{ n: 9007199254740993n }]);
  assert.deepEqual(await client.from("t").select(sum("n")), [{ sum_n: 9007199254740998 }]);
  assert.deepEqual(
    await client.from("t").select(count()).timeBucket("at", "5m", "t").timeRange("at", "2026-03-24T00:00:00Z", "2026-03-25T00:00:00Z").orderBy("t"),
    [{ t: "2026-03-24T12:00:00Z", count: 2 }, { t: "2026-03-24T12:05:00Z", count: 1 }],
  );
  assert.deepEqual(await client.from("t").select("page").orderBy("page", "desc").limit(1), [{ page: "b" }]);
  assert.deepEqual(await client.from("t").select("page").orderBy("page", "desc").offset(3), [{ page: null }]);
  assert.deepEqual(await client.from("t").select(median("n"), quantiles("n", [0])).where("n", "lt", 5).where("page", "is_not_null"), [{ median_n: 2.5, quantiles_n: [1] }]);
  assert.deepEqual(await client.from("t").select("page").where("page", "like", "_%").where("page", "neq", "b").where("n", "gte", 2), [{ page: "a" }]);
  assert.deepEqual(await client.query("none", { aggregations: [{ fn: "count" }] }), [{ count: 0 }]);
  assert.deepEqual(
    await client.from("t").select("page", argMax("n", "at"), argMin("n", "at"), anyLast("n"), groupArray("n", 1), groupUniqArray("page"), topK("page"),
      count().where("n", "gt", 1).as("more"), ratio(count().where("n", "gt", 1), count(), 100)).groupBy("page").having("more", "gt", 0).orderBy("page"),
    [
      { page: "a", arg_max_n: 4, arg_min_n: 1, any_last_n: 4, group_array_n: [1], group_uniq_array_page: ["a"], top_k_page: ["a"], more: 1, ratio: 50 },
      { page: "b", arg_max_n: 9007199254740993n, arg_min_n: 9007199254740993n, any_last_n: 9007199254740993n, group_array_n: [9007199254740993n], group_uniq_array_page: ["b"], top_k_page: ["b"], more: 1, ratio: 100 },
    ],
  );
  assert.deepEqual(await client.from("t").select("page").distinct().where("page", "is_not_null").orderBy("page"), [{ page: "a" }, { page: "b" }]);
  assert.deepEqual(await client.from("t").select("page", count()).groupBy("page").having("count", "gt", 1).withTotals(), { rows: [{ page: "a", count: 2 }], totals: { page: null, count: 2 } });
  fake.insert("c", [{ s: "Größe", l: ["a", "b"], m: { k: 1 }, n: 1 }, { s: null, l: [], m: {}, n: 5 }]);
  for (const [filter, ns] of [
    [on("s", "ilike", "GRÖ%"), [1]], [not(on("s", "not_ilike", "GRÖ%")), [1]], [not(on("s", "eq", "x")), [1]], [or(on("s", "eq", "x"), on("n", "between", [4, 6])), [5]], [and(), [1, 5]],
    [not(and(on("s", "is_null"), on("n", "not_between", [1, 2]))), [1]], [on("s", "starts_with", "Gr"), [1]], [on("s", "ends_with", "x"), []], [on("s", "not_contains", "x"), [1]], [on("l", "contains", "b"), [1]],
    [on("l", "contains_any", ["z", "a"]), [1]], [on("l", "contains_all", ["a", "z"]), []], [on("m", "contains", "k"), [1]],
  ] as const) {
    assert.deepEqual((await client.from("c").select("n").where(filter).orderBy("n")).map(({ n }) => n), ns, JSON.stringify(filter));
  }
  const lines = [];
  for await (const row of client.from("t").select("page").where("page", "not_in", ["a"]).stream()) {
    lines.push(row);
  }
  assert.deepEqual(lines, [{ page: "b" }]);
});

test("the double tells numbers, times and patterns as a server does", async () => {
  const { fake, client } = double();
  fake.insert("t", [
    { n: 1, price: "12.50", at: "2026-03-24T12:00:00Z", s: "50%" }, { n: 2, price: "7.5", at: "2026-03-24 13:00:00.500", s: "501" }, { n: 4, price: null, at: null, s: "" },
  ]);
  for (const [filter, ns] of [
    [on("price", "gt", 8), [1]], [on("n", "lt", "10"), [1, 2, 4]], [on("at", "eq", "2026-03-24T13:00:00+01:00"), [1]], [on("at", "gt", "2026-03-24T14:00:00+01:00"), [2]],
    [on("s", "like", "50\\%"), [1]], [on("s", "like", "50_"), [1, 2]], [on("n", "in", ["2", 4]), [2, 4]],
  ] as const) {
    assert.deepEqual((await client.from("t").select("n").where(filter).orderBy("n")).map(({ n }) => n), ns, JSON.stringify(filter));
  }
  assert.deepEqual(await client.from("t").select("n").timeRange("at", "2026-03-24", 1774357200), [{ n: 1 }]);
  assert.deepEqual(await client.from("t").select("n").timeRange("at", "today", "tomorrow"), []);
  assert.deepEqual((await client.from("t").select("n").orderBy("at", "desc")).map(({ n }) => n), [2, 1, 4], "null is last in either direction");
  assert.deepEqual(await client.query("t", { aggregations: [{ fn: "var_pop", column: "n" }, { fn: "stddev_samp", column: "n" }], filters: [on("n", "lt", 3)] }), [{ var_pop_n: 0.25, stddev_samp_n: Math.sqrt(0.5) }]);
  assert.deepEqual(await client.from("t").select(histogram("n", 2), histogram("price"), median("n"), ratio(min("nothing"), count())), [{
    histogram_n: [{ lower: 1, upper: 2.75, count: 2 }, { lower: 2.75, upper: 4, count: 1 }],
    histogram_price: [{ lower: 7.5, upper: 10, count: 1 }, { lower: 10, upper: 12.5, count: 1 }],
    median_n: 2, ratio: null,
  }]);
  assert.deepEqual(await client.query("t", { columns: ["s"], group_by: ["s"], filters: [on("n", "lt", 2)] }), [{ s: "50%" }]);
});

test("the double has pages, each row in one of them", async () => {
  const { fake, client } = double();
  fake.insert("t", [3, 1, 2, 5, 4].map((n) => ({ n })));
  const found: unknown[] = [];
  for await (const { rows, truncated } of client.from("t", { columns: ["n"], order_by: [{ column: "n" }], limit: 2 }).pages()) {
    found.push([truncated, ...rows.map(({ n }) => n)]);
    fake.insert("t", { n: 0 });
  }
  assert.deepEqual(found, [["limit", 1, 2], ["limit", 3, 4], [undefined, 5]]);
  await assert.rejects(client.from("t").select("n").pages().next(), { code: "query.invalid" });
  await assert.rejects(client.from("t").select("n").orderBy("n").pages().next().then(() => client.query("t", { columns: ["n"], order_by: [{ column: "n" }], cursor: '["page",1,1,"x"]' })), { code: "query.cursor_invalid" });
});

test("what the double cannot answer as a server would, it refuses", async () => {
  const { fake, client } = double();
  fake.insert("t", { n: 1, s: "x", at: "2026-03-24T12:00:00Z", attrs: { plan: "pro" } });
  const bucket = { column: "at", every: "1d" };
  const refused: [QueryDocument, string][] = [
    [{ aggregations: [{ fn: "nope", column: "n" }] }, "double.unsupported"],
    [{ columns: ["attrs.plan"] }, "double.unsupported"],
    [{ columns: ["n"], filters: [on("attrs.plan", "eq", "pro")] }, "double.unsupported"],
    [{ columns: ["n"], int64: "string" }, "double.unsupported"],
    [{ aggregations: [{ fn: "count" }], time_range: { column: "at", since: "7d" }, compare: "previous" }, "double.unsupported"],
    [{ aggregations: [{ fn: "count" }], time_bucket: { ...bucket, fill: true } }, "double.unsupported"],
    [{ aggregations: [{ fn: "count" }], time_bucket: { ...bucket, time_zone: "Europe/Berlin" } }, "double.unsupported"],
    [{ aggregations: [{ fn: "count" }], time_bucket: { column: "at", every: "1mo" } }, "double.unsupported"],
    [{ columns: ["n"], time_range: { column: "at", since: "-1mo" } }, "double.unsupported"],
    [{ columns: ["n"], time_range: { column: "s", since: "1d" } }, "double.unsupported"],
    [{}, "query.invalid"],
    [{ columns: ["n"], gruop_by: ["n"] } as QueryDocument, "query.invalid"],
    [{ columns: ["n"], filters: [{ column: "n", op: "is" as "eq", value: 1 }] }, "query.invalid"],
    [{ columns: ["n"], filters: [on("n", "eq", null)] }, "query.invalid"],
    [{ columns: ["n"], filters: [on("n", "gt", "ten")] }, "query.invalid"],
    [{ aggregations: [{ fn: "sum", column: "s" }] }, "query.invalid"],
    [{ aggregations: [{ fn: "sum" }] }, "query.invalid"],
    [{ aggregations: [{ fn: "count" }], totals: true }, "query.invalid"],
    [{ columns: ["s"], aggregations: [{ fn: "count" }], group_by: ["s"], having: [on("n", "gt", 0)] }, "query.invalid"],
    [{ columns: ["n"], having: [on("n", "gt", 0)] }, "query.invalid"],
    [{ columns: ["s"], distinct: true, aggregations: [{ fn: "count" }], group_by: ["s"] }, "query.invalid"],
    [{ columns: ["n"], limit: 20_000 }, "query.invalid"],
    [{ columns: ["n"], aggregations: [{ fn: "count" }] }, "clickhouse.rejected"],
  ];
  for (const [document, code] of refused) {
    await assert.rejects(client.query("t", document as object), { code }, JSON.stringify(document));
  }
  await assert.rejects(client.from("t").select("n").csv(), { code: "double.unsupported" });
  assert.equal(fake.asked.length, refused.length + 1, "none is repeated");
});

test("the double replays a stream from a time on", async () => {
  const { fake, client } = double();
  fake.insert("t", [{ n: 1 }, { n: 2 }]);
  const seen: unknown[] = [];
  for await (const event of client.stream("t", { since: new Date(0) })) {
    if (event.type === "row" && seen.push(event.row["n"]) === 2) {
      break;
    }
  }
  assert.deepEqual(seen, [1, 2]);
});

test("the double fails when told to, and a repeated key stores once", async () => {
  const { fake, client } = double();
  fake.failNext({ status: 503, code: "queue.full", retryable: true, retryAfter: 1 }, "lost");
  const result = await client.insert("t", { n: 1 }, { idempotencyKey: "k" });
  assert.deepEqual([result.succeeded, result.duplicates], [0, 1], "the lost answer had stored it");
  assert.deepEqual(fake.rows("t"), [{ n: 1 }]);
  assert.equal(fake.asked.length, 3);
  await assert.rejects(client.insert("t", { n: 2 }, { idempotencyKey: "k" }), { code: "idempotency.key_reused" });
  fake.pipe("top", ({ limit }) => [{ limit }]);
  assert.deepEqual(await client.pipe("top", { limit: 3 }), [{ limit: 3 }]);
  await assert.rejects(client.pipe("gone", {}), { code: "pipe.unknown" });
  assert.equal((await client.insert("t", { n: 3 }, { wait: "inserted" })).inserted, true);
});

test("streams and live queries follow the double over a cut", async () => {
  const { fake, client } = double();
  fake.insert("t", { n: 1 });
  const states: LiveState<unknown>[] = [];
  const leave = client.live(client.from("t").select("n")).subscribe((state) => states.push(state));
  const shows = async (rows: unknown) => {
    for (let i = 0; i < 4000 && JSON.stringify(states.at(-1)?.rows) !== JSON.stringify(rows); i++) {
      await new Promise((done) => setTimeout(done, 5));
    }
    assert.deepEqual(states.at(-1)?.rows, rows);
  };
  await shows([{ n: 1 }]);
  for (let i = 0; i < 4000 && states.at(-1)?.status !== "live"; i++) {
    await new Promise((done) => setTimeout(done, 5));
  }
  fake.insert("t", { n: 2 });
  await shows([{ n: 1 }, { n: 2 }]);
  fake.cutStreams();
  fake.insert("t", [{ n: 3 }]);
  await shows([{ n: 1 }, { n: 2 }, { n: 3 }]);
  leave();
});

test("an operator's calls name the tenant and are repeated where that does no harm", async (t) => {
  const stub = await Stub.start(failure(503, "clickhouse.unavailable", true), json(200, [{ n: 1 }]), failure(502, "x", true));
  t.after(() => stub[Symbol.asyncDispose]());
  const ops = new WaveHouseOps({ url: stub.url, operatorKey: "k", tenant: "acme", clock: new FakeClock() });
  assert.deepEqual(await ops.query("SELECT {n:UInt8} AS n", { params: { n: "1" } }), [{ n: 1 }]);
  const [first] = stub.received;
  assert.equal(first?.headers["x-operator-key"], "k");
  assert.equal(first?.url.search, "?tenant=acme");
  assert.deepEqual(JSON.parse(first?.body ?? ""), { sql: "SELECT {n:UInt8} AS n", params: { n: "1" } });
  const before = stub.received.length;
  await assert.rejects(ops.query("INSERT INTO t VALUES (1)", { write: true }), WaveHouseError);
  await assert.rejects(ops.discard({ table: "t", all: true }), WaveHouseError);
  await assert.rejects(ops.replay({ table: "t", ids: ["1"] }), WaveHouseError);
  assert.equal(stub.received.length, before + 3, "what writes is not repeated");
});

test("an operator's calls are read where they are documented", async (t) => {
  const stub = await Stub.start(json(200, {}));
  t.after(() => stub[Symbol.asyncDispose]());
  const ops = new WaveHouseOps({ url: stub.url, operatorKey: "k" });
  await ops.schema();
  await ops.types("viewer");
  await ops.tenants();
  await ops.fleet();
  await ops.reload();
  await ops.letterStats();
  await ops.letters("t", { limit: 2 });
  assert.deepEqual(stub.received.map((r) => `${r.method} ${r.url.pathname}${r.url.search}`), [
    "GET /v1/ops/schema", "GET /v1/ops/types?role=viewer", "GET /v1/ops/tenants", "GET /v1/ops/fleet", "POST /v1/ops/settings/reload",
    "GET /v1/ops/dlq/stats", "GET /v1/ops/dlq/rows?table=t&limit=2",
  ]);
});
