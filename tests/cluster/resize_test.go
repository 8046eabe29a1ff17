package cluster

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// The service gets more partitions and shards, and fewer again, under load, as the
// manual says: who writes counts at least what those who answer do. No row is lost, or
// stored twice. A stream that comes back is told of the gap where its table moved to
// another partition (pages), and has every row where it only moved to another shard
// (clicks); TestPlacesStayWhereTheyAre holds both to their places.
func TestPartitionsAndShardsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	s := start(t, 1, map[string]string{"ingest": `{"flush":{"max_wait":"100ms"}}`})
	for _, table := range []string{"load", "more", "pages", "clicks"} {
		s.clickhouse.Must(t, "CREATE TABLE "+table+" (id String, note String DEFAULT '', n UInt64 DEFAULT 0) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000")
	}
	few, many := s.plan, s.plan
	few.Partitions, few.Shards = 1, 2
	s.plan = few
	answers, writes := s.process("api", "api"), s.process("writer", "ingest")
	answers.AwaitReady(t)
	var url atomic.Pointer[string]
	url.Store(&answers.URL)
	loads := []*harness.Load{
		harness.StartLoad(func() string { return *url.Load() }, "load", 1),
		harness.StartLoad(func() string { return *url.Load() }, "more", 1),
	}
	stop := sync.OnceFunc(func() { loads[0].Stop(); loads[1].Stop() })
	defer stop()
	replaced := func(p *harness.Server, plan topology.Plan) {
		p.Signal(syscall.SIGTERM)
		require.Zero(t, p.Wait(t, patience), p.Output())
		p.Setenv(fmt.Sprint("WH_MQ_NATS_PARTITIONS=", plan.Partitions), fmt.Sprint("WH_MQ_NATS_SHARDS=", plan.Shards))
		p.Start(t)
	}
	put := func(n int) {
		for _, table := range []string{"pages", "clicks"} {
			a := answers.Ingest(t, table, fmt.Sprintf(`{"id":"p%d","n":%d}`, n, n))
			require.Equal(t, http.StatusOK, a.Status, a.Body)
		}
	}
	put(1)

	for _, plan := range []topology.Plan{many, few} {
		last := map[string]string{}
		pages, clicks := follow(t, answers, "pages", ""), follow(t, answers, "clicks", "")
		put(2)
		for table, stream := range map[string]*reader{"pages": pages, "clicks": clicks} {
			require.Equal(t, 2, rowOf(t, stream))
			last[table] = stream.LastID()
			stream.Close()
		}
		put(3)
		order := []*harness.Server{writes, answers}
		if plan.Partitions < s.plan.Partitions {
			order = []*harness.Server{answers, writes}
		}
		for _, p := range order {
			if p == writes && plan.Partitions < s.plan.Partitions {
				s.awaitDrained(plan.Partitions)
			}
			replaced(p, plan)
			if p == answers {
				p.AwaitReady(t)
				url.Store(&p.URL)
				put(4)
				pages, clicks = follow(t, p, "pages", last["pages"]), follow(t, p, "clicks", last["clicks"])
				frame := pages.next(t)
				assert.Equal(t, "gap", frame.Event, "%+v", frame)
				assert.Contains(t, frame.Data, `"reset"`)
				assert.Equal(t, 3, rowOf(t, clicks))
				assert.Equal(t, 4, rowOf(t, clicks))
				pages.Close()
				clicks.Close()
			}
			for _, load := range loads {
				under(t, load, "a process that counts others")
			}
		}
		s.plan = plan
		s.awaitShards(answers, "writer")
	}
	stop()
	for i, load := range loads {
		assert.Zero(t, load.Account(t, s.clickhouse, 2*patience), "load %d: no row twice in a table with a deduplication window", i)
	}
	assert.Equal(t, http.StatusOK, answers.Do(t, http.MethodGet, "/readyz", "").Status)
}

// awaitDrained waits until the partitions from the given one on hold nothing.
func (s *service) awaitDrained(from int) {
	s.t.Helper()
	js := s.nats.JetStream(s.t)
	harness.Eventually(s.t, patience, func() error {
		for n := from; n < s.plan.Partitions; n++ {
			stream, err := js.Stream(s.t.Context(), s.plan.Ingest(n))
			if err != nil {
				return err
			}
			if waiting := stream.CachedInfo().State.Msgs; waiting > 0 {
				return fmt.Errorf("partition %d holds %d messages", n, waiting)
			}
		}
		return nil
	})
}
