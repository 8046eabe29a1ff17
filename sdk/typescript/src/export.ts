import { Deadline } from "./deadline.js";
import type { QueryDocument } from "./document.js";
import { WaveHouseError } from "./errors.js";
import { metaOf } from "./meta.js";
import { callOf, parserOf, type QueryOptions } from "./query.js";
import { invalidResponse, type Transport } from "./transport.js";

export type ExportFormat = "csv" | "tsv" | "ndjson" | "arrow" | "parquet";

const mediaTypes: Record<ExportFormat, string> = {
  csv: "text/csv",
  tsv: "text/tab-separated-values",
  ndjson: "application/x-ndjson",
  arrow: "application/vnd.apache.arrow.stream",
  parquet: "application/vnd.apache.parquet",
};

/** The answer as text for CSV, TSV and NDJSON, as bytes for Arrow and Parquet. */
export async function exported(
  transport: Transport,
  table: string,
  document: QueryDocument,
  format: ExportFormat,
  { signal, onMeta }: QueryOptions,
): Promise<string | Uint8Array> {
  const binary = format === "arrow" || format === "parquet";
  const read = async (r: Response) => (binary ? new Uint8Array(await r.arrayBuffer()) : wholeOf(await r.text(), format, r));
  const { body, response } = await transport.call(callOf(table, document, mediaTypes[format]), "safe", signal, read);
  onMeta?.(metaOf(response));
  return body;
}

const endings: Partial<Record<ExportFormat, RegExp>> = {
  csv: /^\$error,([a-z_]+(?:\.[a-z_]+)?),(?:"(?:[^"]|"")*"|[^",\n]*)\n$/,
  tsv: /^\$error\t([a-z_]+(?:\.[a-z_]+)?)\t[^\t\n]*\n$/,
  ndjson: /^\{"\$error":.*\}\n$/,
};

/** The text, unless its last record says that the server could not finish it. */
function wholeOf(text: string, format: ExportFormat, response: Response): string {
  const at = text.lastIndexOf(format === "ndjson" ? '{"$error":' : "$error");
  const found = at > 0 && text[at - 1] !== "\n" ? null : endings[format]?.exec(text.slice(Math.max(at, 0)));
  if (at < 0 || !found) {
    return text;
  }
  throw format === "ndjson" ? brokenOff(found[0], response) : broken(found[1] ?? "", "the server could not finish its answer", response);
}

function brokenOff(line: string, response: Response): WaveHouseError {
  const { $error } = JSON.parse(line) as { $error: { code: string; error: string } };
  return broken($error.code, $error.error, response);
}

function broken(code: string, message: string, response: Response): WaveHouseError {
  return new WaveHouseError(message, { code, status: response.status, requestId: response.headers.get("X-Request-ID") ?? undefined });
}

/** Rows as they arrive. Nothing is repeated once the answer began. */
export async function* lines<T>(
  transport: Transport,
  table: string,
  document: QueryDocument,
  { signal, onMeta }: QueryOptions,
): AsyncGenerator<T, void, undefined> {
  const parse = parserOf(document);
  const deadline = new Deadline(signal);
  const { timeoutMs } = transport.settings;
  try {
    deadline.restart(timeoutMs);
    const response = await transport.open(callOf(table, document, mediaTypes.ndjson), deadline);
    onMeta?.(metaOf(response));
    const text = new TextDecoder();
    const reader = response.body?.getReader();
    let rest = "";
    for (;;) {
      deadline.restart(timeoutMs);
      const piece = await reader?.read();
      deadline.restart(0); // the caller takes its time over the rows
      const done = piece === undefined || piece.done;
      const found = (rest + (done ? text.decode() : text.decode(piece.value, { stream: true }))).split("\n");
      rest = done ? "" : (found.pop() ?? "");
      for (const line of found) {
        if (line !== "") {
          yield lineOf<T>(parse, line, response);
        }
      }
      if (done) {
        return;
      }
    }
  } catch (cause) {
    throw deadline.explain(cause);
  } finally {
    deadline.cancel();
  }
}

function lineOf<T>(parse: (text: string) => unknown, line: string, response: Response): T {
  if (endings.ndjson?.test(`${line}\n`)) {
    throw brokenOff(line, response);
  }
  try {
    return parse(line) as T;
  } catch (cause) {
    throw invalidResponse(`a line that is not JSON: ${line.slice(0, 100)}`, response, cause);
  }
}
