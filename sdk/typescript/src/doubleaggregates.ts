// Aggregations of the double.
import type { Aggregation } from "./document.js";
import { compare, meets, print, Refused, unsupported } from "./doublevalues.js";

type Values = Record<string, unknown>;
type Read = (row: Values, name: string) => unknown;

export function uniques<T>(values: T[]): T[] {
  return [...new Map(values.map((v) => [print(v), v])).values()];
}

export function nameOf({ fn, column }: Aggregation): string {
  return column === undefined || column === "*" ? fn : `${fn}_${column}`;
}

/** An aggregation over rows, whose columns `read` reads. */
export function aggregate({ fn, column, params, by = "", where = [], numerator, denominator, scale = 1 }: Aggregation, all: Values[], read: Read): unknown {
  if (fn === "ratio" && numerator && denominator) {
    const [above, below] = [aggregate(numerator, all, read), aggregate(denominator, all, read)];
    return above === null || below === null || Number(below) === 0 ? null : (Number(above) * scale) / Number(below);
  }
  const rows = all.filter((row) => where.every((f) => meets(f, (c) => read(row, c))));
  const name = column ?? "";
  if (fn !== "count" && (column === undefined || column === "*")) {
    throw new Refused(`aggregations: ${fn} needs a column`);
  }
  const values = column === undefined || column === "*" ? rows.map(() => 1) : rows.map((row) => read(row, name)).filter((v) => v !== null);
  switch (fn) {
    case "count":
      return values.length;
    case "count_distinct":
    case "uniq":
      return new Set(values.map(print)).size;
    case "min":
    case "max":
      return values.length === 0 ? null : values.reduce((a, b) => ((fn === "min") === compare(b, a) < 0 ? b : a));
    case "any":
      return values[0] ?? null;
    case "any_last":
      return values.at(-1) ?? null;
    case "arg_max":
    case "arg_min": {
      const decided = rows.filter((row) => read(row, name) !== null && read(row, by) !== null);
      const found = decided.reduce<Values | undefined>((a, b) => (a === undefined || (fn === "arg_min") === compare(read(b, by), read(a, by)) < 0 ? b : a), undefined);
      return found === undefined ? null : read(found, name);
    }
    case "group_array":
      return values.slice(0, params?.[0] ?? 100);
    case "group_uniq_array":
      return uniques(values).slice(0, params?.[0] ?? 100);
    case "top_k": {
      const counts = new Map<string, number>();
      values.forEach((v) => counts.set(print(v), (counts.get(print(v)) ?? 0) + 1));
      return uniques(values).sort((a, b) => (counts.get(print(b)) ?? 0) - (counts.get(print(a)) ?? 0)).slice(0, params?.[0] ?? 10);
    }
  }
  return ofNumbers(fn, values, params);
}

function ofNumbers(fn: string, values: unknown[], params: readonly number[] = []): unknown {
  const numbers = values.map(Number).sort((a, b) => a - b);
  if (numbers.some(Number.isNaN)) {
    throw new Refused(`aggregations: ${fn} needs a column of numbers`);
  }
  const n = numbers.length;
  const mean = numbers.reduce((a, b) => a + b, 0) / n;
  const spread = (over: number) => (over < 1 ? null : numbers.reduce((sum, v) => sum + (v - mean) ** 2, 0) / over);
  const root = (v: number | null) => v && Math.sqrt(v);
  const level = (q: number) => {
    const at = q * (n - 1);
    const low = numbers[Math.floor(at)];
    return low === undefined ? null : low + ((numbers[Math.ceil(at)] ?? low) - low) * (at - Math.floor(at));
  };
  switch (fn) {
    case "sum":
      return values.some((v) => typeof v === "bigint") ? values.reduce((sum: bigint, v) => sum + BigInt(v as number), 0n) : numbers.reduce((a, b) => a + b, 0);
    case "avg":
      return n === 0 ? null : mean;
    case "var_pop":
      return spread(n);
    case "var_samp":
      return spread(n - 1);
    case "stddev_pop":
      return root(spread(n));
    case "stddev_samp":
      return root(spread(n - 1));
    case "median":
      return level(0.5);
    case "quantile":
      return level(params[0] ?? 0.5);
    case "quantiles":
      return params.map(level);
    case "histogram":
      return bins(numbers, params[0] ?? 10);
  }
  throw unsupported(`aggregation ${fn}`);
}

/** At most so many bins: the nearest values are joined until they are few enough. */
function bins(sorted: number[], most: number): unknown[] {
  const points: { at: number; count: number }[] = [];
  for (const at of sorted) {
    const last = points.at(-1);
    last?.at === at ? last.count++ : points.push({ at, count: 1 });
  }
  while (points.length > most) {
    const gaps = points.slice(1).map((p, i) => p.at - (points[i]?.at ?? 0));
    const i = gaps.indexOf(Math.min(...gaps));
    const [a, b] = points.slice(i, i + 2) as [{ at: number; count: number }, { at: number; count: number }];
    const count = a.count + b.count;
    points.splice(i, 2, { at: (a.at * a.count + b.at * b.count) / count, count });
  }
  const edge = (i: number) => (points[i - 1] && points[i] ? ((points[i - 1]?.at ?? 0) + (points[i]?.at ?? 0)) / 2 : i === 0 ? sorted[0] : sorted.at(-1));
  return points.map(({ count }, i) => ({ lower: edge(i), upper: edge(i + 1), count }));
}
