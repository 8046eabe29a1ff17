package embedded

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func putRaw(t *testing.T, b mq.Broker, topic mq.Topic, body []byte) {
	e := b.(*Broker)
	require.NoError(t, e.attempt(t.Context(), e.queue(topic.Tenant), jetstream.Subject(ingestSubjects, topic), nats.Header{},
		mq.Chunk{Topic: topic, Body: body}, int64(len(body))).Err)
}

// lose stores a chunk that nobody hears of, and has the store lose it.
func lose(t *testing.T, b mq.Broker, topic mq.Topic) {
	link, c := b.(*Broker).host, mqtest.Chunk(topic.Tenant, topic.Table, "lost")
	require.NoError(t, link.pub.PublishMsg(&nats.Msg{Subject: jetstream.Subject(ingestSubjects, topic), Header: jetstream.EncodeChunk(&c), Data: c.Body}))
	require.NoError(t, link.pub.Flush())
	stream, err := link.js.Stream(t.Context(), ingestStream(topic.Tenant))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.LastSeq == 2 && stream.DeleteMsg(t.Context(), 2) == nil
	}, 30*time.Second, time.Millisecond)
}

// damage puts a file where a tenant's messages should be; an operator repairs that
// by moving the stream away.
func damage(t *testing.T, dir string, id tenant.ID) (repair func()) {
	messages := filepath.Join(streamFolder(dir, ingestStream(id)), "msgs")
	require.NoError(t, os.RemoveAll(messages))
	require.NoError(t, os.WriteFile(messages, nil, 0o600))
	return func() { require.NoError(t, os.RemoveAll(filepath.Dir(messages))) }
}

func TestConformance(t *testing.T) {
	mqtest.Run(t, func(t *testing.T, ackWait time.Duration) mqtest.Store {
		dir := t.TempDir()
		return mqtest.Store{
			Open: func(t *testing.T) mq.Broker {
				b, err := New(Options{Dir: dir, Logger: quiet(), AckWait: ackWait})
				require.NoError(t, err)
				return b
			},
			Raw:      putRaw,
			Failover: func(_ *testing.T, b mq.Broker) { b.(*Broker).reopen() },
			Hole:     lose,
			Damage:   func(t *testing.T, id tenant.ID) func() { return damage(t, dir, id) },
		}
	}, mqtest.Capabilities{
		Budgets: true, Purger: true, Floors: true, Batches: true, AckWaitRedelivers: true, AcksOutliveFailover: true,
		Failover: true, Holes: true, Raw: true, Damage: true,
	}, 1)
}
