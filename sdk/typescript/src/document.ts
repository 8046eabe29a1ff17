import type { ColumnOf, Comparable, ReferenceOf, Row, Shown, Within } from "./schema.js";

export type FilterOp =
  | "eq"
  | "neq"
  | "gt"
  | "gte"
  | "lt"
  | "lte"
  | "between"
  | "not_between"
  | "in"
  | "not_in"
  | "like"
  | "not_like"
  | "ilike"
  | "not_ilike"
  | "starts_with"
  | "ends_with"
  | "contains"
  | "not_contains"
  | "contains_any"
  | "contains_all"
  | "is_null"
  | "is_not_null";

export interface Condition<C extends string = string> {
  /** A column, or a part of one: `attrs.key`, `tags[1]`, `payload.user.id`. */
  column: C;
  op: FilterOp;
  /**
   * Absent for `is_null` and `is_not_null`; `[low, high]` for `between` and
   * `not_between`; an array for `in`, `not_in`, `contains_any` and `contains_all`.
   */
  value?: unknown;
}

/** A condition, or a group of some. */
export type Filter<C extends string = string> =
  | Condition<C>
  | { and: readonly Filter<C>[] }
  | { or: readonly Filter<C>[] }
  | { not: Filter<C> };

/** The values that an operator takes for a column of type V. */
export type FilterValue<V, O extends FilterOp> = O extends "is_null" | "is_not_null"
  ? []
  : O extends "in" | "not_in"
    ? [value: readonly Comparable<V>[]]
    : O extends "between" | "not_between"
      ? [value: readonly [low: Comparable<V>, high: Comparable<V>]]
      : O extends "like" | "not_like" | "ilike" | "not_ilike" | "starts_with" | "ends_with"
        ? [value: string]
        : O extends "contains" | "not_contains"
          ? [value: Within<V>]
          : O extends "contains_any" | "contains_all"
            ? [value: readonly Within<V>[]]
            : [value: Comparable<V>];

export type AggregationFn =
  | "count"
  | "count_distinct"
  | "uniq"
  | "sum"
  | "avg"
  | "stddev_pop"
  | "stddev_samp"
  | "var_pop"
  | "var_samp"
  | "min"
  | "max"
  | "any"
  | "any_last"
  | "arg_max"
  | "arg_min"
  | "median"
  | "quantile"
  | "quantiles"
  | "top_k"
  | "group_array"
  | "group_uniq_array"
  | "histogram"
  | "ratio";

export interface Aggregation<C extends string = string> {
  fn: AggregationFn | (string & {});
  /** Absent, or `"*"`, for the `count` of rows and for a ratio; every other function needs one. */
  column?: C | "*";
  /** Of `arg_max` and `arg_min`: the column whose greatest, or least, value decides. */
  by?: C;
  alias?: string;
  /** Parameters of the function, such as the level of a quantile. */
  params?: readonly number[];
  /** Conditions on the rows that this aggregation sees. */
  where?: readonly Filter<C>[];
  /** Of a ratio. */
  numerator?: Aggregation<C>;
  denominator?: Aggregation<C>;
  /** What a ratio is multiplied by. */
  scale?: number;
}

/** A bin of a histogram; its count is an estimate. */
export interface Bin {
  lower: number;
  upper: number;
  count: number;
}

export interface OrderBy {
  column: string;
  dir?: "asc" | "desc";
}

/**
 * Bounds are RFC 3339 times, days such as `"2026-06-01"`, numbers since 1970,
 * durations back from now such as `"1h"`, lengths of the calendar such as
 * `"-7d"` or `"-1mo"`, or one of `"now"`, `"today"`, `"yesterday"`, `"tomorrow"`.
 */
export interface TimeRange<C extends string = string> {
  column: C;
  since?: string | number;
  until?: string | number;
  /** The IANA name of the zone of days and months; UTC without one. */
  time_zone?: string;
}

export interface TimeBucket<C extends string = string> {
  column: C;
  /** Such as `"5m"`, `"1d"`, or by the calendar `"1mo"`, `"1q"`, `"1y"`. */
  every: string;
  alias?: string;
  /** The IANA name of the zone in which buckets begin, such as `"Europe/Berlin"`; UTC without one. */
  time_zone?: string;
  /** Rows for the buckets that are empty. */
  fill?: boolean;
}

/** How numbers that JavaScript would round are written. */
export type Int64 = "exact" | "string" | "number";

/** What to read; see the server's API reference for each key. */
export interface QueryDocument<C extends string = string> {
  columns?: readonly C[];
  select_all?: boolean;
  /** Equal rows once; not in a query that groups or aggregates. */
  distinct?: boolean;
  aggregations?: readonly Aggregation<C>[];
  filters?: readonly Filter<C>[];
  group_by?: readonly string[];
  /** Conditions on aggregations, by their alias, and on what is grouped by. */
  having?: readonly Filter[];
  /** The aggregations over all groups as well; see `withTotals` of a query. */
  totals?: boolean;
  order_by?: readonly OrderBy[];
  limit?: number;
  offset?: number;
  /** Where the page before ended; empty begins the first page. `pages()` brings all of them. */
  cursor?: string;
  time_range?: TimeRange<C>;
  time_bucket?: TimeBucket<C>;
  /**
   * An earlier period over which each aggregation is computed as well, as an
   * output with `_previous` behind its name: `"previous"`, `"previous_year"` or
   * how long before, such as `"7d"` or `"1mo"`.
   */
  compare?: string;
  /**
   * `"exact"` (the default): a number that JavaScript cannot hold is a bigint,
   * or a string when it has a fraction. `"string"`: every integer of 64 bits and
   * more, and every decimal, is a string. `"number"`: all are numbers, rounded.
   */
  int64?: Int64;
}

/** What a function answers about a column of type V. */
export type Aggregated<F extends string, V> = F extends "count" | "count_distinct" | "uniq"
  ? number
  : F extends "min" | "max" | "any"
    ? V
    : F extends "any_last" | "arg_max" | "arg_min"
      ? V | null
    : F extends "top_k" | "group_array" | "group_uniq_array"
      ? NonNullable<V>[]
    : F extends "histogram"
      ? Bin[]
    : F extends "sum"
      ? Extract<V, number | bigint | string> | (unknown extends V ? number : never)
      : F extends "quantiles"
        ? number[]
        : number | null;

type AliasOf<A> = A extends { alias: infer N extends string }
  ? N
  : A extends { fn: infer F extends string; column: infer C extends string }
    ? C extends "*"
      ? F
      : `${F}_${C}`
    : A extends { fn: infer F extends string }
      ? F
      : never;

type AggregationsOf<R, A> = A extends readonly { fn: string; column?: string }[]
  ? { [E in A[number] as AliasOf<E>]: Aggregated<E["fn"], E extends { column: infer C extends keyof R } ? R[C] : unknown> }
  : unknown;

type PreviousOf<T> = { [K in keyof T as K extends string ? `${K}_previous` : never]: T[K] };

type BucketOf<B> = B extends { alias: infer N extends string } ? { [K in N]: string } : B extends object ? { time_bucket: string } : unknown;

/** The rows that a document D over rows R answers. */
export type ResultOf<R, D> = string extends keyof R
  ? Row
  : Shown<
      (D extends { select_all: true } ? R : D extends { columns: readonly (infer C)[] } ? Pick<R, C & keyof R> & { [P in Exclude<C & string, keyof R>]: unknown } : unknown) &
        (D extends { aggregations: infer A } ? AggregationsOf<R, A> : unknown) &
        (D extends { aggregations: infer A; compare: string } ? PreviousOf<AggregationsOf<R, A>> : unknown) &
        (D extends { time_bucket: infer B } ? BucketOf<B> : unknown)
    >;

/** What totals hold of rows S: what is grouped by is null. */
export type TotalsOf<S> = { [K in keyof S]: S[K] | null };

/** A document whose columns, and parts of columns, are those of R. */
export type DocumentOver<R> = QueryDocument<ReferenceOf<R>>;

/** What S, which may be one of several, has under a key. */
type At<S, K> = S extends unknown ? (K extends keyof S ? S[K] : never) : never;

/** What T must be to have no key, at any depth, that S does not have. */
type Known<T, S> = [S] extends [never]
  ? never
  : unknown extends S
    ? unknown
    : T extends readonly unknown[]
      ? { [I in keyof T]: Known<T[I], At<S, number>> }
      : T extends object
        ? { [K in keyof T]: Known<T[K], At<S, K>> }
        : unknown;

/** What a document D over rows R must be beside that, where it is written out: with no other keys, and grouped, kept and ordered by columns and outputs. */
export type Checked<R, D> = {} extends D ? unknown : Known<D, QueryDocument> & {
  order_by?: readonly { column: ReferenceOf<R> | ColumnOf<ResultOf<R, D>>; dir?: "asc" | "desc" }[];
  group_by?: readonly (ReferenceOf<R> | ColumnOf<ResultOf<R, D>>)[];
  having?: readonly Filter<ReferenceOf<R> | ColumnOf<ResultOf<R, D>>>[];
};
