import assert from "node:assert/strict";
import { test } from "node:test";

import { InsertError, WaveHouse, WaveHouseError } from "@wavehouse/sdk";

import { ingest, json, Stub } from "./stub.js";

const { parseExact } = await import(new URL("../../dist/esm/json.js", import.meta.url).href);

test("numbers that JavaScript can hold are numbers, others keep every digit", () => {
  const cases: [string, unknown][] = [
    ["1", 1],
    ["-0.5", -0.5],
    ["9007199254740991", 9007199254740991],
    ["9007199254740993", 9007199254740993n],
    ["-9223372036854775808", -9223372036854775808n],
    ["18446744073709551615", 18446744073709551615n],
    ["0.30000000000000004", 0.30000000000000004],
    ["1.7976931348623157e308", 1.7976931348623157e308],
    ["123456789012345678.12", "123456789012345678.12"],
    ["0.1234567890123456789", "0.1234567890123456789"],
    ['"9007199254740993"', "9007199254740993"],
    ['"a\\"9007199254740993,\\\\"', 'a"9007199254740993,\\'],
  ];
  for (const [text, want] of cases) {
    assert.deepEqual(parseExact(`{"v":[${text}],"${"k".repeat(3)}":{"x":${text}}}`), { v: [want], kkk: { x: want } }, text);
    assert.equal(parseExact(text), want);
  }
  assert.throws(() => parseExact('{"v":9007199254740993'), SyntaxError);
});

test("queries and pipes answer exact integers unless asked otherwise", async (t) => {
  const stub = await Stub.start((response) => {
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end('[{"n":9007199254740993}]');
  });
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url });
  assert.deepEqual(await client.query("t", { columns: ["n"] }), [{ n: 9007199254740993n }]);
  assert.deepEqual(await client.from("t").select("n"), [{ n: 9007199254740993n }]);
  assert.deepEqual(await client.pipe("p", {}), [{ n: 9007199254740993n }]);
  assert.deepEqual(await client.query("t", { columns: ["n"], int64: "number" }), [{ n: 9007199254740992 }]);
  assert.equal(JSON.parse(stub.received[0]?.body ?? "").int64, undefined);
});

class Point {
  constructor(readonly x: number) {}
}

test("a value that JSON would turn into another is refused by its name, and nothing is sent for it", async (t) => {
  const stub = await Stub.start(ingest());
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url });
  const cases: [string, unknown, RegExp][] = [
    ["a Map", new Map([["a", 1]]), /^v is a Map, .*Object\.fromEntries/],
    ["a Set", new Set([1]), /^v is a Set, .*Array\.from/],
    ["a Set in an object in an array", [{ tags: new Set() }], /^v\[0\]\.tags is a Set/],
    ["a typed array", new Uint8Array(2), /^v is a Uint8Array/],
    ["a buffer", new ArrayBuffer(2), /^v is a ArrayBuffer/],
    ["a promise", Promise.resolve(1), /^v is a Promise/],
    ["an expression", /x/, /^v is a RegExp/],
    ["an error", new Error("x"), /^v is a Error/],
    ["a function", () => 1, /^v is a function/],
    ["a symbol", Symbol("x"), /^v is a symbol/],
    ["an invalid date", new Date(NaN), /^v is an invalid Date/],
    ["undefined in an array", [1, undefined], /^v\[1\] is undefined/],
    ["a hole", new Array(1), /^v\[0\] is undefined/],
  ];
  for (const [name, v, message] of cases) {
    const error = await client.insert("t", [{ v }]).then(() => undefined, (e: unknown) => e);
    assert.ok(error instanceof InsertError, name);
    assert.equal(error.code, "client.invalid_row", name);
    assert.match(error.result.failures[0]?.message ?? "", message, name);
  }
  assert.equal(stub.received.length, 0);
  const result = await client.insert("t", [{ v: new Point(1) }, { v: [new Date(0), null, true] }, { v: new Map() }]);
  assert.deepEqual([result.succeeded, result.failed], [2, 1]);
  assert.equal(stub.received[0]?.body, '{"v":{"x":1}}\n{"v":["1970-01-01T00:00:00.000Z",null,true]}\n');
});

test("an insert of which nothing was taken is no success", async (t) => {
  const stub = await Stub.start(ingest(() => "not a number"));
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url });
  const one = await client.insert("t", { n: "x" }).then(() => undefined, (e: unknown) => e);
  assert.ok(one instanceof InsertError);
  assert.equal(one.code, "record.type_mismatch");
  assert.equal(one.message, "the row was refused: not a number");
  assert.equal(one.details["column"], "n");
  const many = await client.insert("t", [{ n: "x" }, { n: "y" }]).then(() => undefined, (e: unknown) => e);
  assert.ok(many instanceof InsertError);
  assert.match(many.message, /^all 2 rows were refused, the first: /);
  assert.equal(many.result.failures.length, 2);
  const logged = JSON.parse(JSON.stringify(many)) as { code: string; confirmed: number; result: { failures: { index: number; message: string }[] } };
  assert.deepEqual([logged.code, logged.confirmed], ["record.type_mismatch", 2]);
  assert.deepEqual(logged.result.failures.map(({ index, message }) => [index, message]), [[0, "not a number"], [1, "not a number"]]);
  assert.equal((await client.insert("t", [])).total, 0);
});

test("an error prints what it holds, its causes included", async () => {
  const client = new WaveHouse({ url: "http://127.0.0.1:1", maxRetries: 0 });
  const error = await client.query("t", { select_all: true }).then(() => undefined, (e: unknown) => e);
  assert.ok(error instanceof WaveHouseError);
  assert.match(error.message, /no answer from the server: fetch failed: .*(ECONNREFUSED|bad port)/);
  const printed = JSON.parse(JSON.stringify(error)) as Record<string, unknown>;
  assert.equal(printed["code"], "client.network");
  assert.equal(printed["message"], error.message);
  assert.match(String(printed["cause"]), /fetch failed/);
});

test("an answer that still holds is not sent again", async (t) => {
  let text = '[{"n":1}]';
  const stub = await Stub.start((response, request) => {
    const tag = `"${text.length}"`;
    const same = request.headers["if-none-match"] === tag;
    response.writeHead(same ? 304 : 200, { "Content-Type": "application/json", ETag: tag });
    response.end(same ? undefined : text);
  });
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url });
  const first = await client.query<{ n: number }>("t", { columns: ["n"] });
  (first[0] as { n: number }).n = 7;
  assert.deepEqual(await client.query("t", { columns: ["n"] }), [{ n: 1 }], "from the kept text, not the caller's array");
  assert.equal(stub.received[1]?.headers["if-none-match"], '"9"');
  text = '[{"n":10}]';
  assert.deepEqual(await client.query("t", { columns: ["n"] }), [{ n: 10 }]);
  assert.deepEqual(await client.query("other", { columns: ["n"] }), [{ n: 10 }]);
  assert.equal(stub.received[3]?.headers["if-none-match"], undefined);
});

test("large bodies are compressed, small ones and refused runtimes are not", async (t) => {
  const stub = await Stub.start(ingest());
  t.after(() => stub[Symbol.asyncDispose]());
  const rows = Array.from({ length: 2000 }, (_, n) => ({ n }));
  assert.equal((await new WaveHouse({ url: stub.url }).insert("t", rows)).succeeded, 2000);
  await new WaveHouse({ url: stub.url, compress: false }).insert("t", rows);
  await new WaveHouse({ url: stub.url }).insert("t", { n: 1 });
  assert.deepEqual(stub.received.map((r) => r.headers["content-encoding"]), ["gzip", undefined, undefined]);
  assert.equal(stub.received[0]?.body, stub.received[1]?.body);
});

test("headers of one's own go with every request, but not over the client's", async (t) => {
  const stub = await Stub.start(json(200, []));
  t.after(() => stub[Symbol.asyncDispose]());
  let span = 0;
  const client = new WaveHouse({
    url: stub.url, token: "abc", headers: () => ({ traceparent: `00-${++span}`, "X-Request-ID": "r1", Authorization: "no" }),
  });
  await client.query("t", { select_all: true });
  await client.query("t", { select_all: true });
  assert.deepEqual(stub.received.map((r) => r.headers["traceparent"]), ["00-1", "00-2"]);
  assert.equal(stub.received[0]?.headers["x-request-id"], "r1");
  assert.equal(stub.received[0]?.headers.authorization, "Bearer abc");
});
