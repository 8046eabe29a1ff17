// What the package says of itself, and what is in it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = new URL("../../", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));

test("the package can be published with its provenance", () => {
  assert.deepEqual(manifest.publishConfig, { access: "public", provenance: true });
  assert.deepEqual(manifest.repository, { type: "git", url: "git+https://github.com/wavehouse/wavehouse.git", directory: "sdk/typescript" });
  assert.equal(manifest.license, "Apache-2.0");
  assert.match(readFileSync(new URL("LICENSE", root), "utf8"), /Apache License\s+Version 2\.0/);
  assert.equal(manifest.dependencies, undefined);
  assert.ok(!manifest.private);
});

test("the package holds what its entries name, maps and sources, and no tests", () => {
  const packed = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: fileURLToPath(root), encoding: "utf8", shell: process.platform === "win32" });
  const files = new Set((JSON.parse(packed) as [{ files: { path: string }[] }])[0].files.map(({ path }) => path));
  const named = Object.values(manifest.exports).flatMap((entry) => (typeof entry === "string" ? [entry] : Object.values(entry as object).flatMap((kind) => Object.values(kind as object))));
  const scripts = (named as string[]).map((path) => path.replace("./", ""));
  const maps = scripts.filter((path) => /\.(js|d\.ts)$/.test(path)).map((path) => `${path}.map`);
  for (const path of [...scripts, ...maps, "README.md", "LICENSE", "dist/wavehouse.min.js", "dist/wavehouse.min.js.map", "dist/cjs/package.json", "src/index.ts"]) {
    assert.ok(files.has(path), path);
  }
  const strange = [...files].filter((path) => !/^(dist|src)\/|^(README\.md|LICENSE|package\.json)$/.test(path));
  assert.deepEqual(strange, []);
});

test("the README leads nowhere that only the repository has", () => {
  const readme = readFileSync(new URL("README.md", root), "utf8");
  const links = [...readme.matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link as string);
  assert.ok(links.length > 5);
  for (const link of links) {
    assert.match(link, /^(https:\/\/|#)/, link);
  }
});
