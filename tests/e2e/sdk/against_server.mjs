// The built SDK in Node, Bun or Deno: against_server.mjs <dist> <url>. Prints a line of JSON.
import process from "node:process";
import { pathToFileURL } from "node:url";

import { scenes } from "./scenes.mjs";

const [dist, url] = process.argv.slice(2);
console.log(JSON.stringify(await scenes(await import(pathToFileURL(`${dist}/esm/index.js`).href), url)));
