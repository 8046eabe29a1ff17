package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// On three servers, under load: histories that cannot follow make streams late, and
// never short; a partition that is full refuses rows. Each is named, and all goes on
// once the operator has mended it. No row is lost or stored twice.
func TestWhatTheOperatorDoesUnderLoad(t *testing.T) {
	t.Parallel()
	s := start(t, 3, map[string]string{"ingest": `{"flush":{"max_wait":"100ms"}}`})
	for _, table := range []string{"load", "pages"} {
		s.clickhouse.Must(t, "CREATE TABLE "+table+" (id String, note String DEFAULT '', n UInt64 DEFAULT 0) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000")
	}
	one, other := s.process("one", "api"), s.process("other", "api,sweeper")
	s.process("writer-0", "ingest")
	s.process("writer-1", "ingest")
	for _, p := range []*harness.Server{one, other} {
		p.AwaitReady(t)
	}
	s.awaitShards(one, "writer-0", "writer-1")
	load := harness.StartLoad(func() string { return one.URL }, "load", 3)
	stopped := false
	defer func() {
		if !stopped {
			load.Stop()
		}
	}()
	under(t, load, "the start")
	js := s.nats.JetStream(t)
	sent, shown := 0, 0
	put := func() {
		t.Helper()
		harness.Eventually(t, patience, func() error {
			a := one.Ingest(t, "pages", fmt.Sprintf(`{"id":"p%d","n":%d}`, sent+1, sent+1))
			if a.Status != http.StatusOK {
				return fmt.Errorf("%d %s", a.Status, a.Body)
			}
			return nil
		})
		sent++
	}
	stream := follow(t, other, "pages", "")
	defer stream.Close()
	see := func() {
		t.Helper()
		for shown < sent {
			row := rowOf(t, stream)
			if row == shown { // its first answer was lost
				continue
			}
			shown++
			require.Equal(t, shown, row)
		}
	}
	put()
	see()

	for n := range s.plan.Partitions {
		_, err := js.PauseConsumer(t.Context(), s.plan.Ingest(n), s.plan.Mirror(), time.Now().Add(time.Hour))
		require.NoError(t, err)
	}
	for range 5 {
		put()
	}
	under(t, load, "histories that cannot follow")
	s.awaitWarning(one, s.plan.Mirror()+": the durable is paused until")
	for n := range s.plan.Partitions {
		_, err := js.ResumeConsumer(t.Context(), s.plan.Ingest(n), s.plan.Mirror())
		require.NoError(t, err)
	}
	see()
	s.awaitWarning(one, "")

	s.clickhouse.Kill()
	limit := func(bytes int64) {
		for n := range s.plan.Partitions {
			config := s.partition(js, n)
			config.MaxBytes = bytes
			_, err := js.UpdateStream(t.Context(), config)
			require.NoError(t, err)
		}
	}
	most := s.partition(js, 0).MaxBytes
	limit(256 << 10)
	harness.Eventually(t, patience, func() error {
		a := one.Ingest(t, "load", `{"id":"full"}`)
		if !strings.Contains(a.Body, "queue.full") {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	limit(most)
	under(t, load, "room again")
	s.clickhouse.Start(t)
	put()
	see()

	load.Stop()
	stopped = true
	assert.Zero(t, load.Account(t, s.clickhouse, 2*patience), "no row twice in a table with a deduplication window")
}

// awaitWarning waits until a process says so of the queue where it says how it is, or
// for "" says nothing.
func (s *service) awaitWarning(p *harness.Server, text string) {
	s.t.Helper()
	harness.Eventually(s.t, patience, func() error {
		a := p.Ops(s.t, http.MethodGet, "/readyz", "")
		if said := strings.Contains(a.Body, "queue: "); said != (text != "") || !strings.Contains(a.Body, text) {
			return fmt.Errorf("%s", a.Body)
		}
		return nil
	})
}

// partition is how the operator made one.
func (s *service) partition(js jetstream.JetStream, n int) jetstream.StreamConfig {
	s.t.Helper()
	stream, err := js.Stream(s.t.Context(), s.plan.Ingest(n))
	require.NoError(s.t, err)
	return stream.CachedInfo().Config
}
