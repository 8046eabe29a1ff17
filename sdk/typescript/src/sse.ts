/** One event of an event stream, or with data `undefined` a new place alone. */
export interface ServerEvent {
  event: string;
  data: string | undefined;
  /** The last id seen so far, "" for none. */
  id: string;
}

/** The most text that is kept for one unfinished event, in UTF-16 units. */
const maxPending = 16 * 1024 * 1024;

/**
 * Reads text/event-stream from pieces of text cut anywhere, as the HTML
 * standard describes it. An event that is not finished when the stream ends is
 * dropped: the server will send it again.
 */
export class EventParser {
  /** Milliseconds of the last `retry:` line. */
  retry: number | undefined;
  #pending = "";
  #data: string[] = [];
  #size = 0;
  #event = "";
  #id: string;
  #told: string;
  #started = false;

  constructor(lastEventId: string) {
    this.#id = lastEventId;
    this.#told = lastEventId;
  }

  /** Takes the next piece and returns the events that it finishes. */
  push(piece: string): ServerEvent[] {
    if (!this.#started && piece !== "") {
      this.#started = true;
      piece = piece.replace(/^\uFEFF/, "");
    }
    const text = this.#pending + piece;
    const events: ServerEvent[] = [];
    let from = 0;
    // What is pending holds no line end, but perhaps the first half of one.
    const unseen = Math.max(0, this.#pending.length - 1);
    for (let end = lineEnd(text, unseen); end >= 0; end = lineEnd(text, from)) {
      this.#line(text.slice(from, end), events);
      from = end + (text[end] === "\r" && text[end + 1] === "\n" ? 2 : 1);
    }
    this.#pending = text.slice(from);
    if (this.#pending.length + this.#size > maxPending) {
      throw new Error(`an event is longer than ${maxPending} characters`);
    }
    return events;
  }

  #line(line: string, events: ServerEvent[]): void {
    if (line === "") {
      this.#dispatch(events);
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    this.#field(field, value);
  }

  #field(field: string, value: string): void {
    switch (field) {
      case "data":
        this.#data.push(value);
        this.#size += value.length;
        break;
      case "event":
        this.#event = value;
        break;
      case "id":
        if (!value.includes("\0")) {
          this.#id = value;
        }
        break;
      case "retry":
        if (/^\d+$/.test(value)) {
          this.retry = Number(value);
        }
        break;
    }
  }

  #dispatch(events: ServerEvent[]): void {
    if (this.#data.length > 0) {
      events.push({ event: this.#event || "message", data: this.#data.join("\n"), id: this.#id });
    } else if (this.#id !== this.#told) {
      events.push({ event: "", data: undefined, id: this.#id });
    }
    this.#told = this.#id;
    this.#data = [];
    this.#size = 0;
    this.#event = "";
  }
}

/**
 * Where the first line end at or after `from` is, -1 when there is none. A
 * carriage return at the very end waits for what follows: it may be half of a
 * pair.
 */
function lineEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const c = text[at];
    if (c === "\n" || (c === "\r" && at + 1 < text.length)) {
      return at;
    }
  }
  return -1;
}
