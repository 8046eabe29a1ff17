// What a page loads, minified and gzipped; fails above a budget. What is loaded
// on demand counts for itself.
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const entries = [
  { name: "client", file: "index", only: "WaveHouse", budget: 7000 },
  { name: "live", file: "tabs", budget: 4000 },
  { name: "stream", file: "stream", budget: 3000 },
  { name: "batcher", file: "batches", budget: 4000 },
  { name: "react", file: "react", budget: 2000 },
  { name: "vue", file: "vue", budget: 1000 },
  { name: "svelte", file: "svelte", budget: 1000 },
];

/** The modules that an entry loads at once, and their weight without those of `loaded`. */
async function weigh({ file, only }, loaded) {
  const { outputFiles, metafile } = await build({
    stdin: { contents: `export ${only ? `{ ${only} }` : "*"} from "./dist/esm/${file}.js"`, resolveDir: root },
    bundle: true, minify: true, format: "esm", target: "es2022", write: false, metafile: true,
    external: ["react", "vue"], absWorkingDir: root, logLevel: "error",
    plugins: [{
      name: "elsewhere",
      setup: (b) => b.onResolve({ filter: /^\./ }, ({ path, resolveDir, kind }) =>
        kind === "dynamic-import" || loaded.has(relative(root, join(resolveDir, path))) ? { path, external: true } : undefined),
    }],
  });
  const modules = Object.keys(metafile.inputs).filter((path) => path !== "<stdin>");
  return { modules: new Set(modules), bytes: gzipSync(outputFiles[0].contents, { level: 9 }).length };
}

const none = new Set();
const { modules: client } = await weigh(entries[0], none);
let over = false;
for (const entry of entries) {
  const { bytes } = await weigh(entry, entry.file === "index" ? none : client);
  over ||= bytes > entry.budget;
  console.log(`${entry.name.padEnd(8)} ${String(bytes).padStart(5)} of ${entry.budget} bytes${bytes > entry.budget ? ": too large" : ""}`);
}
process.exitCode = over ? 1 : 0;
