package jetstream

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Header names of a stored message.
const (
	headerVersion  = "Wh-Version"
	headerFormat   = "Wh-Format"
	headerColumns  = "Wh-Columns"
	headerRows     = "Wh-Rows"
	headerReceived = "Wh-Received"
	headerEncoding = "Wh-Encoding"
	headerIDs      = "Wh-Ids"
	headerTrace    = "traceparent"
	headerID       = nats.MsgIdHdr
)

// EncodeChunk returns the headers of c; its body is the message's body.
func EncodeChunk(c *mq.Chunk) nats.Header {
	h := nats.Header{}
	putRows(h, &c.Header)
	if !c.Received.IsZero() {
		h[headerReceived] = []string{c.Received.UTC().Format(time.RFC3339Nano)}
	}
	if c.IDs > 0 {
		put(h, headerIDs, strconv.Itoa(c.IDs))
	}
	put(h, headerID, escapeText(c.ID))
	return h
}

// DecodeChunk reads a stored message. One that is not a chunk comes back with
// Version "", whatever can be told of its topic, and the body as it is. One of
// another version keeps that version and whatever of its headers is readable.
func DecodeChunk(subject string, h nats.Header, body []byte) mq.Chunk {
	c := mq.Chunk{Body: body}
	c.Topic, _ = ParseTopic(subject)
	header, ok := takeRows(h)
	received, err := time.Parse(time.RFC3339Nano, first(h, headerReceived))
	if header.Version == mq.Version && (!ok || err != nil) {
		return c
	}
	if header.Version == "" {
		return c
	}
	if err == nil {
		header.Received = received
	}
	if text := first(h, headerIDs); text != "" {
		if header.IDs, err = strconv.Atoi(text); err != nil || header.IDs <= 0 {
			return c
		}
	}
	c.Header = header
	c.ID = unescapeText(first(h, headerID))
	return c
}

// Canonical returns c as DecodeChunk would give it back once stored.
func Canonical(c mq.Chunk) mq.Chunk {
	switch {
	case c.Version == "", c.Version == mq.Version && !wellFormed(&c.Header):
		return mq.Chunk{Topic: c.Topic, Body: c.Body}
	}
	if !c.Received.IsZero() {
		c.Received = c.Received.UTC().Round(0)
	}
	return c
}

// Size is what a message takes: subject, headers and body.
func Size(subject string, h nats.Header, body []byte) int {
	n := len(subject) + len(body) + len("NATS/1.0\r\n\r\n")
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return n
}

func wellFormed(h *mq.Header) bool {
	return h.Rows > 0 && h.IDs >= 0 && !h.Received.IsZero() && knownFormat(h.Format) && h.Columns != "" && safeValue(h.Columns)
}

func knownFormat(f string) bool {
	return f == mq.FormatRowBinary || f == mq.FormatJSONCompactEachRow
}

// putRows writes what a chunk and a dead letter say alike.
func putRows(h nats.Header, from *mq.Header) {
	put(h, headerVersion, escapeText(from.Version))
	put(h, headerFormat, escapeText(from.Format))
	if safeValue(from.Columns) {
		put(h, headerColumns, from.Columns)
	}
	if from.Rows > 0 {
		put(h, headerRows, strconv.Itoa(from.Rows))
	}
	put(h, headerEncoding, escapeText(from.Encoding))
	put(h, headerTrace, escapeText(from.TraceParent))
}

// takeRows reads what putRows wrote; ok is false when it is not whole.
func takeRows(h nats.Header) (out mq.Header, ok bool) {
	out.Version = unescapeText(first(h, headerVersion))
	out.Format = unescapeText(first(h, headerFormat))
	out.Columns = first(h, headerColumns)
	out.Encoding = unescapeText(first(h, headerEncoding))
	out.TraceParent = unescapeText(first(h, headerTrace))
	rows, err := strconv.Atoi(first(h, headerRows))
	if err == nil && rows > 0 {
		out.Rows = rows
	}
	return out, out.Rows > 0 && knownFormat(out.Format) && out.Columns != ""
}

func put(h nats.Header, key, value string) {
	if value != "" {
		h[key] = []string{value}
	}
}

func first(h nats.Header, key string) string {
	if vs := h[key]; len(vs) > 0 {
		return vs[0]
	}
	return ""
}
