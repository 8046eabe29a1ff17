package ingest_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// events is an event table of eleven columns; a row is about 270 bytes of JSON.
func events() *schema.Table {
	var columns []record.Column
	for i, c := range [][2]string{
		{"id", "UUID"}, {"ts", "DateTime64(3, 'UTC')"}, {"user_id", "UInt64"}, {"page", "String"},
		{"referrer", "Nullable(String)"}, {"country", "LowCardinality(String)"}, {"device", "LowCardinality(String)"},
		{"duration_ms", "UInt32"}, {"score", "Float64"}, {"status", "UInt16"}, {"session", "String"},
	} {
		columns = append(columns, record.Column{Name: c[0], Type: c[1], Position: i + 1})
	}
	return &schema.Table{Name: "events", Columns: columns, Record: record.Compile("events", columns, time.UTC)}
}

func eventBody(rows int) []byte {
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, `{"id":"0189d7a2-5c1e-7c3a-9d2b-%012x","ts":"2026-03-04T05:06:07.%03dZ","user_id":%d,"page":"/products/%d/details","referrer":null,"country":"DE","device":"mobile","duration_ms":%d,"score":%d.25,"status":200,"session":"s-%08x-%08x"}`+"\n",
			i, i%1000, 1_000_000+i, i%500, i%90_000, i%100, i, i*7)
	}
	return []byte(b.String())
}

func benchBroker(b *testing.B) *embedded.Broker {
	b.Helper()
	broker, err := embedded.New(embedded.Options{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = broker.Close(ctx)
	})
	return broker
}

func eventRequest(table *schema.Table, body []byte) ingest.Request {
	return ingest.Request{Tenant: birch, Table: table, Grant: policy.OperatorInsert(), Format: record.NDJSON, Body: body}
}

// spread runs op b.N times on n goroutines.
func spread(b *testing.B, n, rows int, op func() error) {
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, n)
	for range n {
		go func() {
			for left.Add(-1) >= 0 {
				if err := op(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range n {
		require.NoError(b, <-done)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkGate holds the gate against one durable message per row.
func BenchmarkGate(b *testing.B) {
	for _, c := range []struct{ clients, rows int }{{1, 1}, {64, 1}, {16, 100}, {4, 1000}} {
		b.Run(fmt.Sprintf("clients=%d/rows=%d", c.clients, c.rows), func(b *testing.B) {
			g := ingest.NewGate(ingest.GateOptions{Broker: benchBroker(b)})
			table, body := events(), eventBody(c.rows)
			spread(b, c.clients, c.rows, func() error {
				result, err := g.Ingest(b.Context(), eventRequest(table, body))
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
			broker := benchBroker(b)
			chunk := encoded(b, 1)
			spread(b, clients, 1, func() error {
				_, err := broker.Publish(b.Context(), chunk)
				return err
			})
		})
	}
}

// BenchmarkThousandRowMessages is the bare queue under 1,000-row chunks.
func BenchmarkThousandRowMessages(b *testing.B) {
	broker := benchBroker(b)
	chunk := encoded(b, 1000)
	spread(b, 4, 1000, func() error {
		_, err := broker.Publish(b.Context(), chunk)
		return err
	})
}

func encoded(b *testing.B, rows int) mq.Chunk {
	b.Helper()
	q := &queue{}
	_, err := ingest.NewGate(ingest.GateOptions{Broker: q}).Ingest(b.Context(), eventRequest(events(), eventBody(rows)))
	require.NoError(b, err)
	return q.stored[0]
}

// discard is a ClickHouse that costs nothing.
type discard struct{}

func (discard) Name() string { return "discard" }

func (discard) Insert(_ context.Context, r clickhouse.Request) error {
	_, err := io.Copy(io.Discard, r.Body)
	return err
}

// BenchmarkThrough is everything of ours that a row of a 1,000-row body costs,
// from the body to the acknowledgement.
func BenchmarkThrough(b *testing.B) {
	broker := benchBroker(b)
	g := ingest.NewGate(ingest.GateOptions{Broker: broker})
	w := ingest.NewWorker(ingest.WorkerOptions{
		Broker:   broker,
		Pool:     func(tenant.ID) (ingest.Inserter, error) { return discard{}, nil },
		Settings: served(ingest.Flush{}, true),
	})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	table, body := events(), eventBody(1000)
	spread(b, 4, 1000, func() error {
		_, err := g.Ingest(b.Context(), eventRequest(table, body))
		return err
	})
	cancel()
	require.NoError(b, <-ended)
}
