// The built SDK through a network that fails: node faulty_network.mjs <dist> <url> <cuts>.
// Prints one line of JSON: what each stream brought, and what became of an insert.
import { pathToFileURL } from "node:url";

const [dist, url, cuts] = process.argv.slice(2);
const { WaveHouse } = await import(pathToFileURL(`${dist}/esm/index.js`).href);
const behind = (fault) => new WaveHouse({ url, headers: { "X-Fault": fault }, maxRetries: 20 });

async function read(fault, table, last) {
  const ids = [];
  for await (const event of behind(fault).stream(table, { since: "2001-01-01T00:00:00Z" })) {
    ids.push(event.type === "row" ? event.row.id : event.type);
    if (ids.at(-1) === last) return ids.join(" ");
  }
}

const moving = read("restart", "moving", "last");
const streams = {};
for (let from = 0; from < Number(cuts); from += 200) {
  await Promise.all(
    Array.from({ length: Math.min(200, Number(cuts) - from) }, async (_, i) => {
      streams[from + i] = await read(`cut-${from + i}`, "pages", "last");
    }),
  );
}
const { succeeded, duplicates } = await behind("lost").insert("stored", [{ id: "1" }, { id: "2" }], { idempotencyKey: "ts" });
const rows = await behind("busy").query("stored", { columns: ["id"], order_by: [{ column: "id" }] });
console.log(JSON.stringify({ streams, moving: await moving, taken: succeeded + duplicates, rows: rows.length }));
