package embedded

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func newBenchBroker(b *testing.B) *Broker {
	br, err := New(Options{Dir: b.TempDir(), Logger: quiet()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, br.Close(context.Background())) })
	return br
}

// BenchmarkPublish is one durable chunk per operation.
func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{250, 256 << 10} {
		for _, writers := range []int{1, 64} {
			for _, tenants := range []int{1, 8} {
				b.Run(fmt.Sprintf("bytes=%d/writers=%d/tenants=%d", size, writers, tenants), func(b *testing.B) {
					benchPublish(b, size, writers, tenants)
				})
			}
		}
	}
}

func benchPublish(b *testing.B, size, writers, tenants int) {
	br := newBenchBroker(b)
	body := string(make([]byte, size))
	b.SetBytes(int64(size))
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var g sync.WaitGroup
	for w := range writers {
		id := tenant.ID(fmt.Sprint("t", w%tenants))
		g.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := br.Publish(b.Context(), mqtest.Chunk(id, "t", body)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	g.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "publishes/s")
}

// BenchmarkDeliver reads what is stored and acknowledges it in groups.
func BenchmarkDeliver(b *testing.B) {
	br := newBenchBroker(b)
	body := string(make([]byte, 16<<10))
	var g sync.WaitGroup
	for w := range 64 {
		g.Go(func() {
			for n := w; n < b.N; n += 64 {
				if _, err := br.Publish(b.Context(), mqtest.Chunk("t", "t", body)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	g.Wait()
	b.ReportAllocs()
	b.ResetTimer()
	got := make(chan mq.Delivery, 1024)
	c, err := br.Consume(b.Context(), mqtest.Work(func(d mq.Delivery) { got <- d }))
	require.NoError(b, err)
	var batch []mq.Delivery
	for n := range b.N {
		batch = append(batch, <-got)
		if len(batch) == 50 || n == b.N-1 {
			require.NoError(b, c.Ack(batch...))
			batch = batch[:0]
		}
	}
	b.StopTimer()
	require.NoError(b, c.Stop(context.Background()))
}

// BenchmarkNote is what an INSERT of as many chunks pays to be repeated
// unchanged after a kill.
func BenchmarkNote(b *testing.B) {
	broker := newBenchBroker(b)
	for _, chunks := range []int{1, 50} {
		b.Run(fmt.Sprint(chunks), func(b *testing.B) {
			batch := mq.Batch{Topic: mq.Topic{Tenant: "birch", Table: "t"}, Rows: make([]mq.Rows, chunks)}
			for n := range batch.Rows {
				batch.Rows[n].Chunk = mq.NewPosition(1, uint64(n+1))
			}
			for b.Loop() {
				require.NoError(b, broker.Note(batch))
			}
		})
	}
}
