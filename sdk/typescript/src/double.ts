// Query documents over rows in memory, as the double of `testing` answers them.
import type { QueryDocument } from "./document.js";
import { aggregate, nameOf, uniques } from "./doubleaggregates.js";
import { bound, compare, directed, instant, meets, print, Refused, startOf, unsupported } from "./doublevalues.js";

type Values = Record<string, unknown>;
type Read = (row: Values, name: string) => unknown;

export interface Answer {
  rows: Values[];
  totals?: Values;
  /** The bound that cut it. */
  truncated?: string;
}

const known = [
  "columns", "select_all", "distinct", "aggregations", "filters", "group_by", "having", "totals", "order_by", "limit", "offset", "time_range", "time_bucket",
  "compare", "int64",
];
const mostRows = 10_000;

/** What a server would refuse, and what the double does not do. */
function check(document: QueryDocument): void {
  const { columns = [], select_all, aggregations = [], group_by = [], time_bucket: bucket, time_range: range, limit = 0 } = document;
  const strange = Object.keys(document).find((key) => !known.includes(key));
  if (strange !== undefined) {
    throw new Refused(`unknown key ${print(strange)}`);
  }
  if (columns.length + aggregations.length === 0 && !select_all && bucket === undefined) {
    throw new Refused("the query selects nothing: name columns or aggregations, or set select_all");
  }
  const grouped = aggregations.length > 0 || group_by.length > 0;
  const alone = columns.find((column) => !group_by.includes(column));
  if (grouped && (select_all || alone !== undefined)) {
    throw new Refused(`the column ${print(alone ?? "*")} is not grouped by`, "clickhouse.rejected");
  }
  if (document.distinct && grouped) {
    throw new Refused("distinct: not in a query that groups or aggregates");
  }
  if (document.totals && group_by.length === 0 && (bucket === undefined || !grouped)) {
    throw new Refused("totals: without groups the answer is one row, which is its own total");
  }
  if (limit > mostRows) {
    throw new Refused(`limit: ${limit} rows are more than the ${mostRows} that query.default_max_rows lets an answer have`);
  }
  const zone = [bucket?.time_zone, range?.time_zone].find((z) => z !== undefined && z !== "UTC");
  const lacks: [unknown, string][] = [
    [document.compare, "compare"], [bucket?.fill, "fill of a time_bucket"], [zone, `time_zone ${zone}`], [document.int64 === "string", 'int64 "string"'],
  ];
  const lacking = lacks.find(([is]) => is);
  if (lacking) {
    throw unsupported(lacking[1]);
  }
}

/** The answer of a document over rows. */
export function evaluate(document: QueryDocument, all: Values[]): Answer {
  check(document);
  const { columns = [], aggregations = [], filters = [], having = [], group_by = [], order_by = [], time_bucket: bucket, time_range: range } = document;
  const since = bound(range?.since) ?? -Infinity;
  const until = bound(range?.until) ?? Infinity;
  const within = (at: unknown) => at !== null && at !== undefined && instant(at) >= since && instant(at) < until;
  const read = reader(all);
  const rows = all.filter((row) => filters.every((f) => meets(f, (name) => read(row, name))) && (range === undefined || within(read(row, range.column))));
  const name = bucket?.alias ?? "time_bucket";
  const shown = rows.map((row) => {
    const picked: Values = document.select_all ? { ...row } : Object.fromEntries(columns.map((c) => [c, read(row, c)]));
    return bucket === undefined ? picked : { ...picked, [name]: startOf(read(row, bucket.column), bucket.every) };
  });
  let answer = document.distinct ? uniques(shown) : shown;
  let totals: Values | undefined;
  if (aggregations.length > 0 || group_by.length > 0) {
    const groups = new Map<string, { first: Values; rows: Values[] }>();
    rows.forEach((row, i) => {
      const of = group_by.map((c) => (bucket && c === name ? undefined : read(row, c)));
      const key = print([of, bucket && shown[i]?.[name]]);
      const group = groups.get(key) ?? { first: shown[i] as Values, rows: [] };
      group.rows.push(row);
      groups.set(key, group);
    });
    if (groups.size === 0 && group_by.length === 0 && bucket === undefined) {
      groups.set("", { first: {}, rows: [] });
    }
    const over = (first: Values, members: Values[]): Values => ({
      ...first,
      ...Object.fromEntries(aggregations.map((a) => [a.alias ?? nameOf(a), aggregate(a, members, read)])),
    });
    const kept = [...groups.values()]
      .map((group) => ({ ...group, shown: over(group.first, group.rows) }))
      .filter(({ rows: [one = {}], shown: row }) => having.every((f) => meets(f, named(row, group_by, one, read))));
    answer = kept.map((group) => group.shown);
    if (document.totals) {
      const names = [...columns, ...(bucket === undefined ? [] : [name])];
      totals = over(Object.fromEntries(names.map((n) => [n, null])), kept.flatMap((group) => group.rows));
    }
  } else if (having.length > 0) {
    throw new Refused("having: the query has no groups");
  }
  // A column that is not shown orders rows, too.
  const sources = new Map(answer === shown ? shown.map((row, i) => [row, rows[i] as Values]) : []);
  const valueOf = (row: Values, column: string): unknown => {
    const source = sources.get(row);
    if (!(column in row) && source === undefined) {
      throw new Refused(`order_by: there is no output ${print(column)}`);
    }
    return column in row ? row[column] : read(source as Values, column);
  };
  const sorted = answer
    .map((row) => ({ row, by: order_by.map(({ column }) => valueOf(row, column)) }))
    .sort((a, b) => order_by.reduce((order, { dir }, i) => order || directed(compare(a.by[i], b.by[i]), dir, a.by[i], b.by[i]), 0))
    .map(({ row }) => row);
  const { offset = 0, limit = mostRows } = document;
  const cut = sorted.length > offset + limit;
  return {
    rows: sorted.slice(offset, offset + limit),
    ...(totals && { totals }),
    ...(cut && { truncated: document.limit === undefined ? "query.default_max_rows" : "limit" }),
  };
}

/** Reads columns of a table's rows. */
function reader(rows: Values[]): Read {
  const columns = new Set(rows.flatMap((row) => Object.keys(row)));
  return (row, name) => {
    if (/[.[]/.test(name) && !columns.has(name)) {
      throw unsupported(`parts of columns, such as ${name}`);
    }
    return row[name] ?? null;
  };
}

/** What `having` may name. */
function named(row: Values, groupBy: readonly string[], one: Values, read: Read): (name: string) => unknown {
  return (name) => {
    if (!(name in row) && !groupBy.includes(name)) {
      throw new Refused(`having: there is no output and no group ${print(name)}`);
    }
    return name in row ? row[name] : read(one, name);
  };
}
