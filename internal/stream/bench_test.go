package stream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// wire is a queue without a queue: what is published is fed and forgotten.
type wire struct {
	memoryBroker
	seq uint64
}

func (w *wire) feed(c mq.Chunk) {
	w.seq++
	for _, f := range w.feeds {
		f.Chunk(c, mq.NewPosition(77, w.seq))
	}
}

// floor is a broadcaster without topics, history, grants or ids.
type floor struct {
	mu   sync.Mutex
	subs map[chan []byte]struct{}
}

func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ch := make(chan []byte, 64)
	f.mu.Lock()
	f.subs[ch] = struct{}{}
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, ": connected\nretry: 2000\nid: none\n\n")
	flusher := w.(http.Flusher)
	flusher.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case frame := <-ch:
			if _, err := w.Write(frame); err != nil {
				return
			}
			flusher.Flush()
		}
	}
}

func (f *floor) publish(frame []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.subs {
		ch <- frame
	}
}

// audience is readers that count what arrives: three lines a row.
type audience struct {
	lines []atomic.Int64
	conns []net.Conn
}

func newAudience(b testing.TB, server *httptest.Server, size int, path func(int) string) *audience {
	a := &audience{lines: make([]atomic.Int64, size)}
	for i := range size {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(b, err)
		a.conns = append(a.conns, conn)
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", path(i))
		require.NoError(b, err)
		go a.read(i, conn)
	}
	for i := range a.lines {
		eventually(b, "connected", func() bool { return a.lines[i].Load() > 0 })
	}
	// The headers and the opening have been counted with the rows.
	eventually(b, "opened", func() bool { return a.settled() })
	for i := range a.lines {
		a.lines[i].Store(0)
	}
	return a
}

func (a *audience) settled() bool {
	before := a.total()
	runtime.Gosched()
	time.Sleep(20 * time.Millisecond)
	return a.total() == before
}

func (a *audience) total() (n int64) {
	for i := range a.lines {
		n += a.lines[i].Load()
	}
	return n
}

func (a *audience) read(i int, conn net.Conn) {
	buf := make([]byte, 4<<10)
	for {
		n, err := conn.Read(buf)
		a.lines[i].Add(int64(bytes.Count(buf[:n], []byte{'\n'})))
		if err != nil {
			return
		}
	}
}

// wait waits until all have the given number of rows.
func (a *audience) wait(rows int64) {
	for i := range a.lines {
		for a.lines[i].Load() < 3*rows {
			runtime.Gosched()
		}
	}
}

func (a *audience) close() {
	for _, c := range a.conns {
		_ = c.Close()
	}
}

// window is how many chunks may be under way: enough to saturate.
const window = 16

func drive(b *testing.B, a *audience, publish func()) {
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		publish()
		if i >= window {
			a.wait(int64(i - window))
		}
	}
	a.wait(int64(b.N))
	b.StopTimer()
	b.ReportMetric(float64(b.N*len(a.lines))/b.Elapsed().Seconds(), "deliveries/s")
}

func BenchmarkFanOut(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("floor/%d", size), func(b *testing.B) {
			f := &floor{subs: map[chan []byte]struct{}{}}
			server := httptest.NewServer(f)
			a := newAudience(b, server, size, func(int) string { return "/" })
			frame, _ := benchFrame()
			drive(b, a, func() { f.publish(frame) })
			a.close()
			server.Close()
		})
		b.Run(fmt.Sprintf("hub/%d", size), func(b *testing.B) { benchHub(b, size, func(int) string { return "" }) })
	}
	b.Run("hub/1000/roles/100", func(b *testing.B) {
		benchHub(b, 1000, func(i int) string { return fmt.Sprintf("&role=%d", i%100) })
	})
}

func benchHub(b *testing.B, size int, query func(int) string) {
	w := &wire{memoryBroker: *newMemoryBroker()}
	r := newRig(b, w, Options{QueueBytes: 64 << 20}, func(s *Subscription, req *http.Request) {
		g := testGrant{name: req.URL.Query().Get("role"), deny: []string{"secret"}}
		s.Grant = func() (Grant, error) { return g, nil }
	})
	r.server.Config.ConnContext = nil
	a := newAudience(b, r.server, size, func(i int) string { return "/?table=" + testTable + query(i) })
	_, c := benchFrame()
	drive(b, a, func() { c.Received = time.Now(); w.feed(c) })
	a.close()
	r.stop()
}

// benchFrame is one row, as the floor sends it and as the hub is fed it.
func benchFrame() ([]byte, mq.Chunk) {
	c := rowsChunk(testTable, 123456)
	p := projector{topic: c.Topic, ids: testIDs(c.Topic), hidden: func() ([]string, bool) { return nil, true }}
	at := mq.NewPosition(77, 1)
	opened, err := chunk.NewOpener().Open(c)
	if err == nil {
		err = opened.Decode()
	}
	if err != nil {
		panic(err)
	}
	frame, _ := p.rows(nil, c, at, &opened, view{grant: testGrant{}}, 0)
	return frame, c
}

func BenchmarkProjection(b *testing.B) {
	numbers := sequence(1, 1000)
	c := rowsChunk(testTable, numbers...)
	p := projector{topic: c.Topic, ids: testIDs(c.Topic), hidden: func() ([]string, bool) { return nil, true }}
	o := chunk.NewOpener()
	buf := make([]byte, 0, size(c))
	b.ReportAllocs()
	for b.Loop() {
		opened, err := o.Open(c)
		if err == nil {
			err = opened.Decode()
		}
		if err != nil {
			b.Fatal(err)
		}
		buf, _ = p.rows(buf[:0], c, mq.NewPosition(1, 2), &opened, view{grant: testGrant{}}, 0)
	}
	b.ReportMetric(float64(len(buf))/1000, "bytes/row")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
}

// BenchmarkTakeWithoutSubscribers is what a publish pays when nobody follows.
func BenchmarkTakeWithoutSubscribers(b *testing.B) {
	h := New(Options{Broker: newMemoryBroker()})
	c := rowsChunk(testTable, 1)
	b.ReportAllocs()
	for b.Loop() {
		h.take(c, mq.NewPosition(1, 2))
	}
}

// An idle subscriber costs little: what the hub keeps per stream, without the
// connection that net/http keeps.
func TestMemoryOfIdleSubscribers(t *testing.T) {
	const count = 500
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	measure := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := measure()
	done := make(chan struct{}, count)
	var greeted atomic.Int64
	for range count {
		go func() {
			defer func() { done <- struct{}{} }()
			req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			w := &discard{h: http.Header{}, first: func() { greeted.Add(1) }}
			_ = r.hub.Serve(w, req, Subscription{
				Tenant: tenant.Default, Table: testTable,
				Grant: func() (Grant, error) { return testGrant{name: "all"}, nil },
			})
		}()
	}
	// A stream that is still opening when a row comes starts after it.
	eventually(t, "all are open", func() bool { return greeted.Load() == count })
	b.publish(rowsChunk(testTable, 1))
	rows := r.hub.metrics.rows.WithLabelValues("0")
	eventually(t, "all have read", func() bool { return r.counter(rows) == count })
	each := (measure() - before) / count
	t.Logf("%d bytes per idle subscriber, its goroutine's stack included", each)
	require.Less(t, each, int64(24<<10))
	cancel()
	for range count {
		<-done
	}
}

// discard is a response nobody reads. first is called by the first flush; nil
// calls nothing.
type discard struct {
	h     http.Header
	first func()
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

func (d *discard) Flush() {
	if d.first != nil {
		d.first()
		d.first = nil
	}
}
func (d *discard) SetWriteDeadline(_ time.Time) error { return nil }
func (d *discard) SetReadDeadline(_ time.Time) error  { return nil }
