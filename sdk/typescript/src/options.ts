import { WaveHouseError } from "./errors.js";

/** The part of `fetch` that the client needs. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** A bearer token, or a function that is asked for one before every attempt. */
export type Token = string | (() => string | undefined | Promise<string | undefined>);

/** Where waits and jitter come from; replaced in tests. */
export interface Clock {
  /** Resolves after `ms`, or rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** A number from 0 up to 1. */
  random(): number;
}

export interface WaveHouseOptions {
  /** The server's address, such as `https://events.example.com`. A path is kept. */
  url: string;
  /** Sent as `Authorization: Bearer …`, and never in a URL. */
  token?: Token | undefined;
  /** Sent as `X-Tenant-ID`. Without it the server serves its default tenant. */
  tenant?: string | undefined;
  /** Replaces the global `fetch`. It must honour `redirect: "manual"`. */
  fetch?: Fetch | undefined;
  /** Bounds each attempt, and for a stream the wait for its headers. Default 30 000. */
  timeoutMs?: number | undefined;
  /** How often a failed attempt is repeated. Default 3, 0 for never. */
  maxRetries?: number | undefined;
  /** For tests: a clock that does not wait. */
  clock?: Clock | undefined;
}

/** The options with every default filled in. */
export interface Settings {
  readonly base: string;
  readonly token: Token | undefined;
  readonly tenant: string | undefined;
  readonly fetch: Fetch;
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly clock: Clock;
}

export function resolve(options: WaveHouseOptions): Settings {
  return {
    base: baseOf(options.url),
    token: options.token,
    tenant: options.tenant,
    // Called through a closure: browsers refuse a fetch that lost its window.
    fetch: options.fetch ?? ((url, init) => globalThis.fetch(url, init)),
    timeoutMs: atLeast("timeoutMs", options.timeoutMs ?? 30_000, 1),
    maxRetries: atLeast("maxRetries", options.maxRetries ?? 3, 0),
    clock: options.clock ?? systemClock,
  };
}

function baseOf(address: string): string {
  let url: URL;
  try {
    url = new URL(address);
  } catch (cause) {
    throw invalid(`url ${JSON.stringify(address)} is not an absolute URL`, cause);
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw invalid(`url must be http or https, not ${url.protocol}`);
  }
  if (url.username || url.password) {
    throw invalid("url must not carry credentials; use token");
  }
  if (url.search || url.hash) {
    throw invalid("url must not carry a query or a fragment");
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}

function atLeast(name: string, value: number, least: number): number {
  if (!Number.isFinite(value) || value < least) {
    throw invalid(`${name} must be a number of at least ${least}, not ${value}`);
  }
  return value;
}

function invalid(message: string, cause?: unknown): WaveHouseError {
  return new WaveHouseError(message, { code: "client.invalid_option", cause });
}

const systemClock: Clock = {
  random: Math.random,
  sleep: (ms, signal) =>
    new Promise((done, fail) => {
      if (signal?.aborted) {
        fail(signal.reason);
        return;
      }
      const stop = () => {
        clearTimeout(timer);
        fail(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", stop);
        done();
      }, ms);
      signal?.addEventListener("abort", stop, { once: true });
    }),
};
