package mqtest

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// patience is how long a case waits for what must happen.
const patience = time.Minute

// Chunk returns a chunk that says who it is: n rows of a table.
func Chunk(t tenant.ID, table, body string) mq.Chunk {
	return mq.Chunk{
		Topic: mq.Topic{Tenant: t, Table: table},
		Header: mq.Header{
			Version: mq.Version, Format: mq.FormatRowBinary, Rows: 3, Encoding: "zstd", IDs: 7,
			Columns:     `[{"name":"é\n\"x%41","type":"String"}]`,
			Received:    time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC),
			TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		Body: []byte(body),
	}
}

// open opens a broker and closes it when the test ends, unless it was.
func open(t *testing.T, s Store) mq.Broker {
	b := s.Open(t)
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			require.ErrorIs(t, err, mq.ErrClosed)
		}
	})
	return b
}

func reopen(t *testing.T, s Store, b mq.Broker) mq.Broker {
	require.NoError(t, b.Close(t.Context()))
	return open(t, s)
}

func publish(t *testing.T, b mq.Broker, c mq.Chunk) mq.Position {
	t.Helper()
	pos, err := b.Publish(t.Context(), c)
	require.NoError(t, err)
	return pos
}

func publishMany(t *testing.T, b mq.Broker, id tenant.ID, table string, n int) []mq.Position {
	t.Helper()
	var out []mq.Position
	for i := range n {
		out = append(out, publish(t, b, Chunk(id, table, fmt.Sprintf("%s/%s/%d", id, table, i))))
	}
	return out
}

// inbox collects deliveries.
type inbox struct {
	mu  sync.Mutex
	all []mq.Delivery
}

func (i *inbox) take(d mq.Delivery) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, d)
}

func (i *inbox) list() []mq.Delivery {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]mq.Delivery(nil), i.all...)
}

func (i *inbox) bodies() []string {
	var out []string
	for _, d := range i.list() {
		out = append(out, string(d.Chunk().Body))
	}
	return out
}

func (i *inbox) chunks() []mq.Chunk {
	var out []mq.Chunk
	for _, d := range i.list() {
		out = append(out, d.Chunk())
	}
	return out
}

func (i *inbox) has(p mq.Position) bool {
	for _, d := range i.list() {
		if d.Position() == p {
			return true
		}
	}
	return false
}

// of returns the chunks of a topic.
func of(all []mq.Chunk, t mq.Topic) []mq.Chunk {
	var out []mq.Chunk
	for _, c := range all {
		if c.Topic == t {
			out = append(out, c)
		}
	}
	return out
}

// await waits until n deliveries came.
func (i *inbox) await(t *testing.T, n int) []mq.Delivery {
	t.Helper()
	eventually(t, func() bool { return len(i.list()) >= n }, "%d deliveries", n)
	return i.list()
}

// consume delivers into a new inbox until the test ends.
func consume(t *testing.T, b mq.Broker) (*inbox, mq.Consumption) {
	t.Helper()
	in := &inbox{}
	return in, consumeWith(t, b, in.take)
}

func consumeWith(t *testing.T, b mq.Broker, handle func(mq.Delivery)) mq.Consumption {
	t.Helper()
	c, err := b.Consume(context.Background(), Work(handle))
	require.NoError(t, err)
	t.Cleanup(func() { stop(t, c) })
	return c
}

// Work is for tests that are not about shards.
func Work(deliver func(mq.Delivery)) mq.Work {
	return mq.Work{Assigned: func(mq.Shard) {}, Deliver: deliver, Revoked: func(mq.Shard) {}}
}

// Viewing is for tests that are not about holes.
func Viewing(show func(mq.Chunk, mq.Position)) mq.Viewer {
	return mq.Viewer{Chunk: show, Hole: func(mq.Hole) {}}
}

// capable is the queue as one that has a capability.
func capable[T any](t *testing.T, b mq.Broker) T {
	t.Helper()
	v, ok := b.(T)
	require.True(t, ok, "the queue is no %s", reflect.TypeFor[T]())
	return v
}

// statusOf asks a queue that knows its tenants.
func statusOf(t *testing.T, b mq.Broker, id tenant.ID) mq.TenantStatus {
	t.Helper()
	st, err := capable[mq.Tenants](t, b).TenantStatus(t.Context(), id)
	require.NoError(t, err)
	return st
}

// pending counts the tenant's chunks that are not acknowledged, 0 where the
// queue cannot tell.
func pending(t *testing.T, b mq.Broker, id tenant.ID) uint64 {
	t.Helper()
	if _, ok := b.(mq.Tenants); !ok {
		return 0
	}
	return statusOf(t, b, id).Pending
}

func stop(t *testing.T, c mq.Consumption) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, c.Stop(ctx))
}

func eventually(t *testing.T, ok func() bool, format string, args ...any) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	require.FailNow(t, "waited too long for "+fmt.Sprintf(format, args...))
}

// settled proves that nothing more of a tenant's table t is delivered to an
// inbox: a chunk that is published now comes next.
func (i *inbox) settled(t *testing.T, b mq.Broker, id tenant.ID, n int) mq.Delivery {
	t.Helper()
	publish(t, b, Chunk(id, "t", "marker"))
	got := i.await(t, n+1)
	require.Len(t, got, n+1)
	require.Equal(t, "marker", string(got[n].Chunk().Body))
	return got[n]
}

func numbered(id tenant.ID, table string, from, to int) []string {
	var out []string
	for n := from; n < to; n++ {
		out = append(out, fmt.Sprintf("%s/%s/%d", id, table, n))
	}
	return out
}
