import assert from "node:assert/strict";
import { test } from "node:test";

import { effectScope } from "vue";

import { WaveHouse, type LiveState } from "@wavehouse/sdk";
import { liveStore } from "@wavehouse/sdk/svelte";
import { liveRef } from "@wavehouse/sdk/vue";

import { json, Stub } from "./stub.js";

async function until(what: () => boolean): Promise<void> {
  for (let i = 0; i < 4000 && !what(); i++) {
    await new Promise((done) => setTimeout(done, 5));
  }
  assert.ok(what(), what.toString());
}

test("a live query is a store for Svelte and a ref for Vue, over one connection", async (t) => {
  let streams = 0;
  const stub = await Stub.start((response, request) => {
    if (request.url.pathname === "/v1/stream") {
      streams++;
      response.on("close", () => streams--);
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write(": connected\n\n");
      return;
    }
    json(200, [{ n: 1 }], { "X-Stream-Position": "p", "X-Stream-Join": "exact", "X-Rows-Read": "7" })(response, request);
  });
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url });
  const live = () => client.live(client.from("t").select("n"));
  const states: LiveState<unknown>[] = [];
  const leave = liveStore(live()).subscribe((state) => states.push(state));
  assert.equal(states[0]?.status, "connecting");
  const scope = effectScope();
  const ref = scope.run(() => liveRef(live()));
  await until(() => ref?.value.status === "live" && states.at(-1)?.status === "live");
  assert.deepEqual(ref?.value.rows, [{ n: 1 }]);
  assert.deepEqual([ref?.value.meta?.rowsRead, states.at(-1)?.meta?.rowsRead], [7, 7]);
  assert.equal(streams, 1);
  leave();
  scope.stop();
  await until(() => streams === 0);
});
