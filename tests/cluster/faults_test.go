package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// moreRows are answered between faults.
const moreRows = 300

// under waits until the load was answered for some rows more.
func under(t *testing.T, load *harness.Load, what string) {
	t.Helper()
	until := load.Answered() + moreRows
	require.Eventually(t, func() bool { return load.Answered() >= until }, 2*patience, 10*time.Millisecond, "the load goes on after: %s", what)
}

// Processes and servers of NATS are killed and stopped in turn, under load: every row
// that was answered is in the table, once, as the table drops what is inserted again.
func TestRowsOutliveProcessesAndServers(t *testing.T) {
	t.Parallel()
	s := start(t, 3, map[string]string{"ingest": `{"flush":{"max_wait":"100ms"}}`})
	s.clickhouse.Must(t, "CREATE TABLE load (id String, note String DEFAULT '') ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000")
	api := []*harness.Server{s.process("api-0", "api"), s.process("api-1", "api,sweeper")}
	writers := []*harness.Server{s.process("writer-0", "ingest"), s.process("writer-1", "ingest")}
	for _, p := range api {
		p.AwaitReady(t)
	}
	var urls [2]atomic.Pointer[string]
	for i, p := range api {
		urls[i].Store(&p.URL)
	}
	var turn atomic.Int64
	load := harness.StartLoad(func() string { return *urls[turn.Add(1)%2].Load() }, "load", 4)
	stopped := false
	defer func() {
		if !stopped {
			load.Stop()
		}
	}()
	under(t, load, "the start")
	s.awaitShards(api[0], "writer-0", "writer-1")

	killed, other := s.ownerOf("load", api[0], writers)
	killed.Kill()
	since := time.Now()
	waited := make(chan harness.Answer, 1)
	go func() {
		a, _ := api[1].TryDo(http.MethodPost, "/v1/ingest?wait=inserted&timeout=60s&table=load", `{"id":"waited"}`, "Content-Type", "application/json")
		waited <- a
	}()
	under(t, load, "kill -9 of a writer")
	s.awaitShards(api[0], other)
	t.Logf("the shards of a killed process were another's after %s", time.Since(since).Round(time.Second))
	a := <-waited
	assert.Equal(t, http.StatusAccepted, a.Status, "what the killed process made of it is not known: %s", a.Body)
	assert.Contains(t, a.Body, `"inserted":false`)
	killed.Start(t)
	s.awaitShards(api[0], "writer-0", "writer-1")
	under(t, load, "a writer that comes back")

	writers[1].Signal(syscall.SIGTERM)
	require.Zero(t, writers[1].Wait(t, patience), writers[1].Output())
	s.awaitShards(api[0], "writer-0")
	under(t, load, "SIGTERM of a writer")
	writers[1].Start(t)

	api[0].Signal(syscall.SIGTERM)
	require.Zero(t, api[0].Wait(t, patience), api[0].Output())
	api[0].Start(t)
	urls[0].Store(&api[0].URL)
	under(t, load, "SIGTERM of a process that answers")
	api[1].Kill()
	api[1].Start(t)
	urls[1].Store(&api[1].URL)
	under(t, load, "kill -9 of a process that answers")

	for _, node := range s.nats.Nodes {
		node.Kill()
		under(t, load, "kill -9 of NATS "+node.Name)
		node.Start(t)
		s.nats.Ready(t)
	}
	s.clickhouse.Kill()
	under(t, load, "kill -9 of ClickHouse")
	s.clickhouse.Start(t)
	load.Stop()
	stopped = true
	assert.Zero(t, load.Account(t, s.clickhouse, 2*patience), "no row twice in a table with a deduplication window")
	t.Logf("%d rows, answers %v", load.Answered(), load.Statuses())
	s.awaitShards(api[1], "writer-0", "writer-1")
}

// ownerOf is whoever of two writers has the shard of a table that has rows, and the
// other's name.
func (s *service) ownerOf(table string, p *harness.Server, writers []*harness.Server) (owner *harness.Server, other string) {
	s.t.Helper()
	names := []string{"writer-0", "writer-1"}
	harness.Eventually(s.t, patience, func() error {
		for n := range s.plan.Partitions {
			history, err := s.nats.JetStream(s.t).Stream(s.t.Context(), s.plan.History(n))
			if err != nil {
				return err
			}
			info, err := history.Info(s.t.Context(), jetstream.WithSubjectFilter(">"))
			if err != nil {
				return err
			}
			for subject := range info.State.Subjects {
				place := strings.Split(subject, ".") // wh.ingest.<p>.<s>.<tenant>.<table>
				if place[len(place)-1] != table {
					continue
				}
				for _, m := range fleetOf(s.t, p).Processes {
					if i := slices.Index(names, m.Instance); i >= 0 && slices.Contains(m.Shards, place[2]+"."+place[3]) {
						owner, other = writers[i], names[1-i]
						return nil
					}
				}
			}
		}
		return fmt.Errorf("nobody has the shard of table %s", table)
	})
	return owner, other
}
