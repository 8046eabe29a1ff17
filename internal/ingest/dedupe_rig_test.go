package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clocktest"
	"github.com/wavehouse/wavehouse/internal/dedupe/pebble"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// memory is a queue that knows messages again by their ids.
type memory struct {
	queue
	// forget has it store a message and answer that the outcome is unknown.
	forget func(n int) bool

	mu   sync.Mutex
	seen map[string]mq.Position
	n    int
}

func (m *memory) Publish(ctx context.Context, c mq.Chunk) (mq.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	if at, ok := m.seen[c.ID]; ok && c.ID != "" {
		return at, nil
	}
	at, err := m.queue.Publish(ctx, c)
	if err != nil {
		return at, err
	}
	if m.seen == nil {
		m.seen = map[string]mq.Position{}
	}
	m.seen[c.ID] = at
	if m.forget != nil && m.forget(m.n) {
		return mq.Position{}, fmt.Errorf("a lost answer: %w", mq.ErrOutcomeUnknown)
	}
	return at, nil
}

// dedupeRig is a gate over a real store of ids.
type dedupeRig struct {
	*ingest.Gate
	t     *testing.T
	store *pebble.Store
	queue *memory
	clock *clocktest.Clock
	reg   *prometheus.Registry
}

const testLease = 30 * time.Second

func newDedupeRig(t *testing.T) *dedupeRig {
	r := &dedupeRig{t: t, queue: &memory{}, clock: clocktest.At(time.Now()), reg: prometheus.NewRegistry()}
	r.store = pebble.New(pebble.Options{
		Dir: filepath.Join(t.TempDir(), "pebble"), Lease: testLease, Now: r.clock.Now,
		Logger: slog.New(slog.DiscardHandler), Timeout: time.Minute,
	})
	t.Cleanup(func() { require.NoError(t, r.store.Close(context.Background())) })
	r.Gate = ingest.NewGate(ingest.GateOptions{
		Broker: r.queue, Dedupe: r.store, Lease: testLease, InFlightWait: 50 * time.Millisecond, Metrics: r.reg,
	})
	return r
}

func (r *dedupeRig) request(format record.InputFormat, body string) ingest.Request {
	q := ingesttest.Request(ingesttest.Pages(), format, body)
	q.IDs = &ingest.IDs{Field: "event_id"}
	return q
}

func (r *dedupeRig) send(body string) (ingest.Result, error) {
	r.t.Helper()
	return r.Ingest(r.t.Context(), r.request(record.JSON, body))
}

// ok sends and asserts the counts: succeeded, duplicates, failed.
func (r *dedupeRig) ok(body string, counts ...int) ingest.Result {
	r.t.Helper()
	result, err := r.send(body)
	require.NoError(r.t, err)
	require.Equal(r.t, counts, []int{result.Succeeded, result.Duplicates, result.Failed})
	require.Equal(r.t, result.Total, result.Succeeded+result.Duplicates+result.Failed)
	return result
}

func (r *dedupeRig) stored() []string { return flat(r.queue.rows(r.t)) }

func (r *dedupeRig) failed(err error, code string, retry time.Duration) {
	r.t.Helper()
	var whole *ingest.Error
	require.ErrorAs(r.t, err, &whole)
	require.Equal(r.t, code, whole.Code)
	require.Equal(r.t, retry, whole.RetryAfter)
}
