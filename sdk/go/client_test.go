package wavehouse

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// stub answers requests in turn; its last answer repeats.
type stub struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

type answer func(w http.ResponseWriter, r *http.Request, body string)

func serve(t *testing.T, answers ...answer) *stub {
	t.Helper()
	s := &stub{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var reader io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			reader, _ = gzip.NewReader(r.Body)
		}
		body, _ := io.ReadAll(reader)
		s.mu.Lock()
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
		next := answers[min(len(s.requests), len(answers))-1]
		s.mu.Unlock()
		next(w, r, string(body))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stub) headers(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var values []string
	for _, r := range s.requests {
		values = append(values, r.Header.Get(name))
	}
	return values
}

func (s *stub) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *stub) request(i int) *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[i]
}

func (s *stub) body(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[i]
}

func text(status int, body string, headers ...string) answer {
	return func(w http.ResponseWriter, _ *http.Request, _ string) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func refuse(status int, code string, retryable bool, headers ...string) answer {
	return text(status, fmt.Sprintf(`{"error":"failed: %s","code":%q,"retryable":%v,"request_id":"r1","limit":"x"}`, code, code, retryable), headers...)
}

func reset(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) }

// ingest takes every line but those that bad names.
func ingest(bad string) answer {
	return func(w http.ResponseWriter, _ *http.Request, body string) {
		lines := strings.Split(strings.TrimSpace(body), "\n")
		failures := []map[string]any{}
		for i, line := range lines {
			if bad != "" && strings.Contains(line, bad) {
				failures = append(failures, map[string]any{"index": i + 1, "error": "not a number", "code": "record.type_mismatch", "column": "n"})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"total": len(lines), "succeeded": len(lines) - len(failures), "failed": len(failures), "duplicates": 0, "results": failures,
		})
	}
}

// client makes a client that never waits, and what it was asked to wait.
func client(t *testing.T, s *stub, options ...Option) (*Client, *[]time.Duration) {
	t.Helper()
	c, err := New(s.URL, options...)
	if err != nil {
		t.Fatal(err)
	}
	waits := &[]time.Duration{}
	c.sleep = func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return ctx.Err()
	}
	return c, waits
}

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func codeOf(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *Error", err)
	}
	return e
}

type row struct {
	N uint64 `json:"n"`
}

func TestAQueryKeepsEveryDigit(t *testing.T) {
	s := serve(t, text(200, `[{"n":18446744073709551615}]`))
	c, _ := client(t, s, WithToken("abc"), WithTenant("birch"), WithHeader("X-Own", "1"))
	rows, err := Query[row](t.Context(), c, "t", Document{Columns: []string{"n"}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, rows[0].N, uint64(18446744073709551615))
	loose, err := Query[map[string]any](t.Context(), c, "t", Document{SelectAll: true})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, loose[0]["n"], any(json.Number("18446744073709551615")))
	equal(t, s.headers("Authorization")[0], "Bearer abc")
	equal(t, s.headers("X-Tenant-ID")[0], "birch")
	equal(t, s.headers("X-Own")[0], "1")
	equal(t, s.body(0), `{"columns":["n"]}`)
}

func TestWhatMayBeRepeatedIs(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  answer
		insert bool
		asked  int
		code   string
	}{
		{"a lost answer to a query", reset, false, 2, ""},
		{"a full queue", refuse(503, "queue.full", true, "Retry-After", "2"), true, 2, ""},
		{"a proxy's error to a query", text(502, "bad gateway"), false, 2, ""},
		{"a proxy's error to an insert", text(502, "bad gateway"), true, 1, "http.502"},
		{"a lost answer to an insert", reset, true, 1, CodeNetwork},
		{"an outcome that is not known", refuse(503, "queue.outcome_unknown", true), true, 1, "queue.outcome_unknown"},
		{"a refusal", refuse(403, "auth.forbidden", false), false, 1, "auth.forbidden"},
		{"a wait of an hour", refuse(429, "tenant.rate_limited", true, "Retry-After", "3600"), false, 1, "tenant.rate_limited"},
		{"a redirect", text(302, "", "Location", "http://elsewhere/"), false, 1, CodeRedirect},
	} {
		t.Run(c.name, func(t *testing.T) {
			then := text(200, "[]")
			if c.insert {
				then = ingest("")
			}
			s := serve(t, c.first, then)
			cl, _ := client(t, s)
			var err error
			if c.insert {
				_, err = Insert(t.Context(), cl, "t", []row{{1}})
			} else {
				_, err = Query[row](t.Context(), cl, "t", Document{})
			}
			equal(t, s.count(), c.asked)
			if c.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			equal(t, codeOf(t, err).Code, c.code)
		})
	}
}

func TestAnErrorCarriesWhatTheServerSaid(t *testing.T) {
	s := serve(t, refuse(429, "tenant.rate_limited", true, "Retry-After", "7"))
	c, waits := client(t, s, WithRetries(1))
	_, err := Query[row](t.Context(), c, "t", Document{})
	e := codeOf(t, err)
	equal(t, e.Status, 429)
	equal(t, e.RequestID, "r1")
	equal(t, e.RetryAfter, 7*time.Second)
	equal(t, string(e.Details["limit"]), `"x"`)
	equal(t, len(*waits), 1)
	if (*waits)[0] < 7*time.Second {
		t.Fatal(*waits)
	}
	for _, address := range []string{"ftp://x", "x", "http://u:p@x", "http://x?y", ":"} {
		_, err := New(address)
		equal(t, codeOf(t, err).Code, CodeInvalidOption)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Query[row](ended, c, "t", Document{})
	equal(t, codeOf(t, err).Code, CodeAborted)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	hung := serve(t, func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() })
	late, _ := client(t, hung, WithTimeout(50*time.Millisecond))
	_, err = Query[row](t.Context(), late, "t", Document{})
	equal(t, codeOf(t, err).Code, CodeTimeout)
	tokens, _ := client(t, s, WithTokenSource(func(context.Context) (string, error) { return "", errors.New("no session") }))
	_, err = Query[row](t.Context(), tokens, "t", Document{})
	equal(t, codeOf(t, err).Code, CodeToken)
}

func TestAnInsertNamesRowsByTheirIndex(t *testing.T) {
	s := serve(t, ingest(`"bad"`))
	c, _ := client(t, s)
	rows := []any{map[string]any{"n": 1}, func() {}, 5, map[string]any{"n": "bad"}}
	result, err := Insert(t.Context(), c, "t", rows)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, result.Total, 4)
	equal(t, result.Succeeded, 1)
	var at []int
	for _, f := range result.Failures {
		at = append(at, f.Index)
	}
	if !slices.Equal(at, []int{1, 2, 3}) {
		t.Fatal(at)
	}
	_, err = Insert(t.Context(), c, "t", rows[3:])
	var refused *InsertError
	if !errors.As(err, &refused) || refused.Result.Failed != 1 {
		t.Fatal(err)
	}
	equal(t, codeOf(t, err).Code, "record.type_mismatch")
}

func TestALargeInsertIsCutAndCompressedUnderNumberedKeys(t *testing.T) {
	s := serve(t, ingest(""), reset, ingest(""))
	c, _ := client(t, s)
	rows := make([]row, 25_000)
	result, err := Insert(t.Context(), c, "t", rows, IdempotencyKey("load"), WaitInserted(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, result.Succeeded, 25_000)
	if keys := s.headers("Idempotency-Key"); !slices.Equal(keys, []string{"load", "load-2", "load-2", "load-3"}) {
		t.Fatal(keys)
	}
	equal(t, s.headers("Content-Encoding")[0], "gzip")
	equal(t, s.request(0).URL.Query().Get("timeout"), "1000ms")
	equal(t, s.body(1), s.body(2))
}

func TestRowsArriveOneByOneAndSayWhyTheyEnd(t *testing.T) {
	s := serve(t, text(200, "{\"n\":1}\n{\"n\":2}\n{\"$error\":{\"code\":\"clickhouse.unavailable\",\"error\":\"gone\"}}\n"))
	c, _ := client(t, s)
	var got []uint64
	var end error
	for r, err := range Rows[row](t.Context(), c, "t", Document{}) {
		if err != nil {
			end = err
			break
		}
		got = append(got, r.N)
	}
	if !slices.Equal(got, []uint64{1, 2}) {
		t.Fatal(got)
	}
	equal(t, codeOf(t, end).Code, "clickhouse.unavailable")
}

func TestAPipeAndASnapshot(t *testing.T) {
	s := serve(t, text(200, `[{"n":1}]`, "X-Stream-Position", "p1", "X-Stream-Join", "exact"))
	c, _ := client(t, s)
	rows, err := Pipe[row](t.Context(), c, "a/b", map[string]any{"since": "x"})
	if err != nil || rows[0].N != 1 {
		t.Fatal(rows, err)
	}
	equal(t, s.request(0).URL.EscapedPath(), "/v1/pipes/a%2Fb")
	snap, err := QuerySnapshot[row](t.Context(), c, "t", Document{})
	if err != nil || !snap.Exact || snap.Position != "p1" {
		t.Fatal(snap, err)
	}
}

const opened = ": connected\nretry: 1500\n\nid: o\n\n"

func event(id string, n int) string {
	return fmt.Sprintf("id: %s\ndata: {\"table\":\"t\",\"received_at\":\"2026-03-24T12:00:00Z\",\"row\":{\"n\":%d}}\n\n", id, n)
}

func TestRowsNameWhatIsAsItWasSent(t *testing.T) {
	s := serve(t, sse(opened+strings.Replace(event("a", 1), `"row"`, `"as_sent":["n"],"row"`, 1)+event("b", 2)), text(204, ""))
	c, _ := client(t, s)
	var asSent [][]string
	for e, err := range Stream[row](t.Context(), c, "t") {
		if err != nil {
			t.Fatal(err)
		}
		asSent = append(asSent, e.AsSent)
	}
	equal(t, fmt.Sprint(asSent), "[[n] []]")
}

func sse(body string) answer {
	return text(200, body, "Content-Type", "text/event-stream")
}

func TestAStreamResumesWhereItWasCut(t *testing.T) {
	whole := opened + event("a", 1) + ": keepalive\nid: k\n\n" + "event: gap\nid: g\ndata: {\"reason\":\"retention\"}\n\n" +
		"event: future\ndata: x\n\n" + "event: end\ndata: {\"reason\":\"shutdown\"}\n\n" + event("b", 2)
	// Cut after every byte: each row comes once, whatever the second connection resumes at.
	for cut := range len(whole) {
		s := serve(t, sse(whole[:cut]), func(w http.ResponseWriter, r *http.Request, _ string) {
			after := r.Header.Get("Last-Event-ID")
			body := whole
			if at := strings.Index(whole, "id: "+after+"\n"); after != "" && at >= 0 {
				body = whole[at+strings.Index(whole[at:], "\n\n")+2:]
			}
			sse(body)(w, r, "")
		}, text(204, ""))
		c, waits := client(t, s)
		var rows []uint64
		gaps := 0
		for e, err := range Stream[row](t.Context(), c, "t") {
			if err != nil {
				t.Fatal(cut, err)
			}
			switch e.Kind {
			case EventRow:
				rows = append(rows, e.Row.N)
			case EventGap:
				gaps++
			}
		}
		if !slices.Equal(rows, []uint64{1, 2}) || gaps != 1 {
			t.Fatalf("cut after %d bytes: rows %v, %d gaps, resumed at %q", cut, rows, gaps, s.headers("Last-Event-ID"))
		}
		equal(t, len(*waits), 2)
	}
}

func TestAStreamEndsForWhatWillNotPass(t *testing.T) {
	s := serve(t, refuse(503, "stream.unavailable", true), refuse(403, "auth.forbidden", false))
	c, _ := client(t, s)
	var last error
	for _, err := range Stream[row](t.Context(), c, "t", FromID("x"), Since(time.Unix(0, 0)), IdleTimeout(time.Minute)) {
		last = err
	}
	equal(t, codeOf(t, last).Code, "auth.forbidden")
	equal(t, s.headers("Last-Event-ID")[0], "x")
	quiet := serve(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, text(204, ""))
	c, _ = client(t, quiet)
	for range Stream[row](t.Context(), c, "t", Since(time.Unix(0, 0)), IdleTimeout(500*time.Millisecond)) {
		t.Fatal("nothing was sent")
	}
	equal(t, quiet.count(), 2)
	equal(t, quiet.request(0).URL.Query().Get("since"), "1970-01-01T00:00:00Z")
	html := serve(t, text(200, "<html>", "Content-Type", "text/html"))
	c, _ = client(t, html)
	for _, err := range Stream[row](t.Context(), c, "t") {
		equal(t, codeOf(t, err).Code, CodeInvalidResponse)
	}
}

func TestABatchIsRepeatedUnderItsKeyUntilItIsAnswered(t *testing.T) {
	s := serve(t, reset, refuse(401, "auth.token_expired", false), text(500, ""), ingest("13"))
	c, _ := client(t, s, WithRetries(0))
	var mu sync.Mutex
	var dropped []row
	b := NewBatcher(c, "t", BatcherOptions[row]{MaxRows: 2, MaxAge: time.Hour, OnDrop: func(rows []row, _ error) {
		mu.Lock()
		defer mu.Unlock()
		dropped = append(dropped, rows...)
	}})
	for _, n := range []uint64{1, 13, 3} {
		if err := b.Add(row{n}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys := s.headers("Idempotency-Key")
	equal(t, len(keys), 5)
	equal(t, keys[0], keys[3])
	if keys[4] == keys[0] {
		t.Fatal(keys)
	}
	unsent, err := b.Close(t.Context())
	if err != nil || len(unsent) != 0 {
		t.Fatal(unsent, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(dropped) != 1 || dropped[0].N != 13 {
		t.Fatal(dropped)
	}
	if err := b.Add(row{4}); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestClosingSaysWhatWasNotSentAndWhy(t *testing.T) {
	for name, c := range map[string]struct {
		retries int
		after   string
	}{
		"while the batcher waits to try again": {retries: 0},
		"while the client waits to repeat":     {retries: 1},
		"while the server asks for a pause":    {retries: 1, after: "3600"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cl, _ := client(t, serve(t, refuse(503, "queue.full", true, "Retry-After", c.after)), WithRetries(c.retries))
			cl.sleep = func(waiting context.Context, _ time.Duration) error {
				cancel()
				<-waiting.Done()
				return waiting.Err()
			}
			b := NewBatcher(cl, "t", BatcherOptions[row]{MaxQueueBytes: 20, MaxAge: time.Millisecond})
			_ = b.Add(row{1})
			_ = b.Add(row{2})
			if err := b.Add(row{3}); !errors.Is(err, ErrQueueFull) {
				t.Fatal(err)
			}
			unsent, err := b.Close(ctx)
			if len(unsent) != 2 || !errors.Is(err, context.Canceled) {
				t.Fatal(unsent, err)
			}
			equal(t, codeOf(t, err).Code, "queue.full")
			equal(t, err.Error(), `wavehouse: 2 rows of table "t" were not sent: context canceled; the last attempt: wavehouse: failed: queue.full (queue.full)`)
		})
	}
}

func TestClosingBeforeAnAnswerSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := client(t, serve(t, func(_ http.ResponseWriter, r *http.Request, _ string) {
		cancel()
		<-r.Context().Done()
	}))
	b := NewBatcher(c, "t", BatcherOptions[row]{})
	_ = b.Add(row{1})
	unsent, err := b.Close(ctx)
	if len(unsent) != 1 || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 rows") {
		t.Fatal(unsent, err)
	}
	equal(t, codeOf(t, err).Code, CodeAborted)
	if codeOf(t, NewBatcher(c, "t", BatcherOptions[any]{}).Add(func() {})).Code != CodeInvalidRow {
		t.Fatal("a function has no JSON form")
	}
}
