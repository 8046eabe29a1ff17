package insert

import (
	"sync"
	"time"
)

// poolBackoffs is one backoff per pool, kept while it is used or running.
type poolBackoffs struct {
	min, max time.Duration

	mu    sync.Mutex
	pools map[string]*poolBackoff
}

type poolBackoff struct {
	*backoff
	users int
}

func newPoolBackoffs(shortest, longest time.Duration) *poolBackoffs {
	return &poolBackoffs{min: shortest, max: longest, pools: make(map[string]*poolBackoff)}
}

func (p *poolBackoffs) get(name string) *backoff {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.pools[name]
	if b == nil {
		b = &poolBackoff{backoff: newBackoff(p.min, p.max)}
		p.pools[name] = b
	}
	b.users++
	return b.backoff
}

// put forgets the backoff of a pool that is well and that nobody uses.
func (p *poolBackoffs) put(name string, used *backoff) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.pools[name]
	if b == nil || b.backoff != used {
		return
	}
	b.users--
	if b.users == 0 && !b.window().open {
		delete(p.pools, name)
	}
}

func (p *poolBackoffs) status() []BackoffStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []BackoffStatus
	for name, b := range p.pools {
		if now := b.window(); now.open {
			all = append(all, BackoffStatus{Pool: name, Since: now.since, Err: now.reason})
		}
	}
	return all
}
