import assert from "node:assert/strict";
import { test } from "node:test";

import { WaveHouse, WaveHouseError } from "@wavehouse/sdk";

import { failure, FakeClock, json, Stub } from "./stub.js";

/** A token that ends at `exp`, in seconds since 1970. */
function jwt(exp: number | undefined, name: string): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "HS256" })}.${part({ exp, name: `${name}ÿ` })}.x`;
}

const ok = json(200, []);

test("a token is kept until shortly before its end", async (t) => {
  const stub = await Stub.start(ok);
  t.after(() => stub[Symbol.asyncDispose]());
  const clock = new FakeClock();
  const start = clock.time / 1000;
  const given: string[] = [];
  const token = () => {
    given.push(jwt(clock.time / 1000 + 60, `t${given.length}`));
    return given.at(-1);
  };
  const client = new WaveHouse({ url: stub.url, token, clock });
  await Promise.all([client.query("t", {}), client.query("t", {})]);
  clock.time = (start + 49) * 1000;
  await client.query("t", {});
  assert.equal(given.length, 1);
  clock.time = (start + 51) * 1000;
  await client.query("t", {});
  assert.equal(given.length, 2);
  assert.deepEqual(stub.received.map((r) => r.headers.authorization), [0, 0, 0, 1].map((n) => `Bearer ${given[n]}`));
});

test("a kept token that is refused is asked for anew, once", async (t) => {
  const stub = await Stub.start(ok, failure(401, "auth.token_expired", false), ok, failure(401, "auth.token_invalid", false));
  t.after(() => stub[Symbol.asyncDispose]());
  let asked = 0;
  const clock = new FakeClock();
  const client = new WaveHouse({ url: stub.url, clock, token: async () => jwt(clock.time / 1000 + 600, `t${asked++}`) });
  await client.query("t", {});
  await client.query("t", {});
  assert.equal(asked, 2);
  const error = await client.query("t", {}).then(() => undefined, (e: unknown) => e);
  assert.ok(error instanceof WaveHouseError);
  assert.equal(error.code, "auth.token_invalid");
  assert.equal(asked, 3);
  assert.equal(stub.received.length, 5);
});

test("a token that says no end is asked for before every attempt", async (t) => {
  const stub = await Stub.start(ok, failure(401, "auth.token_invalid", false));
  t.after(() => stub[Symbol.asyncDispose]());
  let asked = 0;
  const client = new WaveHouse({ url: stub.url, token: () => `opaque-${++asked}` });
  await client.query("t", {});
  await assert.rejects(client.query("t", {}), { code: "auth.token_invalid" });
  assert.deepEqual(stub.received.map((r) => r.headers.authorization), ["Bearer opaque-1", "Bearer opaque-2"]);
});
