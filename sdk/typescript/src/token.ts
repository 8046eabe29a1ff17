import { WaveHouseError } from "./errors.js";
import type { Clock, Token } from "./options.js";

/** How long before its end a token is asked for anew: clocks differ, requests take time. */
const marginMs = 10_000;

/** Keeps the token that a function gave, for as long as it can be used. */
export class TokenSource {
  readonly #token: Token | undefined;
  readonly #clock: Clock;
  #kept: string | undefined;
  #until = 0;
  #asking: Promise<string | undefined> | undefined;

  constructor(token: Token | undefined, clock: Clock) {
    this.#token = token;
    this.#clock = clock;
  }

  /** The token to send; callers at the same time share one question. */
  async get(): Promise<string | undefined> {
    if (typeof this.#token !== "function") {
      return this.#token;
    }
    if (this.#kept !== undefined && this.#clock.now() < this.#until) {
      return this.#kept;
    }
    this.#asking ??= this.#ask(this.#token).finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  /** Forgets the token that was refused; whether another may be got. */
  refused(token: string | undefined): boolean {
    if (this.#kept === undefined || this.#kept !== token) {
      return this.#kept !== undefined;
    }
    this.#kept = undefined;
    return true;
  }

  async #ask(token: () => string | undefined | Promise<string | undefined>): Promise<string | undefined> {
    try {
      const got = await token();
      const end = got === undefined ? undefined : expiry(got);
      this.#kept = end === undefined ? undefined : got;
      this.#until = (end ?? 0) - marginMs;
      return got;
    } catch (cause) {
      throw new WaveHouseError("the token function failed", { code: "client.token", cause });
    }
  }
}

/** When a JWT ends, in milliseconds since 1970; undefined when it does not say. */
function expiry(token: string): number | undefined {
  const end = claimsOf(token)?.["exp"];
  return typeof end === "number" ? end * 1000 : undefined;
}

/** What a JWT claims, unchecked; undefined when it is none. */
function claimsOf(token: string): Record<string, unknown> | undefined {
  try {
    const payload = token.split(".")[1] ?? "";
    return JSON.parse(atob(payload.replace(/-/g, "+").replace(/_/g, "/"))) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

/** Tells callers apart, but not two tokens of one: what changes at each renewal is left out. */
export function callerOf(token: string | undefined): string {
  const claims = token === undefined ? undefined : claimsOf(token);
  if (claims === undefined) {
    return token ?? "";
  }
  const { exp, iat, nbf, jti, ...lasting } = claims;
  return JSON.stringify(Object.entries(lasting).sort());
}
