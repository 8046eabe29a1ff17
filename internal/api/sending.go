package api

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/query"
)

const (
	// trailerError is the trailer of an answer that failed after it had begun: the
	// code of the error.
	trailerError = "X-Answer-Error"
	// errorKey is the one key of its last record, which holds the error.
	errorKey = "$error"
)

// fetched is what ClickHouse answers to a read: held whole, or its beginning.
type fetched struct {
	head        []byte
	rest        *clickhouse.Response // nil when head is all of it
	contentType string
	// format is the output format's name, as ClickHouse says it.
	format string
	// notes say something of the answer and are sent with it.
	notes []cache.Note
	cost  cost
	// through is the time up to which rows are known to be in it; zero is unknown.
	through time.Time
}

// close ends the statement when its answer was not read to the end.
func (a *fetched) close() {
	if a != nil && a.rest != nil {
		_ = a.rest.Body.Close()
	}
}

// ask runs a read and holds its answer, if there is room for it. Of one that failed
// after it had begun, what it cost is returned with the error.
func (s *Server) ask(ctx context.Context, pool *clickhouse.Pool, at *room, statement clickhouse.Request) (*fetched, error) {
	statement.MaxResponseBytes = maxResult
	response, err := pool.Query(ctx, statement)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	head, whole, err := response.ReadUpTo(at.hold)
	a := &fetched{head: head, contentType: response.ContentType, format: response.Format, cost: cost{
		waited: response.Waited, asked: response.Took, read: response.Summary, queryID: response.QueryID,
	}}
	if whole || err != nil {
		_ = response.Body.Close()
	}
	if err != nil {
		return a, fmt.Errorf("read result: %w", err)
	}
	if whole {
		a.cost.sent = time.Since(began)
	} else {
		a.rest = response
	}
	return a, nil
}

// send sends an answer. What is not held is read as the client reads, by as many
// at once as leave connections to others.
func (s *Server) send(w http.ResponseWriter, r *http.Request, c *request, at *room, a *fetched, as rendering) error {
	header := w.Header()
	header.Set("Content-Type", as.mediaType(a))
	tellRows(header, a.notes)
	if a.rest == nil {
		body := as.whole(a.head)
		if len(body) > pieceBytes {
			defer at.compressing(w, r)()
		}
		header.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
		return nil
	}
	waiting, cancel := context.WithTimeout(r.Context(), answersWait)
	err := a.rest.Linger(waiting)
	cancel()
	if err != nil {
		return answersBusy(r.Context())
	}
	if as.of.rows != nil {
		cut, err := s.count(r.Context(), c.tenant, as.of)
		if err != nil {
			return err
		}
		tellRows(header, as.of.rows.notes(cut))
	}
	defer at.compressing(w, r)()
	header.Set("Trailer", trailerError)
	out := as.writer(w)
	rows := as.of.rows.writer(out)
	_, err = rows.Write(a.head)
	a.head = nil
	at.letGo()
	if err == nil {
		err = pass(rows, a.rest.Body)
	}
	var failed *readFailure
	switch {
	case errors.As(err, &failed):
		return s.endBroken(w, r, out, s.told(r.Context(), c, failed.cause, as.frank))
	case err == nil:
		_ = out.end()
	}
	return nil // else the client is gone
}

// tellRows sends what is said of the rows to everyone who is sent them.
func tellRows(header http.Header, notes []cache.Note) {
	for _, n := range notes {
		if n.Name == truncatedHeader || n.Name == cursorHeader {
			setHeaders(header, n.Name, n.Value)
		}
	}
}

// readFailure is a failure of what is read, not of what it is written to.
type readFailure struct{ cause error }

func (f *readFailure) Error() string { return f.cause.Error() }
func (f *readFailure) Unwrap() error { return f.cause }

// pass copies what ClickHouse answers to the client, a piece at a time.
func pass(out io.Writer, body io.Reader) error {
	piece := make([]byte, pieceBytes)
	for {
		n, err := body.Read(piece)
		if n > 0 {
			if _, err := out.Write(piece[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &readFailure{err}
		}
	}
}

// endBroken ends an answer that failed in the middle, so that nobody takes it for
// a whole one.
func (s *Server) endBroken(w http.ResponseWriter, r *http.Request, out rowWriter, err error) error {
	if r.Context().Err() != nil {
		return nil // nobody is there to be told
	}
	p := problemOf(err)
	if !out.fail(p.body(w.Header().Get(requestIDHeader))) || !r.ProtoAtLeast(1, 1) {
		return err // the connection is cut
	}
	w.Header().Set(trailerError, p.Code)
	s.edge.errors.WithLabelValues(routeOf(r), p.Code).Inc()
	s.Logger.WarnContext(r.Context(), "answer failed after it had begun", "code", p.Code, "error", err)
	return nil
}

// rowWriter passes rows on and knows how a failure is told behind them.
type rowWriter interface {
	io.Writer
	// end writes what is held back.
	end() error
	// fail tells of a failure in the place of what is missing; false when the
	// format has no way to.
	fail(told map[string]any) bool
}

// lineWriter passes on rows that stand on a line each: whole lines, so that a
// failure stands on one of its own.
type lineWriter struct {
	w    io.Writer
	line []byte // the beginning of a line
	// torn is set while a line that is too long to wait for is being passed on.
	torn bool
}

func (l *lineWriter) Write(p []byte) (int, error) {
	at := bytes.LastIndexByte(p, '\n') + 1
	if at == 0 && (l.torn || len(l.line)+len(p) <= pieceBytes) {
		if l.torn {
			return l.w.Write(p)
		}
		l.line = append(l.line, p...)
		return len(p), nil
	}
	if err := l.end(); err != nil {
		return 0, err
	}
	if at == 0 {
		l.torn = true
		return l.w.Write(p)
	}
	l.torn = false
	if _, err := l.w.Write(p[:at]); err != nil {
		return 0, err
	}
	if len(p)-at > pieceBytes {
		l.torn = true
		if _, err := l.w.Write(p[at:]); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	l.line = append(l.line, p[at:]...)
	return len(p), nil
}

func (l *lineWriter) end() error {
	if len(l.line) == 0 {
		return nil
	}
	_, err := l.w.Write(l.line)
	l.line = l.line[:0]
	return err
}

// fail writes the last record. An array stays open behind it, so that no reader
// of JSON takes it for whole.
func (l *lineWriter) fail(told map[string]any) bool {
	record, err := json.Marshal(map[string]any{errorKey: told})
	if err != nil {
		return false
	}
	if l.torn {
		record = append([]byte{'\n'}, record...)
	}
	_, err = l.w.Write(append(record, '\n'))
	return err == nil
}

// csvWriter passes on CSV, whose rows may hold line ends between quotes.
type csvWriter struct {
	w      io.Writer
	quoted bool
	last   byte
}

func (c *csvWriter) Write(p []byte) (int, error) {
	if len(p) > 0 {
		c.quoted = c.quoted != (bytes.Count(p, []byte{'"'})%2 == 1)
		c.last = p[len(p)-1]
	}
	return c.w.Write(p)
}

func (c *csvWriter) end() error { return nil }

func (c *csvWriter) fail(told map[string]any) bool {
	var record bytes.Buffer
	if c.quoted {
		record.WriteByte('"')
	}
	if c.last != '\n' {
		record.WriteByte('\n')
	}
	w := csv.NewWriter(&record)
	_ = w.Write([]string{errorKey, fmt.Sprint(told["code"]), fmt.Sprint(told["error"])})
	w.Flush()
	_, err := c.w.Write(record.Bytes())
	return err == nil
}

// tsvWriter passes on TSV, whose rows stand on a line each.
type tsvWriter struct{ lineWriter }

func (t *tsvWriter) fail(told map[string]any) bool {
	record := []byte(errorKey)
	if t.torn {
		record = append([]byte{'\n'}, record...)
	}
	for _, field := range []any{told["code"], told["error"]} {
		record = append(append(record, '\t'), tsvEscapes.Replace(fmt.Sprint(field))...)
	}
	_, err := t.w.Write(append(record, '\n'))
	return err == nil
}

var tsvEscapes = strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

// plainWriter passes on what has no place for a failure.
type plainWriter struct{ io.Writer }

func (plainWriter) end() error               { return nil }
func (plainWriter) fail(map[string]any) bool { return false }

// rendering is how an answer is sent.
type rendering struct {
	// rows is what is sent; without a type it is what ClickHouse says it is.
	rows rendered
	// array makes one JSON array of rows that stand on a line each.
	array bool
	// frank tells of a failure in ClickHouse's own words.
	frank bool
	// of is the read that is answered; one without a cap when it has none.
	of read
}

func (as rendering) mediaType(a *fetched) string {
	if as.rows.mediaType == "" {
		if strings.HasPrefix(a.contentType, "text/") {
			// ClickHouse claims UTF-8, and gives whatever bytes it has.
			return strings.Replace(a.contentType, "; charset=UTF-8", "", 1)
		}
		return a.contentType
	}
	return as.rows.mediaType
}

func (as rendering) whole(head []byte) []byte {
	if as.array {
		return arrayOfLines(head)
	}
	return head
}

func (as rendering) writer(w io.Writer) rowWriter {
	switch {
	case as.array:
		array := &arrayWriter{w: w}
		return &arrayLines{lineWriter{w: array}, array}
	case as.rows.mediaType == "":
		return plainWriter{w}
	}
	switch as.rows.format {
	case query.FormatJSON, query.FormatNDJSON:
		return &lineWriter{w: w}
	case query.FormatCSV:
		return &csvWriter{w: w}
	case query.FormatTSV:
		return &tsvWriter{lineWriter{w: w}}
	}
	return plainWriter{w}
}

// arrayLines passes on rows that stand on a line each as one JSON array.
type arrayLines struct {
	lineWriter
	array *arrayWriter
}

func (a *arrayLines) end() error {
	if err := a.lineWriter.end(); err != nil {
		return err
	}
	return a.array.close()
}

// arrayWriter puts what separates the rows of an array in the place of line ends,
// but for the last.
type arrayWriter struct {
	w     io.Writer
	begun bool
	ended bool // with a line end, which is not written
}

func (a *arrayWriter) Write(p []byte) (int, error) {
	var out bytes.Buffer
	if !a.begun {
		out.WriteByte('[')
	} else if a.ended {
		out.WriteString(",\n")
	}
	rows, ended := bytes.CutSuffix(p, []byte{'\n'})
	a.begun, a.ended = true, ended
	out.Write(bytes.ReplaceAll(rows, []byte{'\n'}, []byte(",\n")))
	if _, err := a.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (a *arrayWriter) close() error {
	end := "]\n"
	if !a.begun {
		end = "[]\n"
	}
	_, err := io.WriteString(a.w, end)
	return err
}

// sendValue sends a result that is held. It is not done when there is no room to
// hold what is sent.
func (s *Server) sendValue(w http.ResponseWriter, r *http.Request, at *room, v *cache.Value) (done bool, err error) {
	header := w.Header()
	tellRows(header, v.Notes)
	if matches(r.Header.Get("If-None-Match"), v.ETag) {
		setHeaders(header, "Etag", v.ETag)
		w.WriteHeader(http.StatusNotModified)
		return true, nil
	}
	encoding, size := encodingOf(r.Header.Get("Accept-Encoding"), v)
	if size > pieceBytes && at.held < int64(size) && !at.hold(int64(size)) {
		return false, nil
	}
	body, ok := v.Encoded(encoding)
	if !ok {
		if body, err = v.Body(); err != nil {
			return false, err
		}
	}
	if encoding != cache.EncodingPlain {
		header.Set("Content-Encoding", encoding)
	} else if size > pieceBytes {
		defer at.compressing(w, r)()
	}
	setHeaders(header, "Etag", v.ETag, "Content-Type", v.ContentType, "Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
	return true, nil
}
