import { WaveHouseError } from "./errors.js";

/** The part of `fetch` that the client needs. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** A bearer token, or a function that is asked for one before every attempt. */
export type Token = string | (() => string | undefined | Promise<string | undefined>);

export type HeaderSource = Record<string, string | undefined> | (() => Record<string, string | undefined>);

/** Where waits and jitter come from; replaced in tests. */
export interface Clock {
  /** Resolves after `ms`, or rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** A number from 0 up to 1. */
  random(): number;
  /** Milliseconds since 1970. */
  now(): number;
}

export interface WaveHouseOptions {
  /**
   * The server's address, such as `https://events.example.com`. A path is kept.
   * In a browser it may be relative to the page: `/analytics`.
   */
  url: string;
  /**
   * Sent as `Authorization: Bearer …`, and never in a URL. What a function
   * gives is kept until shortly before its `exp`, or until the server refuses
   * it; a token without one is asked for at each attempt.
   */
  token?: Token | undefined;
  /** Sent as `X-Tenant-ID`. Without it the server serves its default tenant. */
  tenant?: string | undefined;
  /** Sent with every request, such as `traceparent`; asked for before every attempt. */
  headers?: HeaderSource | undefined;
  /** Request bodies over 8 KiB are sent compressed where the runtime can. Default true. */
  compress?: boolean | undefined;
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
  readonly headers: HeaderSource;
  readonly compress: boolean;
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
    headers: options.headers ?? {},
    compress: options.compress ?? true,
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
    // Only a page has an address that another can be relative to.
    url = new URL(address, (globalThis as { location?: { href: string } }).location?.href);
  } catch (cause) {
    throw invalid(`url ${JSON.stringify(address)} is not an absolute URL, and there is no page that it could be relative to`, cause);
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
  now: Date.now,
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
