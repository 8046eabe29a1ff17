package api

import (
	"bytes"
	"io"
)

// What begins the lines of an answer with totals, as ClickHouse writes it.
const (
	rowEvent    = `{"row":`
	totalsEvent = `{"totals":`
)

// rowsAndTotals is an answer that is held whole: {"rows":[…],"totals":{…}}, with at
// most as many rows as may be sent.
func rowsAndTotals(events []byte, rows int64) (answer []byte, cut bool) {
	var out bytes.Buffer
	out.Grow(len(events))
	t := totalsWriter{w: &out, left: rows}
	_, _ = t.Write(events) // a buffer takes everything
	return out.Bytes(), t.cut
}

// totalsWriter makes one object of rows and totals of the lines that it is given,
// each row on a line again. It holds back the beginning of a line until it knows
// what it is, and the end of one, which is the end of the event and not of what is
// in it.
type totalsWriter struct {
	w    io.Writer
	left int64 // rows that may be sent
	cut  bool  // there was one more

	begun bool // a row was written
	line  []byte
	kind  eventKind
	brace bool // is held back
}

// eventKind is what a line is, as far as it is known.
type eventKind uint8

const (
	eventUnknown eventKind = iota
	eventRow
	eventTotals
	eventOther // is not passed on
)

func (t *totalsWriter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p)+len(totalsEvent)+16)
	for rest := p; len(rest) > 0; {
		if t.kind == eventUnknown {
			out, rest = t.begin(out, rest)
			continue
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			out = t.inside(out, rest)
			break
		}
		out = t.inside(out, rest[:end])
		if t.kind == eventTotals {
			out = append(out, "}\n"...)
		}
		t.kind, t.line, t.brace = eventUnknown, t.line[:0], false
		rest = rest[end+1:]
	}
	_, err := t.w.Write(out)
	return len(p), err
}

// begin reads of a line until it is known what it is.
func (t *totalsWriter) begin(out, p []byte) (written, rest []byte) {
	for i, c := range p {
		if c == '\n' {
			t.line = t.line[:0]
			return out, p[i+1:]
		}
		t.line = append(t.line, c)
		switch {
		case string(t.line) == rowEvent:
			return t.beginRow(out), p[i+1:]
		case string(t.line) == totalsEvent:
			t.kind = eventTotals
			return append(t.endRows(out), `,"totals":`...), p[i+1:]
		case len(t.line) >= len(totalsEvent):
			t.kind = eventOther
			return out, p[i+1:]
		}
	}
	return out, nil
}

func (t *totalsWriter) beginRow(out []byte) []byte {
	if t.left == 0 {
		t.kind, t.cut = eventOther, true
		return out
	}
	t.kind = eventRow
	t.left--
	if t.begun {
		return append(out, ",\n"...)
	}
	t.begun = true
	return append(out, "{\"rows\":[\n"...)
}

func (t *totalsWriter) endRows(out []byte) []byte {
	if t.begun {
		return append(out, "\n]"...)
	}
	return append(out, `{"rows":[]`...)
}

// inside passes on what stands in an event, but for its last brace.
func (t *totalsWriter) inside(out, p []byte) []byte {
	if t.kind == eventOther || len(p) == 0 {
		return out
	}
	if t.brace {
		out = append(out, '}')
	}
	inner, brace := bytes.CutSuffix(p, []byte{'}'})
	t.brace = brace
	return append(out, inner...)
}
