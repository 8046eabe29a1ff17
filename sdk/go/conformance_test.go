package wavehouse

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// conformanceCase is one of sdk/conformance/cases.json, whose README explains it.
type conformanceCase struct {
	Name     string
	Call     string
	Format   string
	Document json.RawMessage
	Rows     []map[string]any
	Key      string
	Answers  []json.RawMessage
	Stream   string
	Expect   struct {
		Requests  *int
		Rows      []string
		Gaps      *int
		Succeeded *int
		Failures  []struct {
			Index        int
			Code, Column string
		}
		Keys, Resumed []string
		Accept        []string
		Cursors       []string
		Truncated     []string
		Text          *string
		Waited        int
		Error         *struct {
			Code       *string
			Status     *int
			Retryable  *bool
			RequestID  *string `json:"request_id"`
			RetryAfter *int    `json:"retry_after"`
		}
	}
}

func (c conformanceCase) answers(t *testing.T) []answer {
	t.Helper()
	var all []answer
	for _, raw := range c.Answers {
		var a struct {
			Status  int
			Headers map[string]string
			Body    json.RawMessage
			Text    *string
		}
		if string(raw) == `"lost"` {
			all = append(all, reset)
			continue
		}
		if err := json.Unmarshal(raw, &a); err != nil {
			t.Fatal(err)
		}
		body := string(a.Body)
		if a.Text != nil {
			body = *a.Text
		}
		var headers []string
		for key, value := range a.Headers {
			headers = append(headers, key, value)
		}
		all = append(all, text(a.Status, body, headers...))
	}
	return all
}

// TestConformance runs what every client of the repository does.
func TestConformance(t *testing.T) {
	raw, err := os.ReadFile("../conformance/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []conformanceCase
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) < 20 {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if c.Stream == "" {
				c.check(t, c.answers(t))
				return
			}
			for cut := range len(c.Stream) {
				c.check(t, []answer{sse(c.Stream[:cut]), func(w http.ResponseWriter, r *http.Request, _ string) {
					rest := c.Stream
					if at := strings.Index(rest, "id: "+r.Header.Get("Last-Event-ID")+"\n"); at >= 0 {
						rest = rest[at+strings.Index(rest[at:], "\n\n")+2:]
					}
					sse(rest)(w, r, "")
				}, text(204, "")})
			}
		})
	}
}

func (c conformanceCase) check(t *testing.T, answers []answer) {
	t.Helper()
	s := serve(t, answers...)
	defer s.Close()
	cl, waits := client(t, s)
	type n struct {
		N json.RawMessage `json:"n"`
	}
	digits := func(rows []n) []string {
		all := []string{}
		for _, r := range rows {
			all = append(all, strings.Trim(string(r.N), `"`))
		}
		return all
	}
	var rows, truncated []string
	var result InsertResult
	var failure error
	gaps := 0
	switch c.Call {
	case "query":
		var found []n
		document := Document{Columns: []string{"n"}}
		if c.Document != nil {
			document = Document{}
			if err := json.Unmarshal(c.Document, &document); err != nil {
				t.Fatal(err)
			}
		}
		found, failure = Query[n](t.Context(), cl, "t", document)
		rows = digits(found)
	case "export":
		formats := map[string]Format{"csv": FormatCSV, "tsv": FormatTSV, "ndjson": FormatNDJSON, "arrow": FormatArrow, "parquet": FormatParquet}
		var body []byte
		body, failure = Export(t.Context(), cl, "t", Document{Columns: []string{"n"}}, formats[c.Format])
		same(t, "text", c.Expect.Text, string(body))
	case "rows":
		for row, err := range Rows[n](t.Context(), cl, "t", Document{Columns: []string{"n"}}) {
			if failure = err; err == nil {
				rows = append(rows, digits([]n{row})...)
			}
		}
	case "totals":
		var found Totalled[n]
		found, failure = QueryTotals[n](t.Context(), cl, "t", Document{Columns: []string{"n"}})
		rows = append(digits(found.Rows), digits([]n{found.Totals})...)
	case "pages":
		for page, err := range Pages[n](t.Context(), cl, "t", Document{Columns: []string{"n"}, OrderBy: []OrderBy{{Column: "n"}}, Limit: 2}) {
			rows, failure = append(rows, digits(page.Rows)...), err
			truncated = append(truncated, page.Truncated)
		}
	case "pipe":
		var found []n
		found, failure = Pipe[n](t.Context(), cl, "p", nil)
		rows = digits(found)
	case "insert":
		var options []InsertOption
		if c.Key != "" {
			options = append(options, IdempotencyKey(c.Key))
		}
		result, failure = Insert(t.Context(), cl, "t", c.Rows, options...)
	case "stream":
		for e, err := range Stream[n](t.Context(), cl, "t") {
			switch {
			case err != nil:
				failure = err
			case e.Kind == EventRow:
				rows = append(rows, digits([]n{e.Row})...)
			case e.Kind == EventGap:
				gaps++
			}
		}
	default:
		t.Fatal(c.Call)
	}
	same(t, "requests", c.Expect.Requests, s.count())
	if want := c.Expect.Error; want != nil {
		e := codeOf(t, failure)
		same(t, "code", want.Code, e.Code)
		same(t, "status", want.Status, e.Status)
		same(t, "retryable", want.Retryable, e.Retryable)
		same(t, "request id", want.RequestID, e.RequestID)
		same(t, "retry after", want.RetryAfter, int(e.RetryAfter/time.Second))
		return
	}
	if failure != nil {
		t.Fatal(failure)
	}
	if !slices.Equal(rows, c.Expect.Rows) {
		t.Fatalf("rows %v, want %v", rows, c.Expect.Rows)
	}
	if c.Document != nil {
		var sent, want any
		if err := errors.Join(json.Unmarshal([]byte(s.body(0)), &sent), json.Unmarshal(c.Document, &want)); err != nil || !reflect.DeepEqual(sent, want) {
			t.Fatalf("sent %s: %v", s.body(0), err)
		}
	}
	same(t, "gaps", c.Expect.Gaps, gaps)
	same(t, "succeeded", c.Expect.Succeeded, result.Succeeded)
	if c.Expect.Failures != nil {
		var got []string
		for _, f := range result.Failures {
			got = append(got, fmt.Sprint(f.Index, f.Code, f.Column))
		}
		var want []string
		for _, f := range c.Expect.Failures {
			want = append(want, fmt.Sprint(f.Index, f.Code, f.Column))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("failures %v, want %v", got, want)
		}
	}
	if c.Expect.Keys != nil && !slices.Equal(s.headers("Idempotency-Key"), c.Expect.Keys) {
		t.Fatal(s.headers("Idempotency-Key"))
	}
	if c.Expect.Accept != nil && !slices.Equal(s.headers("Accept"), c.Expect.Accept) {
		t.Fatal(s.headers("Accept"))
	}
	if c.Expect.Truncated != nil && !slices.Equal(truncated, c.Expect.Truncated) {
		t.Fatal(truncated)
	}
	for i, want := range c.Expect.Cursors {
		var sent struct{ Cursor *string }
		if err := json.Unmarshal([]byte(s.body(i)), &sent); err != nil || sent.Cursor == nil || *sent.Cursor != want {
			t.Fatalf("request %d: %s: %v", i, s.body(i), err)
		}
	}
	if c.Expect.Resumed != nil && !slices.Equal(s.headers("Last-Event-ID"), c.Expect.Resumed) {
		t.Fatal(s.headers("Last-Event-ID"))
	}
	if c.Expect.Waited > 0 && (len(*waits) == 0 || (*waits)[0] < time.Duration(c.Expect.Waited)*time.Second) {
		t.Fatal(*waits)
	}
}

// same compares what the case names.
func same[T comparable](t *testing.T, what string, want *T, got T) {
	t.Helper()
	if want != nil && *want != got {
		t.Fatalf("%s: got %v, want %v", what, got, *want)
	}
}
