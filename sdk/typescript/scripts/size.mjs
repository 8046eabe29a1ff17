// What a page loads, minified and gzipped: `npm run size` prints it, and fails
// above a budget. What is loaded on demand counts where it is demanded.
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const budgets = [
  { name: "client", code: 'export { WaveHouse } from "./dist/esm/index.js"', budget: 7_000 },
  { name: "live", code: 'export * from "./dist/esm/live.js"', budget: 4_000 },
  { name: "react", code: 'export * from "./dist/esm/react.js"', budget: 2_000 },
  { name: "vue", code: 'export * from "./dist/esm/vue.js"', budget: 1_000 },
  { name: "svelte", code: 'export * from "./dist/esm/svelte.js"', budget: 1_000 },
];
