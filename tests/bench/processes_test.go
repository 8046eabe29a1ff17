package bench

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// TestProcessesBenchmarks is several processes on three servers of NATS: how late a
// row is at a subscriber of another process, how soon a dead writer's part is
// another's, and how more writers add up.
func TestProcessesBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take minutes")
	}
	var lines []line
	for _, part := range []struct {
		name string
		run  func(t *testing.T) []line
	}{{"a row reaches another process", acrossProcesses}, {"a writer is killed", takeOver}, {"more writers", moreWriters}} {
		require.True(t, t.Run(part.name, func(t *testing.T) { lines = append(lines, part.run(t)...) }))
	}
	report(t, "processes", lines)
}

// service is processes on one NATS cluster and one ClickHouse.
type service struct {
	nats       *natstest.Cluster
	clickhouse *harness.ClickHouse
	plan       topology.Plan
	api        *harness.Server
}

// newService has one process with the role api, and partitions of eight shards.
func newService(t *testing.T, partitions int) *service {
	t.Helper()
	s := &service{nats: natstest.Start(t, natstest.Options{Nodes: 3}), clickhouse: harness.StartClickHouse(t, binaries.Dir(t)), plan: topology.Default()}
	s.plan.Partitions, s.plan.Replicas, s.plan.FileStore = partitions, 3, 8<<30
	require.NoError(t, topology.Apply(t.Context(), s.nats.JetStream(t), topology.Of(s.plan)))
	s.api = s.process(t, "api", "api", nil)
	s.api.AwaitReady(t)
	return s
}

func (s *service) env(name, roles string) []string {
	return []string{
		"WH_INSTANCE_ID=" + name, "WH_ROLES=" + roles, "WH_MQ_BACKEND=nats", "WH_MQ_NATS_URLS=" + strings.Join(s.nats.URLs(), ","),
		fmt.Sprint("WH_MQ_NATS_PARTITIONS=", s.plan.Partitions), fmt.Sprint("WH_MQ_NATS_SHARDS=", s.plan.Shards), "WH_COORD_BACKEND=nats",
		"WH_STREAM_ID_KEY=0123456789abcdef0123456789abcdef", "WH_DEDUPE_PEBBLE_SINGLE_REPLICA=true",
	}
}

func (s *service) process(t *testing.T, name, roles string, config map[string]string) *harness.Server {
	t.Helper()
	return harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: s.clickhouse, Config: config, Env: s.env(name, roles)})
}

// table makes one, and has the processes that answer look for it.
func (s *service) table(t *testing.T, name string, answer ...*harness.Server) {
	t.Helper()
	s.clickhouse.Must(t, "CREATE TABLE "+name+" "+eventTable+" SETTINGS non_replicated_deduplication_window = 1000")
	for _, p := range append(answer, s.api) {
		require.Equal(t, http.StatusOK, p.Ops(t, http.MethodPost, "/v1/ops/schema/refresh", "").Status)
	}
}

// tablePerShard makes tables until each shard of the first partition has one. It
// needs a writer.
func (s *service) tablePerShard(t *testing.T) []string {
	t.Helper()
	ctx, prefix, of := t.Context(), s.plan.PartitionSubjects(0), map[string]string{}
	stream, err := s.nats.JetStream(t).Stream(ctx, s.plan.History(0))
	require.NoError(t, err)
	n := 0
	for ; len(of) < s.plan.Shards; n++ {
		require.Less(t, n, 50*s.plan.Shards, "tables so far: %v", of)
		name := fmt.Sprint("spread_", n)
		s.table(t, name)
		require.Equal(t, http.StatusOK, s.api.Ingest(t, name, newRowSource(1).row()).Status)
		harness.Eventually(t, time.Minute, func() error {
			info, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefix))
			if err != nil {
				return err
			}
			for subject := range info.State.Subjects {
				if tokens := strings.Split(subject, "."); tokens[len(tokens)-1] == name {
					if _, taken := of[tokens[3]]; !taken {
						of[tokens[3]] = name
					}
					return nil
				}
			}
			return errors.New("the history does not have the row yet")
		})
	}
	s.awaitRows(t, n)
	names := slices.Sorted(maps.Values(of))
	for i := range n {
		if name := fmt.Sprint("spread_", i); !slices.Contains(names, name) {
			s.clickhouse.Must(t, "DROP TABLE "+name)
		}
	}
	return names
}

// awaitShards waits until the processes named have all shards, and evenly.
func (s *service) awaitShards(t *testing.T, names ...string) {
	t.Helper()
	harness.Eventually(t, 2*time.Minute, func() error {
		var fleet struct {
			Processes []struct {
				Instance string
				Shards   []string
				Silent   bool
			}
		}
		s.api.Ops(t, http.MethodGet, "/v1/ops/fleet", "").JSON(t, &fleet)
		has, all := map[string]int{}, s.plan.Partitions*s.plan.Shards
		for _, p := range fleet.Processes {
			if !p.Silent && len(p.Shards) > 0 {
				has[p.Instance] = len(p.Shards)
			}
		}
		for _, name := range names {
			if has[name] < all/len(names) {
				return fmt.Errorf("shards are %v", has)
			}
		}
		if len(has) != len(names) {
			return fmt.Errorf("shards are %v", has)
		}
		return nil
	})
}

// acrossProcesses publishes at one process and reads at another, beside the bare
// chain: a publish to three replicas, a mirror of them, an ordered consumer.
func acrossProcesses(t *testing.T) []line {
	s := newService(t, 1)
	other := s.process(t, "other", "api", nil)
	other.AwaitReady(t)
	s.process(t, "writer", "ingest", nil)
	s.awaitShards(t, "writer")
	s.table(t, "events", other)
	st := &stage{publishers: rawConns{idle: map[string][]idleConn{}}}
	t.Cleanup(st.publishers.close)
	bare := s.bareChain(t)
	to := side{"WaveHouse", s.api.URL + "/v1/ingest?table=events", other.URL + "/v1/stream?table=events", s.api.PID()}
	var p50, p99, bare50, bare99, ratios []float64
	for range *rounds {
		theirs := bare(*duration)
		a := newAudience(t, to.stream, 1, nil)
		ours := st.paced(t, to, a, 100, *duration)
		a.close()
		p50, p99, ratios = append(p50, millis(ours.p50)), append(p99, millis(ours.p99)), append(ratios, ours.p99.Seconds()/percentile(theirs, .99).Seconds())
		bare50, bare99 = append(bare50, millis(percentile(theirs, .5))), append(bare99, millis(percentile(theirs, .99)))
	}
	return []line{
		{"100 rows/s, publish at one process to receive at another's subscriber, p50, ms", fmt.Sprintf("%.2f", median(p50)),
			fmt.Sprintf("%.2f a bare publish, mirror and ordered consumer", median(bare50)), fmt.Sprintf("%+.2f ms", median(p50)-median(bare50))},
		{"— p99, ms", fmt.Sprintf("%.2f", median(p99)), fmt.Sprintf("%.2f", median(bare99)), spread(ratios)},
	}
}

// bareChain is a partition of its own. What it returns publishes a hundred messages
// a second, and tells how late each was read.
func (s *service) bareChain(t *testing.T) func(during time.Duration) []time.Duration {
	t.Helper()
	plan := s.plan
	plan.Prefix, plan.Bucket, plan.Partitions, plan.Shards = "bare", "bare", 1, 1
	js := s.nats.JetStream(t)
	require.NoError(t, topology.Apply(t.Context(), js, topology.Of(plan)))
	var mu sync.Mutex
	var took []time.Duration
	consumer, err := js.OrderedConsumer(t.Context(), plan.History(0), jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy})
	require.NoError(t, err)
	reading, err := consumer.Consume(func(m jetstream.Msg) {
		var sent int64
		_, err := fmt.Sscan(string(m.Data()[:19]), &sent)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			took = append(took, time.Duration(time.Now().UnixNano()-sent))
		}
	})
	require.NoError(t, err)
	t.Cleanup(reading.Stop)
	subject := strings.TrimSuffix(plan.ShardSubjects(0, 0), ">") + "row"
	row := newRowSource(1).row()
	return func(during time.Duration) []time.Duration {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		sent := 0
		for start := time.Now(); time.Since(start) < during; sent++ {
			<-tick.C
			_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: fmt.Appendf(nil, "%019d%s", time.Now().UnixNano(), row)})
			require.NoError(t, err)
		}
		var all []time.Duration
		harness.Eventually(t, time.Minute, func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(took) < sent {
				return fmt.Errorf("%d of %d are read", len(took), sent)
			}
			all, took = took, nil
			return nil
		})
		return all
	}
}

// takeOver kills one of two writers, and waits until a row of every shard is
// inserted.
func takeOver(t *testing.T) []line {
	const kills = 5
	s := newService(t, 1)
	soon := map[string]string{"ingest": `{"flush":{"max_wait":"20ms"}}`}
	writers := []*harness.Server{s.process(t, "writer-0", "ingest", soon), s.process(t, "writer-1", "ingest", soon)}
	tables := s.tablePerShard(t)
	var took []float64
	for n := range kills {
		s.awaitShards(t, "writer-0", "writer-1")
		s.inserted(t, tables)
		writers[n%2].Kill()
		killed := time.Now()
		s.inserted(t, tables)
		took = append(took, time.Since(killed).Seconds())
		writers[n%2].Start(t)
	}
	return []line{{"kill -9 of one of two writers until a row of each shard is inserted, s", fmt.Sprintf("%.1f", median(took)), "", ""},
		{fmt.Sprintf("— the longest of %d", kills), fmt.Sprintf("%.1f", slices.Max(took)), "", ""}}
}

// inserted sends a row to each table and returns once all are there.
func (s *service) inserted(t *testing.T, tables []string) {
	t.Helper()
	for _, table := range tables {
		s.clickhouse.Must(t, "TRUNCATE TABLE "+table)
		a := s.api.Ingest(t, table, newRowSource(2).row())
		require.Equal(t, http.StatusOK, a.Status, a.Body)
	}
	s.awaitRows(t, len(tables))
}

// awaitRows waits until the tables of tablePerShard have so many together.
func (s *service) awaitRows(t *testing.T, want int) {
	t.Helper()
	harness.Eventually(t, 3*time.Minute, func() error {
		if n := s.clickhouse.Must(t, "SELECT sum(total_rows) FROM system.tables WHERE name LIKE 'spread_%'"); n != fmt.Sprint(want) {
			return fmt.Errorf("%s of %d rows", n, want)
		}
		return nil
	})
}
