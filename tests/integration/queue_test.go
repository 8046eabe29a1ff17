package integration

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lines makes n NDJSON records of pages with unique ids.
func lines(prefix string, n int) string {
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, "{\"event_id\":\"%s%d\",\"page\":\"/%s\"}\n", prefix, i, strings.Repeat("p", 30))
	}
	return body.String()
}

func (s *server) distinct() int {
	s.t.Helper()
	n, err := strconv.Atoi(s.ch.Value(s.t, "SELECT uniqExact(event_id) FROM pages"))
	require.NoError(s.t, err)
	return n
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{config: map[string]string{"mq": `{"max_bytes_gb":"200KB"}`}}, pagesTable)
	s.o.proxy.Refuse()
	accepted := 0
	var full answer
	for i := range 200 {
		a := s.do(http.MethodPost, "/v1/ingest?table=pages", lines(fmt.Sprintf("r%d-", i), 50), "Content-Type", ndjson)
		if a.status != http.StatusOK {
			full = a
			break
		}
		accepted += decode[batch](t, a).Succeeded
	}
	p := refused(t, full, http.StatusServiceUnavailable, "queue.full")
	assert.True(t, p.Retryable)
	assert.Equal(t, "30", full.header.Get("Retry-After"))
	counts := decode[batch](t, full)
	assert.Equal(t, 50, counts.Total)
	accepted += counts.Succeeded
	require.Positive(t, accepted)
	// A single record is refused with the plain error.
	refused(t, s.ingest("pages", `{"event_id":"single","page":"/`+strings.Repeat("x", 100_000)+`"}`), http.StatusServiceUnavailable, "queue.full")

	s.o.proxy.Pass(t)
	s.eventually(func() string {
		a := s.do(http.MethodPost, "/v1/ingest?table=pages", lines("after", 1), "Content-Type", "application/json")
		return unless(a.status == http.StatusOK, a.body)
	})
	s.stored("pages", accepted+1)
	assert.Equal(t, accepted+1, s.distinct())
	assert.Zero(t, s.parked())
}

func TestShrinkingTheBudgetOverDeadLetters(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE guarded (id String, n Int64, CONSTRAINT small CHECK n < 1000) ENGINE = MergeTree ORDER BY id`)
	var body strings.Builder
	for i := range 100 {
		fmt.Fprintf(&body, "{\"id\":\"%d-%s\",\"n\":5000}\n", i, strings.Repeat("x", 300))
	}
	s.accept("guarded", body.String())
	s.eventually(func() string { n := s.parked(); return unless(n == 100, fmt.Sprint(n, " are parked")) })
	s.o.config = map[string]string{"mq": `{"max_bytes_gb":"100KB"}`}
	s.writeSettings()
	a := s.reload()
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, 100, s.parked())
	assert.Len(t, s.letters("guarded"), 100)
	assert.NotEmpty(t, s.logs.lines(`"level":"ERROR"`, "budget"), "a smaller limit that does not apply is said")
	s.restart()
	assert.Equal(t, 100, s.parked(), "nor does the restart apply it")
}

func TestAcknowledgedMeansDurable(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	s.o.proxy.Refuse()
	for i := range 200 {
		a := s.ingest("pages", fmt.Sprintf(`{"event_id":"k%d","page":"/k"}`, i))
		require.Equal(t, http.StatusOK, a.status, a.body)
	}
	s.stop()
	require.Zero(t, s.ch.Count(t, "pages"))
	s.o.proxy.Pass(t)
	s.run()
	s.stored("pages", 200)
	assert.Equal(t, 200, s.distinct())
	assert.Zero(t, s.parked())
}
