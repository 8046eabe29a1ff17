// Values, conditions and times of the double, as a server reads them.
import type { Filter } from "./document.js";

/** An error answer, as a server has it. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(message: string, code = "query.invalid", status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** The double cannot do what a server can; another answer than the server's would be worse. */
export const unsupported = (what: string) => new Refused(`the double knows no ${what}`, "double.unsupported", 501);

/** JSON in which a bigint is a number, as a server writes it. */
export function print(value: unknown): string {
  const marks: string[] = [];
  const text = JSON.stringify(value, (_key, v: unknown) => (typeof v === "bigint" ? `\0${marks.push(v.toString()) - 1}\0` : v));
  return marks.length === 0 ? text : text.replace(/"\\u0000(\d+)\\u0000"/g, (_, n: string) => marks[Number(n)] as string);
}

/** Whether a row meets a condition; null when that is neither true nor false. */
export function meets(filter: Filter, read: (name: string) => unknown): boolean | null {
  if ("not" in filter) {
    const met = meets(filter.not, read);
    return met === null ? null : !met;
  }
  if (!("column" in filter)) {
    const [filters, decides] = "or" in filter ? [filter.or, true] : [filter.and, false];
    const met = filters.map((part) => meets(part, read));
    return met.includes(decides) ? decides : met.includes(null) ? null : !decides;
  }
  const { column, op, value } = filter;
  const own = read(column) ?? null;
  if (op === "is_null" || op === "is_not_null") {
    return (own === null) === (op === "is_null");
  }
  if (value === null || value === undefined) {
    throw new Refused(`the condition on ${print(column)} has no value: null is not one, use is_null`);
  }
  if (own === null) {
    return null;
  }
  const order = () => compare(own, value);
  const like = (flags?: string) => pattern(String(value), flags).test(String(own));
  const among = () => (value as unknown[]).some((one) => compare(own, one) === 0);
  const between = () => compare(own, (value as unknown[])[0]) >= 0 && compare(own, (value as unknown[])[1]) <= 0;
  const has = (one: unknown) =>
    Array.isArray(own) ? own.some((item) => compare(item, one) === 0) : typeof own === "object" ? String(one) in own : String(own).includes(String(one));
  const ops: Record<string, () => boolean> = {
    eq: () => order() === 0, neq: () => order() !== 0, gt: () => order() > 0, gte: () => order() >= 0, lt: () => order() < 0, lte: () => order() <= 0,
    in: among, not_in: () => !among(), like: () => like(), not_like: () => !like(), ilike: () => like("iu"), not_ilike: () => !like("iu"),
    between, not_between: () => !between(), starts_with: () => String(own).startsWith(String(value)), ends_with: () => String(own).endsWith(String(value)),
    contains: () => has(value), not_contains: () => !has(value), contains_any: () => (value as unknown[]).some(has), contains_all: () => (value as unknown[]).every(has),
  };
  const judge = ops[op];
  if (judge === undefined) {
    throw new Refused(`unknown op ${print(op)}`);
  }
  return judge();
}

/** The pattern of a `like`, in which a backslash makes the next character itself. */
function pattern(text: string, flags?: string): RegExp {
  const parts = text.match(/\\[^]|[^]/g) ?? [];
  const source = parts.map((p) => (p === "%" ? "[^]*" : p === "_" ? "[^]" : p.slice(-1).replace(/[.*+?^${}()|[\]\\/-]/, "\\$&")));
  return new RegExp(`^${source.join("")}$`, flags);
}

const time = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/;
const number = (v: unknown) => typeof v === "number" || typeof v === "bigint";

/** Orders numbers by value, also beside their digits as text, times by when they are, and everything else as text; null is last. */
export function compare(a: unknown, b: unknown): number {
  if (a === null || b === null || a === undefined || b === undefined) {
    return Number(a === null || a === undefined) - Number(b === null || b === undefined);
  }
  let [x, y] = number(a) || number(b) ? [numeric(a), numeric(b)] : [String(a), String(b)];
  if (typeof x === "string" && typeof y === "string" && time.test(x) && time.test(y) && (instant(x) !== instant(y) || !/\.\d{4}/.test(x + y))) {
    [x, y] = [instant(x), instant(y)];
  }
  return x < y ? -1 : x > y ? 1 : 0;
}

function numeric(value: unknown): number | bigint {
  const read = number(value) ? (value as number | bigint) : /^-?\d+$/.test(String(value)) ? BigInt(String(value)) : Number(value);
  if (Number.isNaN(read)) {
    throw new Refused(`${print(value)} is not a number, as the value that it is compared with is`);
  }
  return read;
}

/** An order in its direction; null is last in either. */
export function directed(order: number, dir: "asc" | "desc" | undefined, a: unknown, b: unknown): number {
  const none = a === null || a === undefined || b === null || b === undefined;
  return dir === "desc" && !none ? -order : order;
}

const day = 86_400_000;
const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: day, w: 7 * day };

/** Milliseconds of `1h30m`; undefined when it is none. */
function length(text: string): number | undefined {
  const parts = /^(\d+[smhdw])+$/.test(text) ? text.match(/\d+[smhdw]/g) : null;
  return parts?.reduce((sum, part) => sum + Number(part.slice(0, -1)) * (units[part.slice(-1)] as number), 0);
}

/** Milliseconds since 1970 of a time, which is a text, a Date or a number whose size tells its unit. */
export function instant(value: unknown): number {
  if (typeof value === "number") {
    const size = Math.abs(value);
    return size < 1e11 ? value * 1000 : size < 1e14 ? value : size < 1e17 ? value / 1000 : value / 1e6;
  }
  const text = String(value).replace(" ", "T");
  const at = Date.parse(/^\d{4}-\d\d-\d\dT[\d:.]+$/.test(text) ? `${text}Z` : text);
  if (!/^\d{4}-\d\d-\d\d/.test(text) || Number.isNaN(at)) {
    throw unsupported(`time ${print(value)}`);
  }
  return at;
}

export function bound(text: string | number | undefined): number | undefined {
  if (text === undefined || typeof text === "number") {
    return text === undefined ? undefined : instant(text);
  }
  const now = Date.now();
  const days = ["yesterday", "today", "tomorrow"].indexOf(text);
  const back = length(text.replace(/^-(?=\d+[dw]$)/, ""));
  return text === "now" ? now : days >= 0 ? (Math.floor(now / day) + days - 1) * day : back !== undefined ? now - back : instant(text);
}

export function startOf(at: unknown, every: string): string {
  const size = length(every);
  if (size === undefined) {
    throw unsupported(`time_bucket of ${every}`);
  }
  const monday = size % (7 * day) === 0 ? 4 * day : 0;
  return new Date(Math.floor((instant(at) - monday) / size) * size + monday).toISOString().replace(".000Z", "Z");
}
