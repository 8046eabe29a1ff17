import assert from "node:assert/strict";
import { test } from "node:test";

// The parser is not exported: it is read where the build put it.
const dist = new URL("../../dist/esm/", import.meta.url);
const { EventParser } = await import(new URL("sse.js", dist).href);

const text =
  "\uFEFF: comment\nretry: 1500\nretry: 12x\nretry\n\r\n" +
  "id: 1\r\ndata: a\r\ndata:b\rdata:  c\n\n" +
  "event: gap\nid\ndata\n\n" +
  "id: 2\n\n" + "id: bad\0id\nnoise: x\nevent: lost\n\n" + "data: last\n\n" + "data: unfinished";

const want = [
  { event: "message", data: "a\nb\n c", id: "1" },
  { event: "gap", data: "", id: "" },
  { event: "", data: undefined, id: "2" },
  { event: "message", data: "last", id: "2" },
];

test("the parser reads the format however it is cut", () => {
  for (let size = 1; size <= text.length; size++) {
    const parser = new EventParser("0");
    const events: unknown[] = [];
    for (let at = 0; at < text.length; at += size) {
      events.push(...parser.push(text.slice(at, at + size)));
    }
    assert.deepEqual(events, want, `cut every ${size}`);
    assert.equal(parser.retry, 1500);
  }
});

test("an event that never ends is refused before it fills the memory", () => {
  const piece = "x".repeat(1024 * 1024);
  for (const [name, start, next] of [["one line", "data: ", piece], ["many lines", "", `data: ${piece}\n`]] as const) {
    const parser = new EventParser("");
    parser.push(start);
    assert.throws(() => {
      for (let n = 0; n < 20; n++) {
        parser.push(next);
      }
    }, /longer than/, name);
  }
});
