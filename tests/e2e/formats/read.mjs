// Reads answers with libraries that others wrote: read.mjs <url of a query> <document>.
// Prints a line of JSON: of each format the names of types and the first row.
import process from "node:process";

import { tableFromIPC } from "apache-arrow";
import { parquetMetadataAsync, parquetReadObjects } from "hyparquet";

const [url, document] = process.argv.slice(2);

async function answer(accept) {
  const response = await fetch(url, { method: "POST", body: document, headers: { Accept: accept } });
  if (response.status !== 200) {
    throw new Error(`${response.status}: ${await response.text()}`);
  }
  return response.arrayBuffer();
}

/** A value as JSON has it. */
function plain(value) {
  if (value === null || value === undefined) return null;
  if (typeof value === "bigint") return String(value);
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return [...value];
  if (typeof value.toJSON === "function") return plain(value.toJSON());
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]));
  return value;
}

/** The digits of a decimal, which the library gives as the words of an integer. */
function decimal(words, scale) {
  let whole = 0n;
  for (const word of [...words].reverse()) whole = (whole << 32n) | BigInt(word);
  whole = BigInt.asIntN(32 * words.length, whole);
  const digits = String(whole < 0n ? -whole : whole).padStart(scale + 1, "0");
  return `${whole < 0n ? "-" : ""}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

const table = tableFromIPC(new Uint8Array(await answer("application/vnd.apache.arrow.stream")));
const arrow = { rows: table.numRows, types: {}, row: {} };
for (const field of table.schema.fields) {
  const value = table.getChild(field.name).get(0);
  arrow.types[field.name] = String(field.type);
  arrow.row[field.name] = String(field.type).startsWith("Decimal") ? decimal(value, field.type.scale) : plain(value);
}

const file = await answer("application/vnd.apache.parquet");
const metadata = await parquetMetadataAsync(file);
const rows = await parquetReadObjects({ file });
const parquet = { rows: rows.length, codecs: [...new Set(metadata.row_groups.flatMap((g) => g.columns.map((c) => c.meta_data.codec)))], row: plain(rows[0]) };

console.log(JSON.stringify({ arrow, parquet }));
