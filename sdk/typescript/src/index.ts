export { WaveHouse } from "./client.js";
export { InsertError, WaveHouseError } from "./errors.js";
export type { InsertFailure, InsertOptions, InsertResult, Row } from "./insert.js";
export type { Clock, Fetch, Token, WaveHouseOptions } from "./options.js";
export type {
  Aggregation,
  Filter,
  FilterOp,
  OrderBy,
  QueryDocument,
  QueryOptions,
  TimeBucket,
  TimeRange,
} from "./query.js";
export type { EndEvent, GapEvent, RowEvent, StreamEvent, StreamOptions } from "./stream.js";
