package embedded

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/mq/wire"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func putRaw(t *testing.T, b mq.Broker, topic mq.Topic, body []byte) {
	e := &pending{queue: b.(*Broker).queue(topic.Tenant), chunk: &mq.Chunk{Topic: topic, Body: body}}
	require.NoError(t, b.(*Broker).send(t.Context(), wire.Ingest(topic), nats.Header{}, body, e))
	require.NoError(t, e.await(t.Context(), apiTimeout).err)
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
