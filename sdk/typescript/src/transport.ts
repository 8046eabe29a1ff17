import { Deadline } from "./deadline.js";
import { fromResponse, WaveHouseError } from "./errors.js";
import type { Settings } from "./options.js";
import { backoff, mayRepeat, type Repeat } from "./retry.js";

export interface Call {
  method: "GET" | "POST";
  path: string;
  params: Record<string, string | undefined>;
  headers?: Record<string, string | undefined>;
  body?: BodyInit;
  /** Added to the time that an attempt may take. */
  extraMs?: number;
}

/** Sends requests: credentials, time limits, retries and redirects live here. */
export class Transport {
  readonly settings: Settings;

  constructor(settings: Settings) {
    this.settings = settings;
  }

  /** Makes a call, repeating it as allowed, and returns its JSON answer. */
  async call(call: Call, repeat: Repeat, signal: AbortSignal | undefined): Promise<unknown> {
    const { clock, maxRetries } = this.settings;
    for (let attempt = 1; ; attempt++) {
      const outcome = await this.#attempt(call, signal);
      if (!(outcome instanceof WaveHouseError)) {
        return outcome.json;
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

  async #attempt(call: Call, signal: AbortSignal | undefined): Promise<{ json: unknown } | WaveHouseError> {
    const deadline = new Deadline(signal);
    deadline.restart(this.settings.timeoutMs + (call.extraMs ?? 0));
    try {
      const response = await this.open(call, deadline);
      return { json: parse(await response.text(), response) };
    } catch (cause) {
      return deadline.explain(cause);
    } finally {
      deadline.release();
    }
  }

  /**
   * Makes one attempt and returns its answer, body unread, when its status is
   * 2xx. Throws a WaveHouseError for another answer, and whatever fetch threw
   * for none.
   */
  async open(call: Call, deadline: Deadline): Promise<Response> {
    const init: RequestInit = {
      method: call.method,
      headers: await this.#headers(call.headers ?? {}),
      signal: deadline.signal,
      // fetch would carry the tenant, and in some runtimes the token, to
      // wherever the redirect points.
      redirect: "manual",
    };
    if (call.body !== undefined) {
      init.body = call.body;
    }
    const response = await this.settings.fetch(this.#url(call), init);
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
      await response.body?.cancel();
      throw redirected(response);
    }
    if (!response.ok) {
      throw await fromResponse(response);
    }
    return response;
  }

  #url(call: Call): string {
    const params = new URLSearchParams();
    for (const [name, value] of Object.entries(call.params)) {
      if (value !== undefined) {
        params.set(name, value);
      }
    }
    return `${this.settings.base}${call.path}?${params}`;
  }

  async #headers(own: Record<string, string | undefined>): Promise<Record<string, string>> {
    const token = await this.#token();
    const all = {
      Authorization: token ? `Bearer ${token}` : undefined,
      "X-Tenant-ID": this.settings.tenant || undefined,
      ...own,
    };
    return Object.fromEntries(Object.entries(all).filter((h): h is [string, string] => h[1] !== undefined));
  }

  async #token(): Promise<string | undefined> {
    const { token } = this.settings;
    if (typeof token !== "function") {
      return token;
    }
    try {
      return await token();
    } catch (cause) {
      throw new WaveHouseError("the token function failed", { code: "client.token", cause });
    }
  }
}

function redirected(response: Response): WaveHouseError {
  const to = response.headers.get("location");
  return new WaveHouseError(
    `the server answered with a redirect${to ? ` to ${to}` : ""}, which is not followed: credentials stay with the configured url`,
    { code: "client.redirect", status: response.status },
  );
}

function parse(text: string, response: Response): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw invalidResponse("its body is not JSON", response, cause);
  }
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
