package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// dlqServer answers each request in turn, and remembers them.
type dlqServer struct {
	*httptest.Server
	seen []string
}

func startDLQServer(t *testing.T, answers ...string) *dlqServer {
	t.Helper()
	s := &dlqServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.seen = append(s.seen, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Operator-Key")+" "+string(body))
		answer := answers[min(len(s.seen), len(answers))-1]
		if strings.HasPrefix(answer, `{"code"`) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// dlq runs a command as on a terminal on which somebody types.
func (s *dlqServer) dlq(typed string, args ...string) (out string, err error) {
	var buffer bytes.Buffer
	terminal := &terminal{
		in: strings.NewReader(typed), out: &buffer, err: &buffer, interactive: true, env: []string{"WH_AUTH_OPERATOR_KEY=key"},
	}
	root := newRoot(terminal, telemetry.Build{})
	root.SetArgs(append([]string{"dlq", "--server", s.URL + "/"}, args...))
	err = root.Execute()
	return buffer.String(), err
}

func TestDLQAsksBeforeAll(t *testing.T) {
	for _, verb := range []string{"replay", "discard"} {
		s := startDLQServer(t, `{"replayed":1,"discarded":2}`)
		out, err := s.dlq("no\n", verb, "--table", "clicks", "--all")
		require.ErrorIs(t, err, errNotConfirmed)
		assert.Contains(t, out, "clicks")
		_, err = s.dlq("", verb, "--table", "clicks", "--all")
		require.ErrorIs(t, err, errNotConfirmed, "no answer is a no")
		assert.Empty(t, s.seen)
		_, err = s.dlq("Y\n", verb, "--table", "clicks", "--all")
		require.NoError(t, err)
		_, err = s.dlq("", verb, "--table", "clicks", "--all", "--yes")
		require.NoError(t, err)
		_, err = s.dlq("", verb, "--table", "clicks", "1-2", "1-3")
		require.NoError(t, err)
		require.Len(t, s.seen, 3)
		assert.Contains(t, s.seen[2], ` key {"table":"clicks","ids":["1-2","1-3"]}`)
	}
}

func TestDLQDiscardOfAnIDThatIsNotThere(t *testing.T) {
	s := startDLQServer(t, `{"discarded":1,"remaining":4}`)
	out, err := s.dlq("", "discard", "--table", "clicks", "1-2", "nosuch")
	assert.ErrorContains(t, err, `table "clicks" of tenant 0 has no dead letter of 1 of the ids`)
	assert.Contains(t, out, "discarded 1, remaining 4")
}

func TestDLQReplayGoesOnToTheEnd(t *testing.T) {
	s := startDLQServer(t,
		`{"replayed":8,"failed":1,"remaining":5,"cursor":"1-9","failures":[{"id":"1-1","code":"record.out_of_range","error":"too \u001b[31mlarge"}]}`,
		`{"replayed":4,"failed":0,"remaining":1,"cursor":"","failures":[]}`)
	out, err := s.dlq("", "replay", "--tenant", "acme", "--table", "clicks", "--all", "--yes")
	var silent *silentError
	require.ErrorAs(t, err, &silent, "a row did not go back")
	assert.Contains(t, out, "replayed 12, failed 1, remaining 1")
	assert.Contains(t, out, "1-1  record.out_of_range  too  [31mlarge")
	require.Len(t, s.seen, 2)
	assert.Equal(t, `POST /v1/ops/dlq/replay?tenant=acme key {"table":"clicks","all":true,"cursor":"1-9"}`, s.seen[1])
}

func TestDLQReplayThatIsCutShortSaysHowFarItCame(t *testing.T) {
	s := startDLQServer(t, `{"replayed":8,"failed":0,"remaining":5,"cursor":"1-9","failures":[]}`,
		`{"code":"queue.full","error":"the queue is full","replayed":3,"failed":1,"cursor":"1-12","failures":[]}`)
	_, err := s.dlq("", "replay", "--table", "clicks", "--all", "--yes")
	require.ErrorContains(t, err, "replayed 11 rows, 1 did not fit, and then: the queue is full (queue.full)")
}

func TestDLQListAsJSON(t *testing.T) {
	s := startDLQServer(t, `{"tables":{"a":1,"a.b":2},"total":3}`)
	out, err := s.dlq("", "list", "--format", "json")
	require.NoError(t, err)
	assert.True(t, json.Valid([]byte(out)))
	out, err = s.dlq("", "list")
	require.NoError(t, err)
	assert.Equal(t, "TABLE  DEAD LETTERS\na      1\na.b    2\n(all)  3\n", out)
}
