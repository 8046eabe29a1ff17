package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// truncatedHeader names the bound that cut an answer: there was at least one more
// row.
const truncatedHeader = "X-Result-Truncated"

// rowCap keeps an answer to its rows, and tells when it had more. Where the format
// has a record of text for each row, ClickHouse was asked for one more than may be
// sent; of other formats, and of an answer that is sent before its end is known, the
// rows are counted by a statement of its own. It is asked after the answer has begun,
// so that it knows of every row that the answer may have had.
type rowCap struct {
	query.Cap
	format query.Format
	// totals: the answer is of events, which become rows and totals.
	totals bool
	// countSQL counts the rows up to one more than may be sent, over what the
	// answer was asked over.
	countSQL func() string
	// page is what the answer is one of; nil where none follows.
	page *query.Page
	// behind is the cursor behind the last row, of which no page was asked; nil
	// where there is none.
	behind func(last, next []byte) string
}

// capOf is the cap of a statement's answer, nil when it has none.
func capOf(statement *query.Statement, format query.Format) *rowCap {
	c := rowCap{Cap: statement.Cap, format: format, totals: statement.Totals, countSQL: statement.CountSQL, page: statement.Page()}
	if c.By == "" && !c.totals {
		return nil
	}
	if c.By == "" {
		c.Rows = math.MaxInt64
	}
	if statement.Continues() {
		c.behind = statement.Cursor
	}
	return &c
}

// whole returns an answer that is held without what is over the cap, and what is
// said of it.
func (c *rowCap) whole(body []byte) (kept []byte, notes []cache.Note) {
	if c.totals {
		kept, cut := rowsAndTotals(body, c.Rows)
		return kept, c.notes(cut)
	}
	pass := cutter{left: c.Rows + leadingLines(c.format), quotes: c.format == query.FormatCSV}
	n, full := pass.next(body)
	if !full || n == len(body) || c.format == query.FormatJSON && body[n] != '{' {
		return body, nil
	}
	notes = c.notes(true)
	if c.behind != nil {
		last, next := rowsAround(body, n)
		if cursor := c.behind(last, next); cursor != "" {
			notes = append(notes, cache.Note{Name: cursorHeader, Value: cursor})
		}
	}
	if c.format != query.FormatJSON {
		return body[:n], notes
	}
	return append(bytes.TrimSuffix(body[:n], []byte(",\n")), arrayEnd[c.Rows == 0]...), notes
}

// rowsAround are the rows that end and begin at n of an answer with one on a line each.
func rowsAround(body []byte, n int) (last, next []byte) {
	last = bytes.TrimRight(body[:n], ",\n")
	last = last[bytes.LastIndexByte(last, '\n')+1:]
	next, _, _ = bytes.Cut(body[n:], []byte{'\n'})
	return last, bytes.TrimSuffix(next, []byte{','})
}

// arrayEnd is the end of an array behind its last row, and of one without any.
var arrayEnd = map[bool]string{false: "\n]\n", true: "]\n"}

// cuts reports whether the answer has one row more than may be sent.
func (c *rowCap) cuts() bool { return c != nil && c.format.Records() }

// writer passes on what is not over the cap.
func (c *rowCap) writer(w io.Writer) io.Writer {
	if !c.cuts() {
		return w
	}
	if c.totals {
		return &totalsWriter{w: w, left: c.Rows}
	}
	cut := &cutWriter{
		w: w, array: c.format == query.FormatJSON, none: c.Rows == 0,
		cutter: cutter{left: c.Rows + leadingLines(c.format), quotes: c.format == query.FormatCSV},
	}
	if c.page == nil {
		return cut
	}
	mark := keyMark(c.page)
	return &keyWriter{w: cut, mark: mark, tail: len(mark) + c.page.MaxKey() + len(`"},`)}
}

// leadingLines is how many lines stand before the rows.
func leadingLines(f query.Format) int64 {
	if f == query.FormatNDJSON {
		return 0
	}
	return 1
}

// notes say that the answer was cut.
func (c *rowCap) notes(cut bool) []cache.Note {
	if !cut || c.By == "" {
		return nil
	}
	return []cache.Note{{Name: truncatedHeader, Value: c.By}}
}

// count asks whether there are more rows than may be sent. What is asked is as long
// as the answer, and no longer: it stops behind the row that is one more.
func (s *Server) count(ctx context.Context, id tenant.ID, q read) (cut bool, err error) {
	if q.rows.By == "" {
		return false, nil
	}
	statement := q.request
	statement.SQL = q.rows.countSQL()
	statement.MaxResponseBytes = 64 // a number
	response, err := q.pool.Query(ctx, statement)
	if err != nil {
		s.spentOn(id, err)
		return false, err
	}
	s.spent(id, response.Summary)
	defer func() { _ = response.Body.Close() }()
	text, err := response.ReadAll()
	if err != nil {
		return false, fmt.Errorf("count the rows of an answer: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return false, fmt.Errorf("count the rows of an answer: %w", err)
	}
	return n > q.rows.Rows, nil
}

// fetch runs a read, holds its answer if there is room for it, and keeps it to its
// rows.
func (s *Server) fetch(ctx context.Context, at *room, q read) (*fetched, error) {
	at.page = q.rows != nil && q.rows.page != nil
	a, err := s.askCounted(ctx, at, q)
	if err != nil || a.rest != nil || q.rows == nil {
		return a, err
	}
	if at.page {
		a.head, a.notes, err = s.page(ctx, at, q, a.head)
		return a, err
	}
	if q.rows.cuts() {
		a.head, a.notes = q.rows.whole(a.head)
		return a, nil
	}
	cut, err := s.count(ctx, at.tenant, q)
	if err != nil {
		return nil, err
	}
	a.notes = q.rows.notes(cut)
	return a, nil
}

// cutter finds where the rows end that may be sent.
type cutter struct {
	left   int64 // lines
	quotes bool  // line ends between quotes are none
	quoted bool
}

// next returns how much of p may be sent; full says that nothing more may.
func (c *cutter) next(p []byte) (n int, full bool) {
	for c.left > 0 {
		end := bytes.IndexByte(p[n:], '\n')
		if end < 0 {
			c.quoted = c.quoted != (c.quotes && odd(p[n:]))
			return len(p), false
		}
		c.quoted = c.quoted != (c.quotes && odd(p[n:n+end]))
		n += end + 1
		if !c.quoted {
			c.left--
		}
	}
	return n, true
}

// odd reports whether there is an odd number of quotes in p.
func odd(p []byte) bool { return bytes.Count(p, []byte{'"'})%2 == 1 }

// cutWriter passes on an answer up to its last row that may be sent.
type cutWriter struct {
	cutter
	w     io.Writer
	array bool // of JSON, which is closed behind that row
	none  bool // of the rows may be sent
	comma bool // is held back: the row before it may be the last
	ended bool
}

func (c *cutWriter) Write(p []byte) (int, error) {
	size := len(p)
	if c.ended || size == 0 {
		return size, nil
	}
	n, full := c.next(p)
	out := p[:n]
	if c.array {
		out = c.inArray(p, n, full)
	}
	c.ended = c.ended || full && !c.array
	_, err := c.w.Write(out)
	return size, err
}

// inArray returns what is written of p, a piece of an array of which n bytes may be
// sent.
func (c *cutWriter) inArray(p []byte, n int, full bool) []byte {
	out := make([]byte, 0, len(p)+4)
	if c.comma {
		out = append(out, ',')
		c.comma = false
	}
	out = append(out, p[:n]...)
	if !full {
		out, c.comma = bytes.CutSuffix(out, []byte{','})
		return out
	}
	if bare, more := bytes.CutSuffix(out, []byte(",\n")); more {
		c.ended = true
		return append(bare, arrayEnd[false]...)
	}
	if c.none {
		c.ended = true
		return append(out, arrayEnd[true]...)
	}
	return append(out, p[n:]...) // the last row that there is
}
