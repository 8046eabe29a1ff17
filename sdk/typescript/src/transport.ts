import { Deadline } from "./deadline.js";
import { fromResponse, WaveHouseError } from "./errors.js";
import type { Settings } from "./options.js";
import { backoff, mayRepeat, type Repeat } from "./retry.js";
import { callerOf, TokenSource } from "./token.js";

export interface Call {
  method: "GET" | "POST" | "DELETE";
  path: string;
  params?: Record<string, string | undefined>;
  headers?: Record<string, string | undefined>;
  body?: string | Uint8Array<ArrayBuffer>;
  /** Added to the time that an attempt may take. */
  extraMs?: number;
  /** The request may outlive its page. */
  keepalive?: boolean;
}

/** An answer with a good status. */
export interface Answer<T> {
  body: T;
  response: Response;
}

/** Bodies of at least so many bytes are compressed. */
const compressFrom = 8 * 1024;

/** Sends requests: credentials, time limits, retries and redirects live here. */
export class Transport {
  readonly settings: Settings;
  readonly #tokens: TokenSource;

  constructor(settings: Settings) {
    this.settings = settings;
    this.#tokens = new TokenSource(settings.token, settings.clock);
  }

  /** Who is calling, and where; undefined when that cannot be told. */
  async caller(): Promise<string | undefined> {
    const { base, tenant, headers } = this.settings;
    return typeof headers === "function" ? undefined : JSON.stringify([base, tenant, headers, callerOf(await this.#tokens.get())]);
  }

  /** Makes a call, repeating it as allowed, and reads its answer. */
  async call<T>(
    call: Call,
    repeat: Repeat,
    signal: AbortSignal | undefined,
    read: (response: Response) => Promise<T>,
  ): Promise<Answer<T>> {
    const { clock, maxRetries } = this.settings;
    for (let attempt = 1; ; attempt++) {
      const outcome = await this.#attempt(call, signal, read);
      if (!(outcome instanceof WaveHouseError)) {
        return outcome;
      }
      if (attempt > maxRetries || !mayRepeat(outcome, repeat)) {
        throw outcome;
      }
      try {
        await clock.sleep(backoff(clock, attempt, outcome.retryAfter), signal);
      } catch (cause) {
        throw new WaveHouseError("the call was aborted", { code: "client.aborted", cause });
      }
    }
  }

  async #attempt<T>(
    call: Call,
    signal: AbortSignal | undefined,
    read: (response: Response) => Promise<T>,
  ): Promise<Answer<T> | WaveHouseError> {
    const deadline = new Deadline(signal);
    deadline.restart(this.settings.timeoutMs + (call.extraMs ?? 0));
    try {
      const response = await this.open(call, deadline);
      return { body: await read(response), response };
    } catch (cause) {
      return deadline.explain(cause);
    } finally {
      deadline.release();
    }
  }

  /**
   * Makes one attempt and returns its answer, body unread, when its status is
   * 2xx or 304. A token that is refused is asked for anew once. Throws a
   * WaveHouseError for another answer, and whatever fetch threw for none.
   */
  async open(call: Call, deadline: Deadline): Promise<Response> {
    const token = await this.#tokens.get();
    const response = await this.#fetch(call, token, deadline);
    if (response.status !== 401 || !this.#tokens.refused(token)) {
      return good(response);
    }
    await response.body?.cancel();
    return good(await this.#fetch(call, await this.#tokens.get(), deadline));
  }

  async #fetch(call: Call, token: string | undefined, deadline: Deadline): Promise<Response> {
    const { headers, tenant } = this.settings;
    const init: RequestInit = {
      method: call.method,
      signal: deadline.signal,
      // fetch would carry the tenant, and in some runtimes the token, to
      // wherever the redirect points.
      redirect: "manual",
    };
    const all: Record<string, string | undefined> = {
      ...(typeof headers === "function" ? headers() : headers),
      Authorization: token ? `Bearer ${token}` : undefined,
      "X-Tenant-ID": tenant || undefined,
      ...call.headers,
    };
    if (call.keepalive) {
      init.keepalive = true;
    }
    if (call.body !== undefined) {
      // What outlives its page leaves at once: compressing takes a moment.
      const squeezed = call.keepalive ? undefined : await this.#compressed(call.body);
      init.body = squeezed ?? call.body;
      all["Content-Encoding"] = squeezed && "gzip";
    }
    init.headers = Object.fromEntries(Object.entries(all).filter((h): h is [string, string] => h[1] !== undefined));
    const response = await this.settings.fetch(this.#url(call), init);
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400 && response.status !== 304)) {
      await response.body?.cancel();
      throw redirected(response);
    }
    return response;
  }

  async #compressed(body: string | Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (!this.settings.compress || body.length < compressFrom || typeof CompressionStream !== "function") {
      return undefined;
    }
    const stream = new Blob([body]).stream().pipeThrough(new CompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  #url(call: Call): string {
    const params = new URLSearchParams();
    for (const [name, value] of Object.entries(call.params ?? {})) {
      if (value !== undefined) {
        params.set(name, value);
      }
    }
    const text = params.toString();
    return `${this.settings.base}${call.path}${text && `?${text}`}`;
  }
}

async function good(response: Response): Promise<Response> {
  if (response.ok || response.status === 304) {
    return response;
  }
  throw await fromResponse(response);
}

function redirected(response: Response): WaveHouseError {
  const to = response.headers.get("location");
  return new WaveHouseError(
    `the server answered with a redirect${to ? ` to ${to}` : ""}, which is not followed: credentials stay with the configured url`,
    { code: "client.redirect", status: response.status },
  );
}

/** Reads JSON by `parse`. */
export function jsonBy(parse: (text: string) => unknown): (response: Response) => Promise<unknown> {
  return async (response) => {
    const text = await response.text();
    try {
      return parse(text);
    } catch (cause) {
      throw invalidResponse("its body is not JSON", response, cause);
    }
  };
}

/** An answer with a good status that is not WaveHouse's. */
export function invalidResponse(why: string, response: Response | undefined, cause?: unknown): WaveHouseError {
  return new WaveHouseError(`the answer cannot be used: ${why}`, {
    code: "client.invalid_response",
    status: response?.status,
    requestId: response?.headers.get("x-request-id") ?? undefined,
    cause,
  });
}
