package topology_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
)

// connect starts a server and returns a client of it.
func connect(t *testing.T) jetstream.JetStream {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(t.TempDir(), "js"), NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(30*time.Second))
	nc, err := nats.Connect(s.ClientURL(), nats.Timeout(30*time.Second))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(30*time.Second))
	require.NoError(t, err)
	return js
}

func small() topology.Plan {
	p := topology.Default()
	p.Partitions, p.Shards, p.Replicas, p.FileStore = 2, 3, 1, 1<<30
	p.IDs, p.IDsBytes = "wh_ids", 64<<20
	return p
}

// A server takes all of it, twice, and a chunk that is published comes to the
// durable of its shard and into the history, under the same sequence.
func TestAServerTakesIt(t *testing.T) {
	t.Parallel()
	js := connect(t)
	plan := small()
	for range 2 {
		require.NoError(t, topology.Apply(t.Context(), js, topology.Of(plan)))
	}
	ack, err := js.Publish(t.Context(), plan.ShardPrefix(1, 2)+"birch.pages", []byte("row"))
	require.NoError(t, err)
	require.Equal(t, "WH_INGEST_1", ack.Stream)

	durable, err := js.Consumer(t.Context(), plan.Ingest(1), plan.Shard(2))
	require.NoError(t, err)
	batch, err := durable.Fetch(1, jetstream.FetchMaxWait(30*time.Second), jetstream.FetchPriorityGroup(topology.Group))
	require.NoError(t, err)
	message := <-batch.Messages()
	require.NotNil(t, message)
	assert.Equal(t, "wh.ingest.1.2.birch.pages", message.Subject())
	require.NoError(t, message.DoubleAck(t.Context()))

	history, err := js.Stream(t.Context(), plan.History(1))
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		kept, err := history.GetMsg(context.Background(), ack.Sequence)
		require.NoError(c, err)
		assert.Equal(c, "row", string(kept.Data))
	}, 30*time.Second, 20*time.Millisecond)
	partition, err := js.Stream(t.Context(), plan.Ingest(1))
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		info, err := partition.Info(context.Background())
		require.NoError(c, err)
		assert.Zero(c, info.State.Msgs, "acknowledged by the shard and the history")
	}, 30*time.Second, 20*time.Millisecond)
}

func TestStreamsFitTheStore(t *testing.T) {
	t.Parallel()
	for _, p := range []topology.Plan{topology.Default(), small()} {
		t.Run(fmt.Sprint(p.Partitions), func(t *testing.T) {
			require.NoError(t, p.Check())
			all := topology.Of(p)
			sum := all.DeadLetters.MaxBytes
			for _, bucket := range all.Buckets {
				sum += bucket.MaxBytes
			}
			for _, part := range all.Partitions {
				require.Positive(t, part.Stream.MaxBytes)
				require.Positive(t, part.Mirror.MaxBytes)
				sum += part.Stream.MaxBytes + part.Mirror.MaxBytes
			}
			assert.LessOrEqual(t, sum, p.FileStore/100*95)
			assert.Greater(t, sum, p.FileStore/100*94)
		})
	}
}

func TestEveryFaultOfAPlanIsNamed(t *testing.T) {
	t.Parallel()
	p := topology.Default()
	p.Prefix, p.Bucket, p.Partitions, p.Shards, p.Replicas, p.HistoryAge, p.DuplicateWindow = "a.b", "", 0, 1000, 2, 0, 0
	err := p.Check()
	for _, want := range []string{`prefix "a.b"`, `bucket ""`, "partitions 0", "shards 1000", "replicas 2", "history age", "duplicate window"} {
		require.ErrorContains(t, err, want)
	}
	p = topology.Default()
	p.IDs, p.IDsBytes = p.Bucket, 1
	require.ErrorContains(t, p.Check(), "it is the bucket of leases")
	require.ErrorContains(t, p.Check(), "bucket of ids of 1 bytes")
	p = topology.Default()
	p.FileStore = 100 << 20
	require.ErrorContains(t, p.Check(), "file store of 104857600 bytes")
}
