package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clocktest"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/dedupe/pebble"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// lostAnswers is a queue whose answers get lost while lose is set.
type lostAnswers struct {
	ingest.Publisher
	lose atomic.Bool
}

func (l *lostAnswers) Publish(ctx context.Context, c mq.Chunk) (mq.Position, error) {
	at, err := l.Publisher.Publish(ctx, c)
	if err == nil && l.lose.Load() {
		return mq.Position{}, fmt.Errorf("the answer is lost: %w", mq.ErrOutcomeUnknown)
	}
	return at, err
}

// TestRetryAfterALostAnswer has a real queue store a message whose answer is
// lost, restarts everything, and retries: the queue knows the message again.
func TestRetryAfterALostAnswer(t *testing.T) {
	clock := clocktest.At(time.Now())
	queueDir := t.TempDir()
	broker := openBroker(t, queueDir)
	dir := filepath.Join(t.TempDir(), "pebble")
	open := func() (*pebble.Store, *ingest.Gate, *lostAnswers) {
		store := pebble.New(pebble.Options{Dir: dir, Lease: testLease, Now: clock.Now, Logger: slog.New(slog.DiscardHandler), Timeout: time.Minute})
		t.Cleanup(func() { _ = store.Close(context.Background()) })
		queue := &lostAnswers{Publisher: broker}
		return store, ingest.NewGate(ingest.GateOptions{Broker: queue, Dedupe: store, Lease: testLease, InFlightWait: time.Millisecond}), queue
	}
	store, gate, queue := open()
	withIDs := ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 600))
	withIDs.IDs = &ingest.IDs{Field: "event_id"}
	withKey := ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(600, 900))
	withKey.Key = "k"
	queue.lose.Store(true)
	for _, r := range []ingest.Request{withIDs, withKey} {
		_, err := gate.Ingest(t.Context(), r)
		var whole *ingest.Error
		require.ErrorAs(t, err, &whole)
		require.Equal(t, ingest.CodeOutcomeUnknown, whole.Code)
	}
	require.NoError(t, store.Close(t.Context()))
	require.NoError(t, broker.Close(t.Context()))
	broker = openBroker(t, queueDir)
	_, gate, _ = open()
	clock.Pass(testLease + time.Second)
	for _, r := range []ingest.Request{withIDs, withKey} {
		result, err := gate.Ingest(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, result.Total, result.Succeeded)
	}
	tail, err := broker.Tail(t.Context(), mq.Topic{Tenant: birch, Table: "pages"})
	require.NoError(t, err)
	var rows []string
	err = broker.Replay(t.Context(), mq.Topic{Tenant: birch, Table: "pages"}, mq.Position{}, tail, func(c mq.Chunk, _ mq.Position) error {
		rows = append(rows, ingesttest.ChunkRows(t, c)...)
		return nil
	})
	require.NoError(t, err)
	assert.ElementsMatch(t, ingesttest.Rows(0, 900), rows)
}

func BenchmarkGateDedupe(b *testing.B) {
	for _, rows := range []int{1, 1000} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("rows=%d/callers=%d", rows, callers), func(b *testing.B) {
				store := pebble.New(pebble.Options{Dir: b.TempDir(), Lease: testLease, Logger: slog.New(slog.DiscardHandler)})
				b.Cleanup(func() { _ = store.Close(context.Background()) })
				g := ingest.NewGate(ingest.GateOptions{Broker: openBroker(b, b.TempDir()), Dedupe: dedupe.NewMetered(store, nil), Lease: testLease})
				table := ingesttest.Pages()
				var next atomic.Int64
				ingesttest.Spread(b, callers, rows, func() error {
					from := int(next.Add(int64(rows))) - rows
					r := ingesttest.Request(table, record.NDJSON, ingesttest.Lines(from, from+rows))
					r.IDs = &ingest.IDs{Field: "event_id"}
					_, err := g.Ingest(b.Context(), r)
					return err
				})
			})
		}
	}
}
