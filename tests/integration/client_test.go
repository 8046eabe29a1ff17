package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answer is a response, read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

// problem is the error shape of every route.
type problem struct {
	Error          string `json:"error"`
	Code           string `json:"code"`
	Column         string `json:"column"`
	Retryable      bool   `json:"retryable"`
	RequestID      string `json:"request_id"`
	ClickHouseCode int    `json:"clickhouse_code"`
}

// batch is the answer to many records.
type batch struct {
	Total      int      `json:"total"`
	Succeeded  int      `json:"succeeded"`
	Failed     int      `json:"failed"`
	Duplicates int      `json:"duplicates"`
	Results    []result `json:"results"`
	Truncated  bool     `json:"results_truncated"`
}

type result struct {
	Index  int    `json:"index"`
	OK     bool   `json:"ok"`
	Error  string `json:"error"`
	Code   string `json:"code"`
	Column string `json:"column"`
}

// decode reads a JSON answer of the shape T.
func decode[T any](t testing.TB, a answer) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(a.body), &v), "%d %s", a.status, a.body)
	return v
}

// refused holds the answer to a status and a code, and returns the problem.
func refused(t testing.TB, a answer, status int, code string) problem {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
	p := decode[problem](t, a)
	require.Equal(t, code, p.Code, a.body)
	require.NotEmpty(t, p.Error)
	require.Equal(t, a.header.Get("X-Request-Id"), p.RequestID)
	return p
}

// try sends a request; headers are pairs.
func (s *server) try(method, path string, body io.Reader, headers ...string) (answer, error) {
	request, err := http.NewRequestWithContext(context.Background(), method, s.url+path, body)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text)}, err
}

// do is try that fails the test.
func (s *server) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	a, err := s.try(method, path, strings.NewReader(body), headers...)
	require.NoError(s.t, err)
	return a
}

// ingest posts JSON.
func (s *server) ingest(table, body string, headers ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, "/v1/ingest?table="+url.QueryEscape(table), body, append(headers, "Content-Type", "application/json")...)
}

// ingestLines posts NDJSON and returns the counts, with every result.
func (s *server) ingestLines(table, body string, headers ...string) batch {
	s.t.Helper()
	a := s.do(http.MethodPost, "/v1/ingest?results=all&table="+url.QueryEscape(table), body,
		append(headers, "Content-Type", "application/x-ndjson")...)
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	return decode[batch](s.t, a)
}

// accept posts NDJSON of which every record must be taken.
func (s *server) accept(table, body string, headers ...string) int {
	s.t.Helper()
	b := s.ingestLines(table, body, headers...)
	require.Zero(s.t, b.Failed, "%+v", b.Results)
	require.Equal(s.t, b.Total, b.Succeeded)
	return b.Total
}

// query posts a query document.
func (s *server) query(table, document string, headers ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, "/v1/query?table="+url.QueryEscape(table), document, headers...)
}

// rows is a query that must succeed; its rows keep their text.
func (s *server) rows(table, document string, headers ...string) []json.RawMessage {
	s.t.Helper()
	a := s.query(table, document, headers...)
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	return decode[[]json.RawMessage](s.t, a)
}

// ops sends a request with the operator key.
func (s *server) ops(method, path, body string, headers ...string) answer {
	s.t.Helper()
	return s.do(method, path, body, append(headers, "X-Operator-Key", operatorKey)...)
}

// opsSQL runs a statement through the ops route.
func (s *server) opsSQL(sql string, headers ...string) answer {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"sql": sql, "write": true})
	require.NoError(s.t, err)
	return s.ops(http.MethodPost, "/v1/ops/query", string(body), headers...)
}

// letter is a parked row as the ops route shows it.
type letter struct {
	ID    string          `json:"id"`
	Table string          `json:"table"`
	Error string          `json:"error"`
	Code  string          `json:"code"`
	Row   json.RawMessage `json:"row"`
}

// letters returns the parked rows of a table.
func (s *server) letters(table string) []letter {
	s.t.Helper()
	a := s.ops(http.MethodGet, "/v1/ops/dlq/rows?limit=1000&table="+url.QueryEscape(table), "")
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	return decode[struct {
		Rows []letter `json:"rows"`
	}](s.t, a).Rows
}

// parked is how many rows are parked in all.
func (s *server) parked() int {
	s.t.Helper()
	a := s.ops(http.MethodGet, "/v1/ops/dlq/stats", "")
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	return decode[struct {
		Total int `json:"total"`
	}](s.t, a).Total
}

// compact removes the spaces of a JSON text that mean nothing.
func compact(t testing.TB, raw []byte) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Compact(&out, raw))
	return out.String()
}

// quoted is text as a JSON string.
func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}
