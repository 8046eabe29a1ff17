import type {
  Aggregated,
  Aggregation,
  AggregationFn,
  Condition,
  FilterOp,
  FilterValue,
  Filter,
  Int64,
  OrderBy,
  QueryDocument,
  TimeBucket,
  TimeRange,
} from "./document.js";
import type { ExportFormat } from "./export.js";
import type { Page } from "./pages.js";
import type { QueryOptions, Totalled } from "./query.js";
import type { ColumnOf, ReferenceOf, Shown } from "./schema.js";

type More = Omit<Aggregation, "fn" | "column" | "alias">;

/** An aggregation in a `select`, its name as a type; U are other columns that it uses. */
export class Expression<F extends string, C extends string, N extends string, U extends string = never> {
  readonly fn: F;
  readonly column: C;
  readonly name: N;
  readonly more: More;
  declare readonly uses: U;

  /** @internal */
  constructor(fn: F, column: C, name: N, more: More = {}) {
    this.fn = fn;
    this.column = column;
    this.name = name;
    this.more = more;
  }

  /** The same under another name. */
  as<const M extends string>(name: M): Expression<F, C, M, U> {
    return new Expression(this.fn, this.column, name, this.more);
  }

  /** The same over the rows that meet one more condition. */
  where<const D extends string, const O extends FilterOp>(column: D, op: O, ...value: FilterValue<unknown, O>): Expression<F, C, N, U | D> {
    return this.filter(on(column, op, ...value));
  }

  /** The same over the rows that meet more conditions, as a document has them. */
  filter<const D extends string>(...filters: Filter<D>[]): Expression<F, C, N, U | D> {
    return new Expression(this.fn, this.column, this.name, { ...this.more, where: [...(this.more.where ?? []), ...filters] });
  }
}

type Of<F extends string, C extends string, U extends string = never> = Expression<F, C, `${F}_${C}`, U>;

/** What a document says of an expression. */
function partOf({ fn, column, more }: Expression<string, string, string, string>): Aggregation {
  return { fn, ...(column !== "*" && { column }), ...more };
}

const over =
  <F extends AggregationFn>(fn: F) =>
  <const C extends string>(column: C): Of<F, C> =>
    new Expression(fn, column, `${fn}_${column}`);

const sized =
  <F extends AggregationFn>(fn: F) =>
  <const C extends string>(column: C, size?: number): Of<F, C> =>
    new Expression(fn, column, `${fn}_${column}`, size === undefined ? {} : { params: [size] });

const decided =
  <F extends AggregationFn>(fn: F) =>
  <const C extends string, const B extends string>(column: C, by: B): Of<F, C, B> =>
    new Expression(fn, column, `${fn}_${column}`, { by });

/** A condition for `and`, `or` and `not`; `is_null` and `is_not_null` take no value. */
export const on = <const C extends string>(column: C, op: FilterOp, ...value: readonly unknown[]): Condition<C> => ({
  column,
  op,
  ...(value.length > 0 && { value: value[0] }),
});
/** Holds when all of them do. */
export const and = <const C extends string>(...filters: readonly Filter<C>[]): Filter<C> => ({ and: filters });
/** Holds when any of them does. */
export const or = <const C extends string>(...filters: readonly Filter<C>[]): Filter<C> => ({ or: filters });
/** Holds when it does not; of null neither a condition nor its `not` holds. */
export const not = <const C extends string>(filter: Filter<C>): Filter<C> => ({ not: filter });

/** Rows, or with a column those where it is not null. */
export function count(): Expression<"count", "*", "count">;
export function count<const C extends string>(column: C): Of<"count", C>;
export function count(column?: string): Expression<"count", string, string> {
  return column === undefined ? new Expression("count", "*", "count") : new Expression("count", column, `count_${column}`);
}

/** Different values, exactly. */
export const countDistinct = over("count_distinct");
/** Different values, estimated in little memory. */
export const uniq = over("uniq");
export const sum = over("sum");
export const avg = over("avg");
export const min = over("min");
export const max = over("max");
export const any = over("any");
export const anyLast = over("any_last");
/** The value of `column` in the row where `by` is greatest. */
export const argMax = decided("arg_max");
/** The value of `column` in the row where `by` is least. */
export const argMin = decided("arg_min");
/** The most frequent values, 10 without a size. */
export const topK = sized("top_k");
/** Values, 100 at most without a size. */
export const groupArray = sized("group_array");
/** Different values, 100 at most without a size. */
export const groupUniqArray = sized("group_uniq_array");
/** How many values lie between bounds that the server chooses, of 10 bins without a size. */
export const histogram = sized("histogram");
/** One aggregation divided by another, times `scale`; null where the other is zero. */
export const ratio = <C extends string, U extends string, D extends string, V extends string>(
  numerator: Expression<string, C, string, U>,
  denominator: Expression<string, D, string, V>,
  scale?: number,
): Expression<"ratio", "*", "ratio", Exclude<C | U | D | V, "*">> =>
  new Expression("ratio", "*", "ratio", { numerator: partOf(numerator), denominator: partOf(denominator), ...(scale !== undefined && { scale }) });
export const median = over("median");
/** The value that the share `level` (0 to 1) of the rows does not exceed. */
export const quantile = <const C extends string>(column: C, level: number): Of<"quantile", C> =>
  new Expression("quantile", column, `quantile_${column}`, { params: [level] });
export const quantiles = <const C extends string>(column: C, levels: readonly number[]): Of<"quantiles", C> =>
  new Expression("quantiles", column, `quantiles_${column}`, { params: levels });

type Item<R> = ReferenceOf<R> | Expression<string, ReferenceOf<R> | "*", string, ReferenceOf<R>>;

type Picked<R, S extends readonly unknown[]> = Pick<R, Extract<S[number], ColumnOf<R>>> & {
  [E in Extract<S[number], Expression<string, string, string, string>> as E["name"]]: Aggregated<E["fn"], E["column"] extends keyof R ? R[E["column"]] : unknown>;
} & { [P in Exclude<Extract<S[number], string>, ColumnOf<R>>]: unknown };

/** Runs what a builder describes; the client is one. */
export interface Runner {
  run<T>(table: string, document: QueryDocument, options: QueryOptions): Promise<T[]>;
  totals<T>(table: string, document: QueryDocument, options: QueryOptions): Promise<Totalled<T>>;
  export(table: string, document: QueryDocument, format: ExportFormat, options: QueryOptions): Promise<unknown>;
  pages<T>(table: string, document: QueryDocument, options: QueryOptions): AsyncGenerator<Page<T>, void, undefined>;
  lines<T>(table: string, document: QueryDocument, options: QueryOptions): AsyncGenerator<T, void, undefined>;
}

/**
 * A query that is put together. Each step returns a new builder and leaves this
 * one as it is. Awaiting it, or `rows()`, asks the server.
 */
export class QueryBuilder<R, S> implements PromiseLike<Shown<S>[]> {
  readonly table: string;
  /** The query document, as the server takes it. */
  readonly document: Readonly<QueryDocument>;
  readonly #runner: Runner;

  /** @internal */
  constructor(runner: Runner, table: string, document: QueryDocument) {
    this.#runner = runner;
    this.table = table;
    this.document = document;
  }

  #with<N>(change: Partial<QueryDocument>): QueryBuilder<R, N> {
    return new QueryBuilder<R, N>(this.#runner, this.table, { ...this.document, ...change });
  }

  /** Adds columns and aggregations to what is read. */
  select<const I extends readonly Item<R>[]>(...items: I): QueryBuilder<R, S & Picked<R, I>> {
    const columns = items.filter((item) => typeof item === "string");
    const aggregations = items.flatMap((item): Aggregation[] => {
      return item instanceof Expression ? [{ ...partOf(item), alias: item.name }] : [];
    });
    return this.#with({
      ...(columns.length > 0 && { columns: [...(this.document.columns ?? []), ...columns] }),
      ...(aggregations.length > 0 && { aggregations: [...(this.document.aggregations ?? []), ...aggregations] }),
    });
  }

  /** Answers equal rows once; not in a query that groups or aggregates. */
  distinct(): QueryBuilder<R, S> {
    return this.#with({ distinct: true });
  }

  /** Adds a condition on an aggregation, by its name, or on what is grouped by. */
  having<const C extends ReferenceOf<R> | ColumnOf<S>, const O extends FilterOp>(
    column: C,
    op: O,
    ...value: FilterValue<C extends keyof S ? NonNullable<S[C]> : C extends keyof R ? R[C] : unknown, O>
  ): QueryBuilder<R, S> {
    const filter = on(column, op, ...value);
    return this.#with({ having: [...(this.document.having ?? []), filter] });
  }

  /** Reads every column that the caller may read. */
  selectAll(): QueryBuilder<R, S & R> {
    return this.#with({ select_all: true });
  }

  /** Adds a condition, or a group of some; all of them must hold. */
  where<const C extends ReferenceOf<R>, const O extends FilterOp>(
    column: C,
    op: O,
    ...value: FilterValue<C extends keyof R ? R[C] : unknown, O>
  ): QueryBuilder<R, S>;
  where(filter: Filter<ReferenceOf<R>>): QueryBuilder<R, S>;
  where(what: string | Filter, op?: FilterOp, ...value: unknown[]): QueryBuilder<R, S> {
    const filter = typeof what === "string" ? on(what, op as FilterOp, ...value) : what;
    return this.#with({ filters: [...(this.document.filters ?? []), filter] });
  }

  groupBy(...columns: (ReferenceOf<R> | ColumnOf<S>)[]): QueryBuilder<R, S> {
    return this.#with({ group_by: [...(this.document.group_by ?? []), ...columns] });
  }

  /** Adds the start of each row's interval, such as `"5m"` or `"1mo"`, and groups by it. */
  timeBucket<const A extends string = "time_bucket">(
    column: ReferenceOf<R>,
    every: string,
    alias?: A,
    how?: Pick<TimeBucket, "time_zone" | "fill">,
  ): QueryBuilder<R, S & { [K in A]: string }> {
    return this.#with({ time_bucket: { column, every, ...(alias !== undefined && { alias }), ...how } });
  }

  /** Keeps the rows from `since` on and before `until`: times, days, or lengths of time back from now. */
  timeRange(
    column: ReferenceOf<R>,
    since?: string | number | Date,
    until?: string | number | Date,
    how?: Pick<TimeRange, "time_zone">,
  ): QueryBuilder<R, S> {
    const bound = (at: string | number | Date) => (at instanceof Date ? at.toISOString() : at);
    return this.#with({
      time_range: {
        column,
        ...(since !== undefined && { since: bound(since) }),
        ...(until !== undefined && { until: bound(until) }),
        ...how,
      },
    });
  }

  /**
   * Computes each aggregation over an earlier period as well, as an output with
   * `_previous` behind its name: `"previous"`, `"previous_year"`, or `"1mo"` before.
   * After `select`, so that the outputs are known.
   */
  compare(earlier: string): QueryBuilder<R, S & { [K in keyof S as K extends string ? `${K}_previous` : never]?: S[K] }> {
    return this.#with({ compare: earlier });
  }

  orderBy(column: ReferenceOf<R> | ColumnOf<S>, dir?: "asc" | "desc"): QueryBuilder<R, S> {
    const by: OrderBy = { column, ...(dir && { dir }) };
    return this.#with({ order_by: [...(this.document.order_by ?? []), by] });
  }

  limit(limit: number): QueryBuilder<R, S> {
    return this.#with({ limit });
  }

  offset(offset: number): QueryBuilder<R, S> {
    return this.#with({ offset });
  }

  int64(int64: Int64): QueryBuilder<R, S> {
    return this.#with({ int64 });
  }

  /** Asks the server for the rows. */
  rows(options: QueryOptions = {}): Promise<Shown<S>[]> {
    return this.#runner.run<Shown<S>>(this.table, this.document, options);
  }

  /**
   * Asks for page after page; `limit` is the most rows of one, and the order goes by
   * columns. Each row that was there at the beginning is in one page and in one only,
   * whatever is written meanwhile.
   */
  pages(options: QueryOptions = {}): AsyncGenerator<Page<Shown<S>>, void, undefined> {
    return this.#runner.pages<Shown<S>>(this.table, this.document, options);
  }

  /** The rows of all pages, one by one. */
  async *all(options: QueryOptions = {}): AsyncGenerator<Shown<S>, void, undefined> {
    for await (const page of this.pages(options)) {
      yield* page.rows;
    }
  }

  /** Asks for the rows, and for the aggregations over all groups. */
  withTotals(options: QueryOptions = {}): Promise<Totalled<Shown<S>>> {
    return this.#runner.totals<Shown<S>>(this.table, { ...this.document, totals: true }, options);
  }

  /** The rows as they arrive, without holding all of them. */
  stream(options: QueryOptions = {}): AsyncGenerator<Shown<S>, void, undefined> {
    return this.#runner.lines<Shown<S>>(this.table, this.document, options);
  }

  /** The answer as text. */
  csv(options: QueryOptions = {}): Promise<string> {
    return this.#runner.export(this.table, this.document, "csv", options) as Promise<string>;
  }

  /** The answer as an Arrow stream or a Parquet file. */
  bytes(format: "arrow" | "parquet", options: QueryOptions = {}): Promise<Uint8Array> {
    return this.#runner.export(this.table, this.document, format, options) as Promise<Uint8Array>;
  }

  then<A = Shown<S>[], B = never>(
    done?: ((rows: Shown<S>[]) => A | PromiseLike<A>) | null,
    failed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.rows().then(done, failed);
  }
}
