package embedded

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// start opens a broker that is closed when the test ends, unless it was.
func start(t *testing.T, o Options) *Broker {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	if o.AckWait == 0 {
		o.AckWait = time.Hour // nothing comes again because the machine was busy
	}
	b, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			require.ErrorIs(t, err, mq.ErrClosed)
		}
	})
	return b
}

func put(t *testing.T, b mq.Broker, id tenant.ID, body string) mq.Position {
	t.Helper()
	pos, err := b.Publish(t.Context(), mqtest.Chunk(id, "t", body))
	require.NoError(t, err)
	return pos
}

// putOnce is put as soon as a store that is being opened again takes it, under an id,
// so that one whose answer is lost with it is known again.
func putOnce(t *testing.T, b mq.Broker, id tenant.ID, body string) (pos mq.Position) {
	t.Helper()
	c := mqtest.Chunk(id, "t", body)
	c.ID = body
	require.Eventually(t, func() bool {
		var err error
		pos, err = b.Publish(t.Context(), c)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	return pos
}

// box collects what a handler gets.
type box[T any] struct {
	mu  sync.Mutex
	all []T
}

func (x *box[T]) add(v T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, v)
}

func (x *box[T]) list() []T {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]T(nil), x.all...)
}

func (x *box[T]) await(t *testing.T, n int) []T {
	t.Helper()
	require.Eventually(t, func() bool { return len(x.list()) >= n }, time.Minute, 5*time.Millisecond, "%d of %d came", len(x.list()), n)
	return x.list()
}

func consumeInto(t *testing.T, b *Broker) (*box[mq.Delivery], mq.Consumption) {
	t.Helper()
	in := &box[mq.Delivery]{}
	c, err := b.Consume(context.Background(), mqtest.Work(in.add))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	return in, c
}

func bodies(ds []mq.Delivery) (out []string) {
	for _, d := range ds {
		out = append(out, string(d.Chunk().Body))
	}
	return out
}

// logBook is a log that tests read.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func seqOf(p mq.Position) uint64 {
	_, seq := mq.SplitPosition(p)
	return seq
}

func statusOf(t *testing.T, b *Broker, id tenant.ID) mq.TenantStatus {
	t.Helper()
	st, err := b.TenantStatus(t.Context(), id)
	require.NoError(t, err)
	return st
}
