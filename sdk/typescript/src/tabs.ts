import type { QueryDocument } from "./document.js";
import { type ErrorFields, WaveHouseError } from "./errors.js";
import { type LiveOptions, type LiveSource, type LiveState, run } from "./live.js";

type State = LiveState<Record<string, unknown>>;

/** A state as it travels between tabs. */
interface Told {
  state: Omit<State, "error">;
  error?: ErrorFields & { message: string };
}

/**
 * Runs a live query once for all tabs of an origin whose callers are the same:
 * the tab that holds a lock asks the server and tells the others. Where the
 * browser has no locks or channels, each tab asks for itself.
 */
export async function shared(
  source: LiveSource,
  table: string,
  document: QueryDocument,
  options: LiveOptions,
  signal: AbortSignal,
  changed: (state: State) => void,
  first: State,
  question: string,
): Promise<void> {
  const caller = await source.caller();
  const guarded: LiveSource = {
    ...source,
    async snapshot(...args) {
      // Another user's rows are not for those who watch these.
      if ((await source.caller()) !== caller) {
        throw new WaveHouseError("the token is another caller's now", { code: "client.caller_changed", status: 401 });
      }
      return source.snapshot(...args);
    },
  };
  const locks = (globalThis as { navigator?: { locks?: LockManager } }).navigator?.locks;
  if (options.tabs === false || caller === undefined || !locks || typeof BroadcastChannel !== "function" || !globalThis.crypto?.subtle) {
    return run(guarded, table, document, options, signal, changed, first);
  }
  const name = `wavehouse ${await digest(`${caller}\n${question}`)}`;
  let current = first;
  let leading = false;
  const channel = new BroadcastChannel(name);
  const show = (state: State) => changed((current = state));
  const tell = () => {
    const { error, ...state } = current;
    channel.postMessage({ state, ...(error && { error: error.toJSON() }) });
  };
  channel.onmessage = ({ data }: MessageEvent<Told | "ask">) => {
    if (data === "ask") {
      if (leading) {
        tell();
      }
    } else if (!leading) {
      show({ ...data.state, ...(data.error && { error: new WaveHouseError(data.error.message, data.error) }) });
    }
  };
  channel.postMessage("ask");
  try {
    await locks.request(name, { signal }, async () => {
      leading = true;
      const started = current;
      await run(guarded, table, document, options, signal, (state) => (show(state), tell()), { ...started, status: "connecting" });
    });
  } catch (cause) {
    if (!signal.aborted) {
      throw cause;
    }
  } finally {
    channel.close();
  }
}

async function digest(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
