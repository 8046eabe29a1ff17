package integration

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// HTTP/2 in clear text, as proxies inside a cluster speak it.
func TestHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	s.client.Transport = transport
	l := s.listen("pages", "")
	assert.Equal(t, "HTTP/2.0", l.Response.Proto)
	s.accept("pages", `{"event_id":"two","page":"/h2"}`)
	row, _ := l.row()
	assert.JSONEq(t, `{"event_id":"two","page":"/h2"}`, string(row))
	s.stored("pages", 1)
	assert.Len(t, s.rows("pages", `{"select_all":true}`), 1)
}

// A large answer is compressed for who accepts it.
func TestLargeAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable, `INSERT INTO pages (event_id, page) SELECT toString(number), '/the/same/page' FROM numbers(500)`)
	a := s.query("pages", `{"columns":["page"]}`, "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", a.header.Get("Content-Encoding"))
	reader, err := gzip.NewReader(strings.NewReader(a.body))
	require.NoError(t, err)
	text, err := io.ReadAll(reader)
	require.NoError(t, err)
	var rows []json.RawMessage
	require.NoError(t, json.Unmarshal(text, &rows))
	assert.Len(t, rows, 500)
	assert.Less(t, len(a.body), len(text)/4)
	small := s.query("pages", `{"columns":["page"],"limit":1}`, "Accept-Encoding", "gzip")
	assert.Empty(t, small.header.Get("Content-Encoding"))
}

// A caller that goes away takes its query with it, also one that would answer
// nothing for long, so that ClickHouse would not notice by itself.
func TestLeavingCancelsTheQuery(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	for _, statement := range []string{
		`SELECT 'gone-away', sleepEachRow(0.2) FROM numbers(300) SETTINGS max_block_size = 1`,
		`/* gone-away */ SELECT sum(sleepEachRow(0.2)) FROM numbers(300) SETTINGS max_block_size = 1`,
		`WITH 'gone-away' AS mark SELECT sum(slept) FROM (SELECT sleepEachRow(0.2) AS slept FROM numbers(300) SETTINGS max_block_size = 1)`,
	} {
		s.leave(statement)
	}
}

// leave runs a statement that says gone-away, and leaves while it runs.
func (s *server) leave(statement string) {
	const running = `SELECT count() FROM system.processes WHERE query LIKE '%gone-away%' AND query NOT LIKE '%system.processes%' AND current_database = currentDatabase()`
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/ops/query", strings.NewReader(`{"sql":`+quoted(statement)+`}`))
	require.NoError(s.t, err)
	request.Header.Set("X-Operator-Key", operatorKey)
	done := make(chan error, 1)
	go func() {
		response, err := s.client.Do(request)
		if err == nil {
			response.Body.Close()
		}
		done <- err
	}()
	s.eventually(func() string { return unless(s.ch.Value(s.t, running) == "1", "it does not run") })
	cancel()
	require.ErrorIs(s.t, <-done, context.Canceled)
	s.eventually(func() string { return unless(s.ch.Value(s.t, running) == "0", "it still runs: "+statement) })
}
