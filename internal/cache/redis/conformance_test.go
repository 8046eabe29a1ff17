package redis_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/cachetest"
	"github.com/wavehouse/wavehouse/internal/cache/redis"
	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
)

// quick are times that a test need not wait for; the budget is wide, since the
// machine may be busy.
func quick() redis.Options {
	return redis.Options{
		Mode: redis.Standalone, Prefix: "wh", OpTimeout: 20 * time.Second, Member: "one", Absence: time.Hour,
		Timing: redis.Timing{Lease: time.Minute, Grace: time.Nanosecond, Lock: time.Second},
	}
}

// open makes a cache that ends with the test.
func open(t testing.TB, o redis.Options) *redis.Cache {
	t.Helper()
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	c, err := redis.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// path is a way to a server that can be cut.
type path struct {
	addr string

	out   atomic.Bool
	mu    sync.Mutex
	to    string
	conns map[net.Conn]bool
}

func newPath(t testing.TB, to string) *path {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &path{addr: l.Addr().String(), to: to, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.carry(in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut(true)
		all.Wait()
	})
	return p
}

func (p *path) carry(in net.Conn) {
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	out, err := net.Dial("tcp", to)
	if err != nil || p.out.Load() {
		_ = in.Close()
		if out != nil {
			_ = out.Close()
		}
		return
	}
	p.mu.Lock()
	p.conns[in], p.conns[out] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			buffer := make([]byte, 64<<10)
			for {
				n, err := way[0].Read(buffer)
				if err == nil {
					_, err = way[1].Write(buffer[:n])
				}
				if err != nil {
					_, _ = way[0].Close(), way[1].Close()
					return
				}
			}
		})
	}
	both.Wait()
	p.mu.Lock()
	delete(p.conns, in)
	delete(p.conns, out)
	p.mu.Unlock()
}

// cut ends what goes along the path, and what would, or lets it.
func (p *path) cut(out bool) {
	p.out.Store(out)
	p.mu.Lock()
	defer p.mu.Unlock()
	if out {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}

// lead has new connections go elsewhere. Those that are open stay.
func (p *path) lead(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

// drop ends what goes along the path, which comes again.
func (p *path) drop() {
	p.cut(true)
	p.cut(false)
}

// conform runs the suite; each cache has the server's data for itself.
func conform(t *testing.T, o redis.Options, flush func(t *testing.T), c cachetest.Capabilities) {
	cachetest.Run(t, c, func(t *testing.T, suite cachetest.Options) cache.Cache {
		flush(t)
		return open(t, within(o, suite))
	})
}

// within shortens what an outage is waited for.
func within(o redis.Options, suite cachetest.Options) redis.Options {
	if suite.Outage {
		o.Timing.Lease, o.OpTimeout = 600*time.Millisecond, 1500*time.Millisecond
	}
	return o
}

// notHere are the cases of the suite that a shared store has no use for: its
// clock and its memory are the server's. TestExpiryAndEviction stands for them.
var notHere = []string{"Expiry", "Bounded"}

func TestConformanceStandalone(t *testing.T) {
	require.Len(t, notHere, 2)
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		s := redistest.Start(t, flavor, "--save", "")
		way := newPath(t, s.Addr())
		o := quick()
		o.Addresses = []string{way.addr}
		conform(t, o, func(t *testing.T) { s.Do(t, "FLUSHALL") }, cachetest.Capabilities{
			Outage: func(_ cache.Cache, out bool) { way.cut(out) },
		})
	})
}

func TestConformanceSentinel(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		trio := redistest.StartTrio(t, flavor)
		trio.Steady(t)
		o := quick()
		o.Mode, o.Addresses, o.Master = redis.Sentinel, trio.Addrs(), redistest.MasterName
		conform(t, o, func(t *testing.T) { trio.Primary(t).Do(t, "FLUSHALL") }, cachetest.Capabilities{})
	})
}

func TestConformanceCluster(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		six := redistest.StartSix(t, flavor)
		six.Steady(t)
		o := quick()
		o.Mode, o.Addresses = redis.Cluster, six.Addrs()
		flush := func(t *testing.T) {
			for _, n := range six.Nodes[:3] {
				n.Do(t, "FLUSHALL")
			}
		}
		conform(t, o, flush, cachetest.Capabilities{})
		flush(t)
		meetInACluster(t, o)
	})
}
