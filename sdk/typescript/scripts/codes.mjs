// Writes src/codes.ts from the server's list of error codes; with --check it
// fails when the file is not up to date.
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("../src/codes.ts", import.meta.url);
const document = JSON.parse(readFileSync(new URL("../../../internal/api/openapi.json", import.meta.url), "utf8"));
const codes = document.components.schemas.ErrorCode.enum.toSorted?.() ?? [...document.components.schemas.ErrorCode.enum].sort();
const text = `// Written by scripts/codes.mjs from the server's OpenAPI document. Do not edit.

/** The server's stable codes. */
export type ServerCode =
${codes.map((code) => `  | ${JSON.stringify(code)}`).join("\n")};
`;
if (!process.argv.includes("--check")) {
  writeFileSync(file, text);
} else if (readFileSync(file, "utf8") !== text) {
  console.error("src/codes.ts is not up to date: run npm run codes");
  process.exitCode = 1;
}
