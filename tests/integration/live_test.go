package integration

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
)

// live is an open stream that gives up after a while.
type live struct {
	*streamtest.Stream
	t *testing.T
}

// listen opens a stream and reads its opening block, which brings a position.
// lastID resumes.
func (s *server) listen(table, lastID string, headers ...string) *live {
	s.t.Helper()
	stream, err := s.tryListen("table="+url.QueryEscape(table), lastID, headers...)
	require.NoError(s.t, err)
	opening, err := stream.Next()
	require.NoError(s.t, err)
	require.Equal(s.t, []string{"connected"}, opening.Comments)
	return &live{stream, s.t}
}

// tryListen opens a stream with a query string of one's own. A refusal is a
// *streamtest.Refused.
func (s *server) tryListen(query, lastID string, headers ...string) (*streamtest.Stream, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*soon)
	s.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/stream?"+query, nil)
	require.NoError(s.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: s.client.Transport}
	stream, err := streamtest.Open(client, request, lastID)
	if err == nil {
		s.t.Cleanup(stream.Close)
	}
	return stream, err
}

// refusedStream holds a refusal to open a stream to a status and a code.
func (s *server) refusedStream(query, lastID string, status int, code string, headers ...string) problem {
	s.t.Helper()
	_, err := s.tryListen(query, lastID, headers...)
	var r *streamtest.Refused
	require.ErrorAs(s.t, err, &r)
	return refused(s.t, answer{r.Status, r.Header, string(r.Body)}, status, code)
}

// event reads the next event, which may be a row, a gap or the end.
func (l *live) event() streamtest.Frame {
	l.t.Helper()
	f, err := l.NextEvent()
	require.NoError(l.t, err)
	return f
}

// row reads the next event, which must be a row.
func (l *live) row() (json.RawMessage, streamtest.Frame) {
	l.t.Helper()
	f := l.event()
	r, err := f.Row()
	require.NoError(l.t, err, f.Data)
	return r.Row, f
}

// rows reads the next n rows, in order.
func (l *live) rows(n int) []json.RawMessage {
	l.t.Helper()
	rows := make([]json.RawMessage, 0, n)
	for range n {
		row, _ := l.row()
		rows = append(rows, row)
	}
	return rows
}

// cell reads one column of a row, as text when it is a string.
func cell(t testing.TB, row json.RawMessage, column string) string {
	t.Helper()
	var columns map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(row, &columns), string(row))
	raw, ok := columns[column]
	require.True(t, ok, "%s lacks %s", row, column)
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
