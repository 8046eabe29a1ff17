import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { Window } from "happy-dom";
import { act, Component, createElement as h, StrictMode, Suspense, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { renderToString } from "react-dom/server";

import { count, WaveHouse, WaveHouseError } from "@wavehouse/sdk";
import { useInsert, useLive, useQuery, useStatus, useWaveHouse, WaveHouseProvider } from "@wavehouse/sdk/react";

import { failure, ingest, json, Stub, type Answer } from "./stub.js";

const page = new Window({ url: "http://localhost/" });
Object.assign(globalThis, { window: page, document: page.document, IS_REACT_ACT_ENVIRONMENT: true });

interface App {
  text(): string;
  render(node: ReactNode): Promise<void>;
  unmount(): Promise<void>;
  warnings: string[];
}

async function mount(t: TestContext, client: WaveHouse, node: ReactNode): Promise<App> {
  const warnings: string[] = [];
  t.mock.method(console, "error", (...parts: unknown[]) => warnings.push(parts.join(" ")));
  const place = page.document.createElement("div");
  const root = createRoot(place as unknown as Element);
  const app: App = {
    warnings,
    text: () => place.textContent,
    render: (inner) => act(async () => root.render(h(StrictMode, null, h(WaveHouseProvider, { client } as never, inner)))),
    unmount: () => act(async () => root.unmount()),
  };
  await app.render(node);
  t.after(() => app.unmount());
  return app;
}

async function until(what: () => boolean): Promise<void> {
  for (let i = 0; i < 2000 && !what(); i++) {
    await act(() => new Promise((done) => setTimeout(done, 10)));
  }
  assert.ok(what(), what.toString());
}

/** Answers queries with `rows(n)` for the nth, and opens streams that stay quiet. */
function server(rows: (asked: number, sent: Record<string, unknown>) => Answer): { answer: Answer; asked: () => number; streams: () => number } {
  let asked = 0;
  let streams = 0;
  return {
    asked: () => asked,
    streams: () => streams,
    answer: (response, request) => {
      if (request.url.pathname === "/v1/stream") {
        streams++;
        response.on("close", () => streams--);
        response.writeHead(200, { "Content-Type": "text/event-stream" });
        response.write(": connected\n\nid: o\n\n");
        return;
      }
      rows(++asked, JSON.parse(request.body) as Record<string, unknown>)(response, request);
    },
  };
}

const at = { "X-Stream-Position": "p", "X-Stream-Join": "exact" };

test("the hooks say what the server says of their answers", async (t) => {
  const s = server((asked) => json(200, [{ n: asked }], { ...at, "X-Cache": "HIT", "X-Result-Truncated": "limit", "X-Rows-Read": "7" }));
  const stub = await Stub.start(s.answer);
  t.after(() => stub[Symbol.asyncDispose]());
  function Show(): ReactNode {
    const query = useWaveHouse().from("t").select("n").limit(1);
    return [useQuery(query), useLive(query)].map(({ meta }) => `${meta?.cached} ${meta?.truncated} ${meta?.rowsRead}`).join(", ");
  }
  const app = await mount(t, new WaveHouse({ url: stub.url }), h(Show));
  await until(() => app.text() === "true limit 7, true limit 7");
});

test("a query is asked once for equal documents, again when it changes, and on demand", async (t) => {
  const s = server((asked, sent) => json(200, [{ n: asked, limit: sent["limit"] }]));
  const stub = await Stub.start(s.answer);
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url });
  let again = () => {};
  function Show({ limit }: { limit: number }): ReactNode {
    const { rows, loading, refetch } = useQuery(useWaveHouse().from("t").select("n", "limit").limit(limit));
    again = refetch;
    return `${loading ? "…" : ""}${JSON.stringify(rows)}`;
  }
  const app = await mount(t, client, h(Show, { limit: 1 }));
  await until(() => app.text().startsWith("["));
  const first = s.asked();
  await app.render(h(Show, { limit: 1 }));
  assert.equal(s.asked(), first, "an equal query of another render is the same");
  await app.render(h(Show, { limit: 2 }));
  await until(() => app.text().endsWith('"limit":2}]'));
  assert.equal(s.asked(), first + 1);
  await act(async () => again());
  await until(() => s.asked() === first + 2 && !app.text().startsWith("…"));
  assert.deepEqual(app.warnings, []);
});

test("a query that fails says so, and null asks nothing", async (t) => {
  const s = server(() => failure(403, "auth.forbidden", false));
  const stub = await Stub.start(s.answer);
  t.after(() => stub[Symbol.asyncDispose]());
  function Show({ on }: { on: boolean }): ReactNode {
    const { error, loading } = useQuery(on ? { table: "t", document: { select_all: true } } : null);
    return error?.code ?? (loading ? "loading" : "idle");
  }
  const app = await mount(t, new WaveHouse({ url: stub.url }), h(Show, { on: false }));
  assert.equal(app.text(), "idle");
  assert.equal(s.asked(), 0);
  await app.render(h(Show, { on: true }));
  await until(() => app.text() === "auth.forbidden");
});

test("a live query in StrictMode has one connection, shared by its components, and none when they are gone", async (t) => {
  const s = server(() => json(200, [{ count: 3 }], at));
  const stub = await Stub.start(s.answer);
  t.after(() => stub[Symbol.asyncDispose]());
  const query = () => ({ table: "t", document: { aggregations: [{ fn: "count" }] } });
  const Rows = (): ReactNode => JSON.stringify(useLive<{ table: string; document: object }>(query()).rows);
  const Status = (): ReactNode => useStatus(query());
  const app = await mount(t, new WaveHouse({ url: stub.url }), [h(Rows, { key: 1 }), " ", h(Status, { key: 2 })]);
  await until(() => app.text() === '[{"count":3}] live');
  assert.equal(s.asked(), 1);
  assert.equal(s.streams(), 1);
  await app.unmount();
  await until(() => s.streams() === 0);
  assert.deepEqual(app.warnings, []);
});

class Boundary extends Component<{ children: ReactNode }, { error?: WaveHouseError }> {
  override state: { error?: WaveHouseError } = {};
  static getDerivedStateFromError(error: WaveHouseError): { error: WaveHouseError } {
    return { error };
  }
  override render(): ReactNode {
    return this.state.error ? `failed: ${this.state.error.code}` : this.props.children;
  }
}

test("with suspense a component waits for the first answer, and an error reaches the boundary", async (t) => {
  let status = 200;
  const s = server(() => (status === 200 ? json(200, [{ n: 1 }], at) : failure(403, "auth.forbidden", false)));
  const stub = await Stub.start(s.answer);
  t.after(() => stub[Symbol.asyncDispose]());
  const client = new WaveHouse({ url: stub.url });
  const Rows = ({ column }: { column: string }): ReactNode => JSON.stringify(useLive(client.from("t").select(column), { suspense: true }).rows);
  const tree = (column: string) => h(Boundary, { key: column, children: h(Suspense, { fallback: "waiting" }, h(Rows, { column })) });
  const app = await mount(t, client, tree("n"));
  await until(() => app.text() === '[{"n":1}]');
  status = 403;
  await app.render(tree("secret"));
  await until(() => app.text() === "failed: auth.forbidden");
});

test("an insert tells what became of it", async (t) => {
  const stub = await Stub.start(ingest((row) => (row["n"] === "x" ? "bad" : undefined)));
  t.after(() => stub[Symbol.asyncDispose]());
  let insert: (rows: object) => Promise<unknown> = async () => undefined;
  function Show(): ReactNode {
    const state = useInsert("t");
    insert = state.insert;
    return state.pending ? "pending" : (state.error?.code ?? state.result?.succeeded ?? "idle");
  }
  const app = await mount(t, new WaveHouse({ url: stub.url }), h(Show));
  await act(async () => void (await insert({ n: 1 })));
  assert.equal(app.text(), "1");
  await act(async () => void (await insert({ n: "x" }).catch(() => undefined)));
  assert.equal(app.text(), "record.type_mismatch");
  assert.deepEqual(app.warnings, []);
});

test("on a server it renders without asking and without a warning", async (t) => {
  const warnings: string[] = [];
  t.mock.method(console, "error", (...parts: unknown[]) => warnings.push(parts.join(" ")));
  const client = new WaveHouse({ url: "http://127.0.0.1:1" });
  function Show(): ReactNode {
    const live = useLive(useWaveHouse().from("t").select(count()), { suspense: false });
    return `${live.status} ${useQuery({ table: "t", document: { select_all: true } }).loading} ${useInsert("t").pending}`;
  }
  assert.equal(renderToString(h(WaveHouseProvider, { client } as never, h(Show))), "connecting true false");
  assert.deepEqual(warnings, []);
  assert.throws(() => renderToString(h(Show)), /no WaveHouseProvider/);
});
