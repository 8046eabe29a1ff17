package embedded

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func putRaw(t *testing.T, b mq.Broker, topic mq.Topic, body []byte) {
	e := b.(*Broker)
	require.NoError(t, e.attempt(t.Context(), e.queue(topic.Tenant), jetstream.Subject(ingestSubjects, topic), nats.Header{},
		mq.Chunk{Topic: topic, Body: body}, int64(len(body))).Err)
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
			Raw: putRaw,
		}
	}, mqtest.Capabilities{PerTenantBudget: true, Purges: true, AckWaitRedelivers: true, Raw: true}, 0)
}
