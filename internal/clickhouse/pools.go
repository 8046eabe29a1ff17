package clickhouse

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Options are what the pools are made with.
type Options struct {
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil counts nowhere
	// MaxTotalConns bounds the connections of all pools together; 0 is no ceiling.
	MaxTotalConns int
	// AfterFunc runs f once d has passed, unless it is stopped before; nil is
	// time.AfterFunc.
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// Pools are the pools of all tenants. Reconcile decides which there are; a pool
// that is no longer wanted lives on until its statements have ended.
type Pools struct {
	logger    *slog.Logger
	metrics   *metrics
	ceiling   int
	afterFunc func(time.Duration, func()) func() bool

	mu       sync.RWMutex
	tenants  map[tenant.ID]entry
	refusals map[tenant.ID]error
	cores    map[coreKey]*core
	retired  map[*core]func() bool // how to stop each one's end
	files    securedFiles
	closed   bool

	// answered is the pool that a probe had an answer from last.
	answered atomic.Pointer[core]
	probes   sync.WaitGroup // pings under way
}

// entry is what one tenant has: what it asks for, and the pool made of that.
type entry struct {
	*wish
	pool *Pool
}

// wish is what a tenant asks for. It never changes.
type wish struct {
	key    coreKey
	config Config
	tls    *tls.Config
}

// NewPools makes an empty set; nothing is dialled.
func NewPools(o Options) *Pools {
	p := &Pools{
		logger: o.Logger, ceiling: o.MaxTotalConns, afterFunc: o.AfterFunc,
		tenants: map[tenant.ID]entry{}, cores: map[coreKey]*core{}, retired: map[*core]func() bool{},
	}
	p.logger = cmp.Or(p.logger, slog.New(slog.DiscardHandler))
	if p.afterFunc == nil {
		p.afterFunc = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	p.metrics = newMetrics(o.Metrics, p.inUse)
	return p
}

// Get is a tenant's pool as it is now. Without one the error is ErrNoPool with
// the reason.
func (p *Pools) Get(id tenant.ID) (*Pool, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if e, ok := p.tenants[id]; ok {
		return e.pool, nil
	}
	if reason, ok := p.refusals[id]; ok {
		return nil, reason
	}
	return nil, fmt.Errorf("%w: tenant %s is not served", ErrNoPool, id)
}

// distinctLocked is one tenant's pool for each set of connections.
func (p *Pools) distinctLocked() []*Pool {
	seen := make(map[*core]bool, len(p.cores))
	var pools []*Pool
	for _, e := range p.tenants {
		if !seen[e.pool.core] {
			seen[e.pool.core] = true
			pools = append(pools, e.pool)
		}
	}
	return pools
}

func (p *Pools) inUse() float64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := 0
	for _, c := range p.cores {
		n += len(c.slots) + len(c.writes) + len(c.questions)
	}
	return float64(n)
}

// Close ends every pool. It waits for the statements that run, until ctx ends;
// those left then are cut off.
func (p *Pools) Close(ctx context.Context) {
	for _, c := range p.takeAll() {
		c.drain(ctx)
		c.close()
	}
	p.probes.Wait() // the pools they ask are closed
}

// takeAll empties the set for good.
func (p *Pools) takeAll() []*core {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var all []*core
	for _, c := range p.cores {
		all = append(all, c)
	}
	for c, stop := range p.retired {
		stop()
		all = append(all, c)
	}
	p.tenants, p.cores, p.retired = map[tenant.ID]entry{}, map[coreKey]*core{}, map[*core]func() bool{}
	return all
}

// drain waits until no statement holds a slot, or ctx ends.
func (c *core) drain(ctx context.Context) {
	for _, of := range []slots{c.slots, c.writes} {
		for range cap(of) {
			if of.acquire(ctx) != nil {
				return
			}
		}
	}
}
