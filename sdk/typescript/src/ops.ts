import { parseExact } from "./json.js";
import { resolve, type WaveHouseOptions } from "./options.js";
import { type Call, jsonBy, Transport } from "./transport.js";

export interface OpsOptions extends Omit<WaveHouseOptions, "token" | "tenant" | "headers"> {
  /** The operator key: it may do everything, so it never belongs in a browser. */
  operatorKey: string;
  /** The tenant that the calls are about. Default: the server's tenant 0. */
  tenant?: string | undefined;
}

export interface StatementOptions {
  signal?: AbortSignal | undefined;
  /** Values of `{name:Type}` in the statement. */
  params?: Record<string, string> | undefined;
  /** The statement may write. It is not repeated then. Default false. */
  write?: boolean | undefined;
}

/** Which dead letters: all of a table, or those with these ids. */
export interface LetterSelection {
  table: string;
  ids?: readonly string[] | undefined;
  all?: boolean | undefined;
  dry_run?: boolean | undefined;
}

/** An operator's calls, for servers and scripts. */
export class WaveHouseOps {
  readonly #transport: Transport;
  readonly #tenant: string | undefined;

  /** Throws a WaveHouseError with code `client.invalid_option`. */
  constructor({ operatorKey, tenant, ...options }: OpsOptions) {
    if (typeof (globalThis as { document?: unknown }).document !== "undefined") {
      throw new TypeError("an operator key in a page is everybody's");
    }
    this.#transport = new Transport(resolve({ ...options, headers: { "X-Operator-Key": operatorKey } }));
    this.#tenant = tenant;
  }

  /** Runs a statement as it is, and returns its rows. */
  async query<T = Record<string, unknown>>(sql: string, { signal, params, write }: StatementOptions = {}): Promise<T[]> {
    const body = { sql, ...(params && { params }), ...(write && { write }) };
    return (await this.#call("POST", "/v1/ops/query", {}, body, write ? "unstored" : "safe", signal)) as T[];
  }

  /** The discovered tables. */
  schema(): Promise<unknown> {
    return this.#read("/v1/ops/schema");
  }

  /** What a role may read, insert and run, with types. */
  types(role: string): Promise<unknown> {
    return this.#read("/v1/ops/types", { role });
  }

  /** Each tenant's settings, queue and faults. */
  tenants(): Promise<unknown> {
    return this.#read("/v1/ops/tenants");
  }

  /** The processes of the service. */
  fleet(): Promise<unknown> {
    return this.#call("GET", "/v1/ops/fleet", { tenant: undefined }, undefined, "safe");
  }

  /** Reads the settings again. */
  reload(): Promise<unknown> {
    return this.#call("POST", "/v1/ops/settings/reload", {}, undefined, "safe");
  }

  /** Parked rows by table. */
  letterStats(): Promise<unknown> {
    return this.#read("/v1/ops/dlq/stats");
  }

  /** A page of a table's parked rows. */
  letters(table: string, page: { limit?: number; cursor?: string } = {}): Promise<unknown> {
    return this.#read("/v1/ops/dlq/rows", { table, limit: page.limit?.toString(), cursor: page.cursor });
  }

  /** Puts parked rows back into the queue. */
  replay(selection: LetterSelection): Promise<unknown> {
    return this.#call("POST", "/v1/ops/dlq/replay", {}, selection, "unstored");
  }

  /** Removes parked rows for good. */
  discard(selection: LetterSelection): Promise<unknown> {
    return this.#call("DELETE", "/v1/ops/dlq/rows", {}, selection, "unstored");
  }

  #read(path: string, params: Record<string, string | undefined> = {}): Promise<unknown> {
    return this.#call("GET", path, params, undefined, "safe");
  }

  async #call(
    method: Call["method"],
    path: string,
    params: Record<string, string | undefined>,
    body: object | undefined,
    repeat: "safe" | "unstored",
    signal?: AbortSignal,
  ): Promise<unknown> {
    const call: Call = { method, path, params: { tenant: this.#tenant, ...params }, headers: { Accept: "application/json" } };
    if (body !== undefined) {
      call.body = JSON.stringify(body);
      call.headers = { ...call.headers, "Content-Type": "application/json" };
    }
    return (await this.#transport.call(call, repeat, signal, jsonBy(parseExact))).body;
  }
}
