package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded"
	"github.com/wavehouse/wavehouse/internal/record"
)

// openBroker opens a queue and closes it with the test.
func openBroker(t testing.TB, dir string) *embedded.Broker {
	t.Helper()
	broker, err := embedded.New(embedded.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = broker.Close(ctx)
	})
	return broker
}

// BenchmarkGate holds the gate against one durable message per row.
func BenchmarkGate(b *testing.B) {
	for _, c := range []struct{ clients, rows int }{{1, 1}, {64, 1}, {16, 100}, {4, 1000}} {
		b.Run(fmt.Sprintf("clients=%d/rows=%d", c.clients, c.rows), func(b *testing.B) {
			g := ingest.NewGate(ingest.GateOptions{Broker: openBroker(b, b.TempDir())})
			table, body := ingesttest.Events(), ingesttest.EventBody(c.rows)
			ingesttest.Spread(b, c.clients, c.rows, func() error {
				result, err := g.Ingest(b.Context(), ingesttest.Request(table, record.NDJSON, body))
				if result.Failed > 0 {
					return fmt.Errorf("refused: %+v", result.Results[0])
				}
				return err
			})
		})
	}
}

func BenchmarkOneMessagePerRow(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			broker := openBroker(b, b.TempDir())
			chunk := encoded(b, 1)
			ingesttest.Spread(b, clients, 1, func() error {
				_, err := broker.Publish(b.Context(), chunk)
				return err
			})
		})
	}
}

// BenchmarkThousandRowMessages is the bare queue under 1,000-row chunks.
func BenchmarkThousandRowMessages(b *testing.B) {
	broker := openBroker(b, b.TempDir())
	chunk := encoded(b, 1000)
	ingesttest.Spread(b, 4, 1000, func() error {
		_, err := broker.Publish(b.Context(), chunk)
		return err
	})
}

func encoded(b *testing.B, rows int) mq.Chunk {
	b.Helper()
	q := &queue{}
	_, err := ingest.NewGate(ingest.GateOptions{Broker: q}).Ingest(b.Context(), ingesttest.Request(ingesttest.Events(), record.NDJSON, ingesttest.EventBody(rows)))
	require.NoError(b, err)
	return q.stored[0]
}
