export type { Batcher, BatcherOptions, Drop, DropReason, Leftover } from "./batcher.js";
export {
  and,
  any,
  anyLast,
  argMax,
  argMin,
  avg,
  count,
  countDistinct,
  type Expression,
  groupArray,
  groupUniqArray,
  histogram,
  max,
  median,
  min,
  not,
  on,
  or,
  quantile,
  quantiles,
  type QueryBuilder,
  ratio,
  sum,
  topK,
  uniq,
} from "./builder.js";
export { WaveHouse } from "./client.js";
export type {
  Aggregation,
  AggregationFn,
  Bin,
  Condition,
  DocumentOver,
  Filter,
  FilterOp,
  Int64,
  OrderBy,
  QueryDocument,
  ResultOf,
  TimeBucket,
  TimeRange,
  TotalsOf,
} from "./document.js";
export { type ErrorCode, InsertError, WaveHouseError } from "./errors.js";
export type { ExportFormat } from "./export.js";
export type { InsertFailure, InsertOptions, InsertResult } from "./insert.js";
export type { LiveOptions, LiveState, LiveStatus } from "./live.js";
export type { LiveQuery } from "./livequery.js";
export type { Clock, Fetch, HeaderSource, Token, WaveHouseOptions } from "./options.js";
export type { AnswerMeta } from "./meta.js";
export type { PipeOptions } from "./pipe.js";
export type { Page } from "./pages.js";
export type { QueryOptions, Snapshot, Totalled } from "./query.js";
export type { AnyDatabase, DatabaseTypes, PipeTypes, Row, TableTypes } from "./schema.js";
export type { EndEvent, GapEvent, RowEvent, StreamEvent, StreamOptions } from "./stream.js";
