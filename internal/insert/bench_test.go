package insert_test

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq/embedded"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// discard is a ClickHouse that costs nothing.
type discard struct{ trusted }

func (discard) Name() string { return "discard" }

func (discard) Insert(_ context.Context, r clickhouse.Request) error {
	_, err := io.Copy(io.Discard, r.Body)
	return err
}

// BenchmarkThrough is everything of ours that a row of a 1,000-row body costs,
// from the body to the acknowledgement; once without noting what is about to be
// written.
func BenchmarkThrough(b *testing.B) {
	b.Run("noted", func(b *testing.B) { through(b, true) })
	b.Run("unnoted", func(b *testing.B) { through(b, false) })
}

func through(b *testing.B, noted bool) {
	broker, err := embedded.New(embedded.Options{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	b.Cleanup(func() { _ = broker.Close(context.Background()) })
	g := ingest.NewGate(ingest.GateOptions{Broker: broker})
	o := insert.WorkerOptions{
		Broker:   broker,
		Pool:     func(tenant.ID) (insert.Inserter, error) { return discard{}, nil },
		Settings: served(insert.Flush{}, true),
	}
	if noted {
		o.Batches = broker
	}
	w := insert.NewWorker(o)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	table, body := ingesttest.Events(), ingesttest.EventBody(1000)
	ingesttest.Spread(b, 4, 1000, func() error {
		_, err := g.Ingest(b.Context(), ingesttest.Request(table, record.NDJSON, body))
		return err
	})
	cancel()
	require.NoError(b, <-ended)
}
