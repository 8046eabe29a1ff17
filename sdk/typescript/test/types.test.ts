// What must and must not compile: the compiler reads this before the tests run.
import assert from "node:assert/strict";
import { test } from "node:test";

import { and, argMax, avg, count, histogram, max, not, on, or, ratio, sum, topK, type Bin, type LiveQuery, type Page, WaveHouse, type QueryDocument, type StreamEvent } from "@wavehouse/sdk";

import { json, Stub } from "./stub.js";

interface Database {
  tables: {
    flights: {
      row: { origin: string; delay: number | null; bytes: number | bigint; at: string; tags: string[] };
      insert: { origin: string; delay?: number | null; at: string | Date };
    };
    clicks: { row: { page: string }; insert: { page: string } };
  };
  pipes: { top: { params: { since: string; limit?: number }; row: { origin: string; n: number } } };
}

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Equal<A, B>): void {}

test("what a document selects is what its rows hold", async (t) => {
  const stub = await Stub.start(json(200, []));
  t.after(() => stub[Symbol.asyncDispose]());
  const wh = new WaveHouse<Database>({ url: stub.url });

  const built = await wh.from("flights")
    .select("origin", count(), avg("delay").as("mean"), max("at"), sum("bytes"))
    .where("delay", "gt", 10)
    .where("origin", "in", ["FRA", "MUC"])
    .where("at", "gte", new Date(0))
    .where("delay", "is_not_null")
    .timeBucket("at", "1h", "hour")
    .timeRange("at", "7d")
    .groupBy("origin", "hour")
    .orderBy("mean", "desc")
    .limit(5);
  same<typeof built, { origin: string; count: number; mean: number | null; max_at: string; sum_bytes: number | bigint; hour: string }[]>(true);
  assert.deepEqual(JSON.parse(stub.received[0]?.body ?? ""), {
    columns: ["origin"],
    aggregations: [
      { fn: "count", alias: "count" }, { fn: "avg", column: "delay", alias: "mean" },
      { fn: "max", column: "at", alias: "max_at" }, { fn: "sum", column: "bytes", alias: "sum_bytes" },
    ],
    filters: [
      { column: "delay", op: "gt", value: 10 }, { column: "origin", op: "in", value: ["FRA", "MUC"] },
      { column: "at", op: "gte", value: "1970-01-01T00:00:00.000Z" }, { column: "delay", op: "is_not_null" },
    ],
    time_bucket: { column: "at", every: "1h", alias: "hour" },
    time_range: { column: "at", since: "7d" },
    group_by: ["origin", "hour"],
    order_by: [{ column: "mean", dir: "desc" }],
    limit: 5,
  });

  const rows = await wh.query("flights", { columns: ["origin"], aggregations: [{ fn: "count", alias: "n" }], time_bucket: { column: "at", every: "1h" } });
  same<typeof rows, { origin: string; n: number; time_bucket: string }[]>(true);
  const compared = await wh.query("flights", {
    columns: ["origin"], aggregations: [{ fn: "count", alias: "n" }], time_range: { column: "at", since: 1730615400123 }, compare: "1mo",
  });
  same<typeof compared, { origin: string; n: number; n_previous: number }[]>(true);
  const days = wh.from("flights").select(count())
    .timeBucket("at", "1d", "day", { time_zone: "Europe/Berlin", fill: true })
    .timeRange("at", "-1mo", "today", { time_zone: "Europe/Berlin" })
    .compare("previous");
  assert.deepEqual(days.document, {
    aggregations: [{ fn: "count", alias: "count" }],
    time_bucket: { column: "at", every: "1d", alias: "day", time_zone: "Europe/Berlin", fill: true },
    time_range: { column: "at", since: "-1mo", until: "today", time_zone: "Europe/Berlin" },
    compare: "previous",
  });
  const previous: number | undefined = (await days)[0]?.count_previous;
  assert.equal(previous, undefined);
  const all = await wh.from("clicks").selectAll();
  same<typeof all, { page: string }[]>(true);
  const own = await wh.query<{ n: bigint }>("flights", { aggregations: [{ fn: "sum", column: "bytes", alias: "n" }] });
  same<typeof own, { n: bigint }[]>(true);
  const top = await wh.pipe("top", { since: "2026-01-01" });
  same<typeof top, { origin: string; n: number }[]>(true);
  same<ReturnType<typeof wh.stream<"clicks">>, AsyncGenerator<StreamEvent<{ page: string }>, void, undefined>>(true);
  await wh.insert("clicks", []);

  const grouped = wh.from("flights")
    .select("origin", argMax("delay", "at").as("last"), topK("tags", 3), histogram("delay"), count().where("delay", "gt", 10).as("late"),
      ratio(count().where("delay", "gt", 10), count("delay"), 100).as("percent"))
    .groupBy("origin")
    .having("late", "gte", 2)
    .having("origin", "in", ["FRA"]);
  type Grouped = { origin: string; last: number | null; top_k_tags: string[][]; histogram_delay: Bin[]; late: number; percent: number | null };
  const listed = await grouped;
  same<typeof listed, Grouped[]>(true);
  const totalled = () => grouped.withTotals();
  same<Awaited<ReturnType<typeof totalled>>["totals"], { [K in keyof Grouped]: Grouped[K] | null }>(true);
  assert.deepEqual(JSON.parse(stub.received.at(-1)?.body ?? ""), {
    columns: ["origin"],
    aggregations: [
      { fn: "arg_max", column: "delay", by: "at", alias: "last" }, { fn: "top_k", column: "tags", params: [3], alias: "top_k_tags" },
      { fn: "histogram", column: "delay", alias: "histogram_delay" },
      { fn: "count", where: [{ column: "delay", op: "gt", value: 10 }], alias: "late" },
      {
        fn: "ratio", alias: "percent", scale: 100, numerator: { fn: "count", where: [{ column: "delay", op: "gt", value: 10 }] },
        denominator: { fn: "count", column: "delay" },
      },
    ],
    group_by: ["origin"],
    having: [{ column: "late", op: "gte", value: 2 }, { column: "origin", op: "in", value: ["FRA"] }],
  });
  // @ts-expect-error there is no such column to decide
  wh.from("flights").select(argMax("delay", "nope"));
  // @ts-expect-error nor to filter by
  wh.from("flights").select(count().where("nope", "eq", 1));
  // @ts-expect-error nor in a ratio
  wh.from("flights").select(ratio(count("nope"), count()));
  // @ts-expect-error an aggregation that is not selected has no groups to leave out
  wh.from("flights").select("origin", count()).having("late", "gt", 1);

  const parts = wh.from("flights")
    .select("origin", "tags[1]", max("tags[2]").as("second"))
    .where(or(on("origin", "starts_with", "F"), and(not(on("tags[1]", "ilike", "%x%")), on("delay", "between", [1, 2]))))
    .where("tags", "contains_any", ["a"]).where("delay", "not_between", [5, 7]).where("origin", "contains", "R").where("tags[1]", "eq", "a")
    .groupBy("origin", "tags[1]").orderBy("tags[1]");
  const parted = await parts;
  same<typeof parted, { origin: string; second: unknown; "tags[1]": unknown }[]>(true);
  assert.deepEqual(JSON.parse(stub.received.at(-1)?.body ?? "").filters, [
    { or: [
      { column: "origin", op: "starts_with", value: "F" },
      { and: [{ not: { column: "tags[1]", op: "ilike", value: "%x%" } }, { column: "delay", op: "between", value: [1, 2] }] },
    ] },
    { column: "tags", op: "contains_any", value: ["a"] }, { column: "delay", op: "not_between", value: [5, 7] },
    { column: "origin", op: "contains", value: "R" }, { column: "tags[1]", op: "eq", value: "a" },
  ]);
  // @ts-expect-error there is no such column inside of a group
  wh.from("flights").where(or(on("orign", "eq", "x"), on("origin", "eq", "y")));
  // @ts-expect-error nor one with such a part
  wh.from("flights").select("orign.x");
  // @ts-expect-error two bounds are asked for
  wh.from("flights").where("delay", "between", [1]);
  // @ts-expect-error an element of the array is asked for
  wh.from("flights").where("tags", "contains", 1);

  // A document is typed by what it selects, wherever it goes.
  const counted = wh.from("flights", {
    columns: ["origin"], aggregations: [{ fn: "count", alias: "n" }], group_by: ["origin"], order_by: [{ column: "n", dir: "desc" }, { column: "tags[1]" }],
  });
  type Counted = { origin: string; n: number };
  same<Awaited<typeof counted>, Counted[]>(true);
  same<ReturnType<typeof counted.pages>, AsyncGenerator<Page<Counted>, void, undefined>>(true);
  const followed = () => wh.live({ table: "flights", document: { columns: ["origin"], aggregations: [{ fn: "count", alias: "n" }], group_by: ["origin"] } });
  same<ReturnType<typeof followed>, LiveQuery<Counted>>(true);
  const whole = wh.from("flights", {
    columns: ["origin"],
    aggregations: [
      { fn: "count", alias: "late", where: [{ or: [{ column: "delay", op: "gt", value: new Date(0) }, { not: { column: "tags[1]", op: "in", value: ["a"] } }] }] },
      { fn: "ratio", alias: "share", scale: 100, numerator: { fn: "count", where: [{ column: "delay", op: "is_null" }] }, denominator: { fn: "count", column: "*" } },
      { fn: "quantile", column: "delay", params: [0.5], alias: "half" },
    ],
    group_by: ["origin"],
    having: [{ and: [{ column: "late", op: "gt", value: 1 }, { column: "origin", op: "starts_with", value: "F" }] }],
    time_range: { column: "at", since: "-7d", time_zone: "UTC" },
    int64: "exact",
  });
  same<Awaited<typeof whole>, { origin: string; late: number; share: number | null; half: number | null }[]>(true);
  const shared: QueryDocument<"origin"> = { columns: ["origin"], order_by: [{ column: "origin" }] };
  await wh.query("flights", shared);

  // A builder leaves what it was made from as it is.
  const base = wh.from("clicks").select("page");
  base.limit(1);
  assert.equal(base.document.limit, undefined);

  const anything = new WaveHouse({ url: stub.url });
  const untyped = await anything.query("whatever", { columns: ["x"] });
  same<typeof untyped, Record<string, unknown>[]>(true);
  const document: QueryDocument = { select_all: true };
  await anything.query("whatever", document);
  await anything.from("t").select("a", count()).where("b", "eq", 1).rows();
});

// Never run: what stands here must not compile.
export function refused(wh: WaveHouse<Database>): unknown[] {
  return [
    // @ts-expect-error: no such table
    wh.from("flihgts"),
    // @ts-expect-error: no such column
    wh.from("flights").select("orign"),
    // @ts-expect-error: no such column in an aggregation
    wh.from("flights").select(avg("dela")),
    // @ts-expect-error: a number is not compared with text
    wh.from("flights").where("delay", "gt", "ten"),
    // @ts-expect-error: a list is asked for
    wh.from("flights").where("origin", "in", "FRA"),
    // @ts-expect-error: no value is taken
    wh.from("flights").where("delay", "is_null", 1),
    // @ts-expect-error: no such operator
    wh.from("flights").where("delay", "greater", 1),
    // @ts-expect-error: neither a column nor an output
    wh.from("flights").select("origin").orderBy("orign"),
    // @ts-expect-error: no such table
    wh.query("flihgts", { columns: ["origin"] }),
    // @ts-expect-error: no such column
    wh.query("flights", { columns: ["orign"] }),
    // @ts-expect-error: no such column in a filter
    wh.query("flights", { columns: ["origin"], filters: [{ column: "dely", op: "eq", value: 1 }] }),
    // @ts-expect-error: no such key
    wh.query("flights", { columns: ["origin"], gruop_by: ["origin"] }),
    // @ts-expect-error: neither a column nor an output
    wh.query("flights", { columns: ["origin"], order_by: [{ column: "orign" }] }),
    // @ts-expect-error: neither a column nor an output in a condition on groups
    wh.query("flights", { columns: ["origin"], aggregations: [{ fn: "count", alias: "n" }], having: [{ column: "m", op: "gt", value: 1 }] }),
    // @ts-expect-error: nor in a group of such conditions
    wh.query("flights", { aggregations: [{ fn: "count", alias: "n" }], having: [{ or: [{ column: "n", op: "gt", value: 1 }, { not: { column: "m", op: "eq", value: 1 } }] }] }),
    // @ts-expect-error: no such column in an aggregation of a document
    wh.query("flights", { aggregations: [{ fn: "sum", column: "dely" }] }),
    // @ts-expect-error: no such column to decide
    wh.query("flights", { aggregations: [{ fn: "arg_max", column: "delay", by: "att" }] }),
    // @ts-expect-error: no such column in the conditions of an aggregation
    wh.query("flights", { aggregations: [{ fn: "count", where: [{ column: "dely", op: "gt", value: 1 }] }] }),
    // @ts-expect-error: nor in a group of them
    wh.query("flights", { aggregations: [{ fn: "count", where: [{ or: [{ column: "delay", op: "gt", value: 1 }, { not: { column: "dely", op: "eq", value: 1 } }] }] }] }),
    // @ts-expect-error: no such column in a ratio
    wh.query("flights", { aggregations: [{ fn: "ratio", numerator: { fn: "count", column: "dely" }, denominator: { fn: "count" } }] }),
    // @ts-expect-error: nor in the conditions of one
    wh.query("flights", { aggregations: [{ fn: "ratio", numerator: { fn: "count" }, denominator: { fn: "count", where: [{ column: "dely", op: "gt", value: 1 }] } }] }),
    // @ts-expect-error: no such key of an aggregation
    wh.query("flights", { aggregations: [{ fn: "count", aliass: "n" }] }),
    // @ts-expect-error: no such key of the second one
    wh.query("flights", { aggregations: [{ fn: "count" }, { fn: "sum", column: "delay", filter: [] }] }),
    // @ts-expect-error: no such key inside of a ratio
    wh.query("flights", { aggregations: [{ fn: "ratio", numerator: { fn: "count", wher: [] }, denominator: { fn: "count" } }] }),
    // @ts-expect-error: no such key of a condition
    wh.query("flights", { aggregations: [{ fn: "count", where: [{ column: "delay", op: "is_null", valu: 1 }] }] }),
    // @ts-expect-error: no such key of a bucket
    wh.query("flights", { columns: ["origin"], time_bucket: { column: "at", every: "1h", zone: "UTC" } }),
    // @ts-expect-error: no such key in a live query
    wh.live({ table: "flights", document: { aggregations: [{ fn: "count", aliass: "n" }] } }),
    // @ts-expect-error: no such key in an export
    wh.export("flights", { aggregations: [{ fn: "count", aliass: "n" }] }, "csv"),
    // @ts-expect-error: no such key where a builder begins
    wh.from("flights", { aggregations: [{ fn: "count", aliass: "n" }] }),
    // @ts-expect-error: no such column in the second condition of an aggregation
    wh.from("flights").select(count().where("delay", "gt", 1).where("dely", "lt", 5)),
    // @ts-expect-error: no such column in a group of conditions of an aggregation
    wh.from("flights").select(sum("delay").filter(or(on("delay", "gt", 1), not(on("dely", "eq", 2))))),
    // @ts-expect-error: no such column in the divisor's conditions
    wh.from("flights").select(ratio(count(), count().where("dely", "gt", 1))),
    // @ts-expect-error: no such column that is divided
    wh.from("flights").select(ratio(sum("delay"), argMax("delay", "att"))),
    // @ts-expect-error: a list is asked for in a condition of an aggregation
    wh.from("flights").select(count().where("origin", "in", "FRA")),
    // @ts-expect-error: neither a column nor an output is kept
    wh.from("flights").select("origin", count().as("n")).having("m", "gt", 1),
    // @ts-expect-error: nothing that can be grouped by
    wh.query("flights", { aggregations: [{ fn: "count" }], group_by: ["orign"] }),
    // @ts-expect-error: no such column
    wh.from("flights", { columns: ["orign"] }),
    // @ts-expect-error: no such column in a live query
    wh.live({ table: "flights", document: { columns: ["orign"] } }),
    // @ts-expect-error: no such column in a range
    wh.from("flights").timeRange("att", "1d"),
    // @ts-expect-error: no such column in a bucket
    wh.from("flights").timeBucket("att", "1d"),
    // @ts-expect-error: no such format
    wh.export("flights", { columns: ["origin"] }, "xml"),
    // @ts-expect-error: no such table in a stream
    wh.stream("flihgts"),
    // @ts-expect-error: a batcher takes the table's rows
    wh.batcher("clicks").add({ pgae: "/" }),
    // @ts-expect-error: a column is missing
    wh.insert("flights", { at: "2026-01-01" }),
    // @ts-expect-error: a wrong type
    wh.insert("flights", { origin: 1, at: "2026-01-01" }),
    // @ts-expect-error: a column that cannot be inserted
    wh.insert("clicks", { page: "/", id: 1 }),
    // @ts-expect-error: no such pipe
    wh.pipe("bottom", {}),
    // @ts-expect-error: a parameter is missing
    wh.pipe("top", {}),
  ];
}
