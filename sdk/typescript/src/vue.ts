import { onScopeDispose, type ShallowRef, shallowRef } from "vue";

import type { LiveQuery, LiveState } from "./index.js";

/** A live query as a ref, until the component or scope that made it ends. */
export function liveRef<T>(live: LiveQuery<T>): Readonly<ShallowRef<LiveState<T>>> {
  const state = shallowRef(live.state);
  onScopeDispose(live.subscribe((next) => (state.value = next)));
  return state;
}
