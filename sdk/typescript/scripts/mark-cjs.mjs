// The package is an ES module; the folder of the CommonJS build says otherwise
// for itself, so that Node and TypeScript read its files as what they are.
import { writeFileSync } from "node:fs";

writeFileSync(new URL("../dist/cjs/package.json", import.meta.url), '{"type":"commonjs"}\n');
