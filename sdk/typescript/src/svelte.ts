import type { LiveQuery, LiveState } from "./index.js";

/** A live query as a Svelte store: `$store.rows`, `$store.status`. */
export function liveStore<T>(live: LiveQuery<T>): { subscribe(run: (state: LiveState<T>) => void): () => void } {
  return {
    subscribe(run) {
      run(live.state);
      return live.subscribe(run);
    },
  };
}
