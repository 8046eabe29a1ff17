import assert = require("node:assert/strict");
import { test } from "node:test";

// Compiled as CommonJS, so that the types and the code of the require
// condition are what is read here.
import sdk = require("@wavehouse/sdk");

test("the CommonJS build is the same client", async () => {
  const esm = await import("@wavehouse/sdk");
  assert.deepEqual(Object.keys(sdk).sort(), Object.keys(esm).filter((k) => k !== "default" && k !== "module.exports").sort());
  assert.notEqual(sdk.WaveHouse, esm.WaveHouse, "two builds, so require did not load the ES module");
  const client: sdk.WaveHouse = new sdk.WaveHouse({ url: "http://x" });
  assert.ok(client instanceof sdk.WaveHouse);
});
