import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { gunzipSync } from "node:zlib";
import type { AddressInfo, Socket } from "node:net";

import type { Clock } from "@wavehouse/sdk";

/** A request as it arrived, its body read. */
export interface Received {
  method: string;
  url: URL;
  headers: IncomingMessage["headers"];
  body: string;
}

export type Answer = (response: ServerResponse, request: Received) => void;

/** A server whose answers a test writes, one for each request in turn; the last one repeats. */
export class Stub {
  readonly received: Received[] = [];
  readonly #answers: Answer[];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(answers: Answer[]) {
    this.#answers = answers;
    this.#server = createServer((request, response) => void this.#handle(request, response));
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(...answers: Answer[]): Promise<Stub> {
    const stub = new Stub(answers);
    await new Promise<void>((done) => stub.#server.listen(0, "127.0.0.1", done));
    return stub;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    await new Promise((done) => this.#server.close(done));
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) {
      pieces.push(piece as Buffer);
    }
    const sent = Buffer.concat(pieces);
    const body = (request.headers["content-encoding"] === "gzip" ? gunzipSync(sent) : sent).toString();
    const seen = {
      method: request.method ?? "",
      url: new URL(request.url ?? "", this.url),
      headers: request.headers,
      body,
    };
    this.received.push(seen);
    const answer = this.#answers[Math.min(this.received.length, this.#answers.length) - 1];
    answer?.(response, seen);
  }
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(JSON.stringify(body));
  };
}

/** WaveHouse's error body. */
export function failure(status: number, code: string, retryable: boolean, headers: Record<string, string> = {}): Answer {
  return json(status, { error: `failed: ${code}`, code, retryable, request_id: "req-1" }, headers);
}

/** The connection breaks after the request was read. */
export const reset: Answer = (response) => response.socket?.destroy();

/** An event stream that ends after `text`, or stays open. */
export function sse(text: string, open = false): Answer {
  return (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(text);
    if (!open) {
      response.end();
    }
  };
}

/** Takes every row of an NDJSON body except those that `bad` names by line from 1. */
export function ingest(bad: (row: Record<string, unknown>, line: number) => string | undefined = () => undefined): Answer {
  return (response, request) => {
    const results: unknown[] = [];
    const lines = request.body.trim().split("\n");
    lines.forEach((text, at) => {
      const error = bad(JSON.parse(text), at + 1);
      if (error !== undefined) {
        results.push({ index: at + 1, error, code: "record.type_mismatch", column: "n" });
      }
    });
    const failed = results.length;
    json(200, { total: lines.length, succeeded: lines.length - failed, failed, duplicates: 0, results })(response, request);
  };
}

/** Never waits; keeps what it was asked to wait. Jitter is the least unless said. */
export class FakeClock implements Clock {
  readonly slept: number[] = [];
  jitter = 0;
  time = Date.parse("2026-03-24T12:00:00Z");

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.slept.push(ms);
    return signal?.aborted ? Promise.reject(signal.reason) : Promise.resolve();
  }

  random(): number {
    return this.jitter;
  }

  now(): number {
    return this.time;
  }
}
