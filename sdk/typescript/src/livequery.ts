import type { QueryDocument } from "./document.js";
import type { LiveOptions, LiveSource, LiveState } from "./live.js";

type Values = Record<string, unknown>;
type Listener = (state: LiveState<Values>) => void;

type Start = (signal: AbortSignal, changed: Listener, state: LiveState<Values>) => Promise<void>;

/** The engine stays for a moment when nobody is left: a component that is mounted anew finds it. */
const lingerMs = 1000;

/** The one engine of all subscribers of a query. */
export class Engine {
  state: LiveState<Values> = { status: "connecting", rows: [] };
  readonly #listeners = new Set<Listener>();
  readonly #start: Start;
  readonly #forget: () => void;
  #running: AbortController | undefined;
  #linger: ReturnType<typeof setTimeout> | undefined;

  constructor(start: Start, forget: () => void) {
    this.#start = start;
    this.#forget = forget;
  }

  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    clearTimeout(this.#linger);
    if (this.#running === undefined) {
      const running = (this.#running = new AbortController());
      const changed: Listener = (state) => {
        if (this.#running === running) {
          this.state = state;
          this.#listeners.forEach((tell) => tell(state));
          if (state.status === "closed") {
            running.abort();
            this.#running = undefined;
            this.#leave(); // whoever asks meanwhile sees why it closed
          }
        }
      };
      changed({ ...this.state, status: "connecting" });
      void this.#start(running.signal, changed, this.state).catch((error) => changed({ ...this.state, status: "closed", error }));
    }
    return () => {
      if (this.#listeners.delete(listener) && this.#listeners.size === 0) {
        this.#leave();
      }
    };
  }

  /** Ends in a moment, unless somebody subscribes. */
  #leave(): void {
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => {
      this.#running?.abort();
      this.#running = undefined;
      this.#forget();
    }, lingerMs);
  }
}

/** A query whose rows follow the table. It runs while it has subscribers. */
export class LiveQuery<T> {
  readonly #engine: Engine;

  /** @internal */
  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** What is shown now. The same object until something changes. */
  get state(): LiveState<T> {
    return this.#engine.state as LiveState<T>;
  }

  /** Calls `listener` at each change, until the function that it returns is called. */
  subscribe(listener: (state: LiveState<T>) => void): () => void {
    return this.#engine.subscribe((state) => listener(state as LiveState<T>));
  }

  /** Hands out each state, beginning with the present one; states that a slow reader missed are left out. */
  async *[Symbol.asyncIterator](): AsyncGenerator<LiveState<T>, void, undefined> {
    let wake: () => void = () => undefined;
    const leave = this.subscribe(() => wake());
    try {
      for (let shown: LiveState<T> | undefined; shown?.status !== "closed"; ) {
        const changed = new Promise<void>((done) => (wake = done));
        if (this.state === shown) {
          await changed;
        }
        shown = this.state;
        yield shown;
      }
    } finally {
      leave();
    }
  }
}

/** The engines of a client, one for each query that has subscribers. */
export class Engines {
  readonly #engines = new Map<string, Engine>();

  get(table: string, document: QueryDocument, options: LiveOptions, source: LiveSource): Engine {
    const name = JSON.stringify([table, document, options.key, options.refreshMs, options.tabs]);
    let engine = this.#engines.get(name);
    if (engine === undefined) {
      const start: Start = async (signal, changed, state) => {
        this.#engines.set(name, made);
        const { shared } = await import("./tabs.js");
        await shared(source, table, document, options, signal, changed, state, name);
      };
      const made = (engine = new Engine(start, () => this.#engines.delete(name)));
      this.#engines.set(name, made);
    }
    return engine;
  }
}
