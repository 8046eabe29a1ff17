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
	if _, on := b.waiting(); b.users == 0 && !on {
		delete(p.pools, name)
	}
}

// waiting is how many pools are being waited for.
func (p *poolBackoffs) waiting() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.pools {
		if _, on := b.waiting(); on {
			n++
		}
	}
	return n
}
