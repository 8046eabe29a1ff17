import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test, type TestContext } from "node:test";

import { count, max, sum, avg, WaveHouse, type LiveOptions, type LiveState, type QueryDocument } from "@wavehouse/sdk";

import { failure, json, Stub, type Answer } from "./stub.js";

type Values = Record<string, unknown>;

/** A server whose table and stream a test writes. */
async function serve(t: TestContext, answer: (asked: number) => Values[], more: { exact?: (asked: number) => boolean; ask?: (asked: number) => Answer | undefined } = {}) {
  let asked = 0;
  const streams: ServerResponse[] = [];
  const resumed: (string | undefined)[] = [];
  const stub = await Stub.start((response, request) => {
    if (request.url.pathname === "/v1/stream") {
      resumed.push(request.headers["last-event-id"] as string);
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write(": connected\nretry: 1\n\n");
      streams.push(response);
      return;
    }
    assert.equal(request.url.searchParams.get("position"), "1");
    asked++;
    const own = more.ask?.(asked);
    if (own !== undefined) {
      own(response, request);
      return;
    }
    const exact = more.exact?.(asked) ?? true;
    json(200, answer(asked), { "X-Stream-Position": `p${asked}`, "X-Stream-Join": exact ? "exact" : "overlap" })(response, request);
  });
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url, maxRetries: 0 });
  return {
    stub, client, streams, resumed,
    asked: () => asked,
    send(row: Values, id = "r") {
      streams.at(-1)?.write(`id: ${id}\ndata: ${JSON.stringify({ table: "t", received_at: "2026-03-24T12:00:00Z", row })}\n\n`);
    },
    watch<T = Values>(document: QueryDocument, options: LiveOptions = {}) {
      const states: LiveState<T>[] = [];
      const query = client.live<T>({ table: "t", document: document as never }, { refreshMs: 5, ...options });
      const leave = query.subscribe((state) => states.push(state));
      t.after(leave);
      return { states, query, leave, last: () => query.state };
    },
  };
}

async function until(what: () => boolean): Promise<void> {
  for (let i = 0; i < 4000 && !what(); i++) {
    await new Promise((done) => setTimeout(done, 5));
  }
  assert.ok(what(), what.toString());
}

test("rows of the stream join the answer, in its order and within its limit", async (t) => {
  const s = await serve(t, () => [{ n: 3, page: "c" }, { n: 1, page: "a" }]);
  const w = s.watch({ columns: ["n", "page"], order_by: [{ column: "n", dir: "desc" }], limit: 3, filters: [{ column: "page", op: "neq", value: "hidden" }] });
  await until(() => w.last().status === "live");
  assert.equal(w.states[0]?.status, "connecting");
  assert.deepEqual(s.resumed, ["p1"]);
  s.send({ n: 2, page: "b", other: 1 });
  await until(() => w.last().rows.length === 3);
  assert.deepEqual(w.last().rows, [{ n: 3, page: "c" }, { n: 2, page: "b" }, { n: 1, page: "a" }]);
  s.send({ n: 9, page: "hidden" });
  s.send({ n: 4, page: "d" });
  s.send({ n: 0, page: "z" });
  await until(() => w.last().rows[0]?.["n"] === 4);
  assert.deepEqual(w.last().rows.map((r) => r["n"]), [4, 3, 2]);
  assert.equal(s.asked(), 1);
});

test("a later row replaces the one with its key", async (t) => {
  const s = await serve(t, () => [{ id: 1, n: 1 }], { exact: () => false });
  const w = s.watch({ columns: ["id", "n"] }, { key: "id" });
  await until(() => w.last().status === "live");
  s.send({ id: 1, n: 2 });
  s.send({ id: 2, n: 3 });
  await until(() => w.last().rows.length === 2);
  assert.deepEqual(w.last().rows, [{ id: 1, n: 2 }, { id: 2, n: 3 }]);
  assert.equal(s.asked(), 1, "an overlap does no harm to keyed rows");
});

test("counts, whole sums and maxima of groups are kept up", async (t) => {
  const s = await serve(t, () => [{ page: "a", t: "2026-03-24T12:00:00Z", count: 1, sum_n: 9007199254740991, max_n: 5 }]);
  const query = s.client.from("t").select("page", count(), sum("n"), max("n")).timeBucket("at", "5m", "t").groupBy("page");
  const w = s.watch(query.document);
  await until(() => w.last().status === "live");
  s.send({ page: "a", n: 7, at: "2026-03-24T12:04:59Z" });
  s.send({ page: "b", n: 1, at: "2026-03-24T12:04:59.5Z" });
  s.send({ page: "a", n: 2, at: "2026-03-24T12:05:00Z" });
  await until(() => w.last().rows.length === 3);
  assert.deepEqual(w.last().rows, [
    { page: "a", t: "2026-03-24T12:00:00Z", count: 2, sum_n: 9007199254740998, max_n: 7 },
    { page: "b", t: "2026-03-24T12:00:00Z", count: 1, sum_n: 1, max_n: 1 },
    { page: "a", t: "2026-03-24T12:05:00Z", count: 1, sum_n: 2, max_n: 2 },
  ]);
  assert.equal(s.asked(), 1);
});

test("what cannot be told from the stream is asked again, once for many rows", async (t) => {
  for (const [name, document, row] of [
    ["an average", { aggregations: [{ fn: "avg", column: "n", alias: "v" }] }, { n: 1 }],
    ["a sum of fractions", { aggregations: [{ fn: "sum", column: "n", alias: "v" }] }, { n: 0.5 }],
    ["a column that was not sent", { columns: ["v"] }, { n: 1 }],
    ["a pattern", { columns: ["v"], filters: [{ column: "v", op: "like", value: "x%" }] }, { v: 1 }],
    ["a time", { columns: ["v"], filters: [{ column: "v", op: "gt", value: "2026-01-01T00:00:00+01:00" }] }, { v: "2026-01-01T00:00:00Z" }],
    ["a condition that does not hold, of null or not", { columns: ["v"], filters: [{ not: { column: "v", op: "eq", value: 2 } }] }, { v: 1 }],
    ["a part of a column", { columns: ["v"], filters: [{ or: [{ column: "v", op: "eq", value: 2 }, { column: "attrs.key", op: "eq", value: 1 }] }] }, { v: 1, attrs: { key: 1 } }],
    ["an offset", { columns: ["v"], offset: 1 }, { v: 1 }],
    ["a group behind the limit", { columns: ["page"], aggregations: [{ fn: "count", alias: "v" }], group_by: ["page"], limit: 1 }, { page: "new" }],
    ["a range back from now", { columns: ["v"], time_range: { column: "at", since: "7d" } }, { v: 1, at: "2026-01-01T00:00:00Z" }],
  ] as [string, QueryDocument, Values][]) {
    const s = await serve(t, (asked) => [{ page: "old", v: asked }]);
    const w = s.watch(document);
    await until(() => w.last().status === "live");
    s.send(row);
    s.send(row);
    await until(() => w.last().rows[0]?.["v"] === 2 && w.last().status === "live");
    assert.equal(s.asked(), 2, name);
    assert.deepEqual(s.resumed, ["p1", "p2"], name);
    assert.ok(w.states.some((state) => state.status === "stale"), name);
    w.leave();
  }
});

test("a filter that surely leaves a row out asks nothing", async (t) => {
  const s = await serve(t, () => [{ n: 1 }]);
  const w = s.watch({ columns: ["n"], filters: [
    { column: "country", op: "in", value: ["DE", "AT"] }, { column: "n", op: "gte", value: 1 }, { column: "gone", op: "is_null" },
    { or: [{ column: "n", op: "eq", value: 4 }, { and: [{ column: "country", op: "eq", value: "FR" }, { column: "n", op: "lt", value: 9 }] }] },
  ] });
  await until(() => w.last().status === "live");
  s.send({ n: 2, country: "FR", gone: null });
  s.send({ n: 0, country: "DE", gone: null });
  s.send({ n: 3, country: "DE", gone: "x" });
  s.send({ n: null, country: "DE", gone: null });
  s.send({ n: 4, country: "AT", gone: null });
  await until(() => w.last().rows.length === 2);
  assert.deepEqual(w.last().rows, [{ n: 1 }, { n: 4 }]);
  assert.equal(s.asked(), 1);
});

test("a gap and an overlap are asked again, a lost connection is told", async (t) => {
  const s = await serve(t, (asked) => [{ n: asked }], { exact: (asked) => asked !== 1 });
  const w = s.watch({ columns: ["n"] });
  await until(() => w.last().status === "live");
  assert.equal(s.asked(), 2);
  s.streams.at(-1)?.write('event: gap\nid: g\ndata: {"from":"a","to":"b","reason":"retention"}\n\n');
  await until(() => w.last().rows[0]?.["n"] === 3 && w.last().status === "live");
  s.send({ n: 10 }, "r10");
  await until(() => w.last().rows.length === 2);
  s.streams.at(-1)?.destroy();
  await until(() => w.states.some((state) => state.status === "reconnecting"));
  await until(() => w.last().status === "live");
  assert.equal(s.resumed.at(-1), "r10");
  assert.deepEqual(w.last().rows, [{ n: 3 }, { n: 10 }]);
  assert.equal(s.asked(), 3);
});

test("a failure that will not pass closes the query, one that will is told and tried again", async (t) => {
  const s = await serve(t, () => [{ n: 1 }], { ask: (asked) => (asked === 1 ? failure(503, "clickhouse.unavailable", true) : undefined) });
  const w = s.watch({ columns: ["n"] });
  await until(() => w.last().status === "live");
  assert.ok(w.states.some((state) => state.status === "connecting" && state.error?.code === "clickhouse.unavailable"));
  const refused = await serve(t, () => [], { ask: () => failure(403, "auth.forbidden", false) });
  const x = refused.watch({ columns: ["n"] });
  await until(() => x.last().status === "closed");
  assert.equal(x.last().error?.code, "auth.forbidden");
  const again = x.query.subscribe(() => undefined);
  await until(() => refused.asked() === 2);
  again();
});

test("subscribers of equal queries share one connection, and the last one ends it", async (t) => {
  const s = await serve(t, () => [{ n: 1 }]);
  const build = () => s.client.live(s.client.from("t").select("n", avg("n")));
  const leave = [build().subscribe(() => undefined), build().subscribe(() => undefined)];
  await until(() => build().state.status === "live");
  assert.equal(s.asked(), 1);
  assert.equal(s.streams.length, 1);
  leave[0]?.();
  const stay = build().subscribe(() => undefined);
  leave[1]?.();
  await new Promise((done) => setTimeout(done, 1100));
  assert.equal(s.streams[0]?.destroyed, false);
  stay();
  await until(() => s.streams[0]?.destroyed === true);
  assert.equal(build().state.status, "connecting", "a new one begins anew");
  for await (const state of build()) {
    if (state.status === "live") {
      break;
    }
  }
  assert.equal(s.asked(), 2);
});
