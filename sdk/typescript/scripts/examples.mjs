// Writes the examples of the manual as modules below build/examples, so that
// the compiler says whether they can be pasted.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const out = new URL("../build/examples/", import.meta.url);
mkdirSync(out, { recursive: true });

const manual = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const fenced = (page, language) => [...page.matchAll(new RegExp("^```" + language + "\\n(.*?)^```$", "gms"))].map((m) => m[1]);

// What an example takes for granted, unless it says so itself.
const given = `import { WaveHouse } from "@wavehouse/sdk";
declare const wavehouse: WaveHouse;
declare const rows: { page: string; score: number }[];
`;
const examples = fenced(manual("../README.md"), "ts").map((code) =>
  code.includes("import ") ? `declare const session: { accessToken(): Promise<string> };\n${code}` : given + code,
);

const queries = manual("../../../docs/query.md");
const documents = [
  ...[...queries.matchAll(/-d '(\{.*?\})'/gs)].map((m) => m[1]),
  ...fenced(queries, "json").flatMap(objects),
];
examples.push(...documents.map((d) => `import type { QueryDocument } from "@wavehouse/sdk";\nexport const document: QueryDocument = ${d};\n`));

// A block holds one document, or one a line; answers are arrays, rows with totals or
// errors, and no documents.
function objects(block) {
  if (!block.startsWith("{") || /^\{"(rows|code)":/.test(block)) {
    return [];
  }
  const lines = block.trim().split("\n");
  return lines.every((line) => line.startsWith("{") && line.endsWith("}")) ? lines : [block.trim()];
}

if (fenced(manual("../README.md"), "ts").length === 0 || documents.length === 0) {
  throw new Error("no examples were found: has the manual's markup changed?");
}
examples.forEach((code, i) => writeFileSync(new URL(`example${i}.ts`, out), code));
