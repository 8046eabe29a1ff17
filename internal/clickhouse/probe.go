package clickhouse

import (
	"context"
	"errors"
	"slices"
	"time"
)

// headStart is how long the pool that answered last is asked alone: as long as
// it is there, a probe costs one connection however many pools there are.
const headStart = 100 * time.Millisecond

// probed is what came of asking one pool.
type probed struct {
	pool *Pool
	err  error
}

// Probe asks the pools at once for a sign of life until the first answers; then
// it returns nil. When none does it returns each pool's failure by name, an
// empty map when there is no pool. None is waited for longer than timeout.
func (p *Pools) Probe(ctx context.Context, timeout time.Duration) map[string]error {
	pools, first := p.toProbe()
	results := make(chan probed, len(pools)) // so that none waits for its reader
	started := 0
	ask := func(n int) {
		for _, pool := range pools[started:n] {
			go func() {
				defer p.probes.Done()
				results <- probed{pool, pool.pingFor(ctx, timeout)}
			}()
		}
		started = n
	}
	defer func() { p.probes.Add(started - len(pools)) }()

	ask(first)
	head := time.NewTimer(headStart)
	defer head.Stop()
	if first == 0 {
		head.Reset(0)
	}
	failures := make(map[string]error, len(pools))
	for range pools {
		r, err := awaitProbe(ctx, results, head, func() { ask(len(pools)) })
		if err != nil {
			return map[string]error{"": err}
		}
		if r.err == nil {
			p.answered.Store(r.pool.core)
			return nil
		}
		failures[r.pool.Name()] = errors.Join(failures[r.pool.Name()], r.err)
		head.Reset(0)
	}
	return failures
}

// awaitProbe returns the next answer. The others are asked when the first has
// had its head start.
func awaitProbe(ctx context.Context, results <-chan probed, head *time.Timer, others func()) (probed, error) {
	for {
		select {
		case r := <-results:
			return r, nil
		case <-head.C:
			others()
		case <-ctx.Done():
			return probed{}, ctx.Err()
		}
	}
}

// toProbe lists one tenant's pool for each set of connections, and how many of
// them, 0 or 1, to ask before the others. Close waits for all of them.
func (p *Pools) toProbe() (pools []*Pool, first int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	pools = p.distinctLocked()
	p.probes.Add(len(pools))
	answered := p.answered.Load()
	at := slices.IndexFunc(pools, func(pool *Pool) bool { return pool.core == answered })
	if at < 0 {
		return pools, 0
	}
	pools[0], pools[at] = pools[at], pools[0]
	return pools, 1
}

// pingFor outlasts the caller: a ping that is cut off in its handshake looks to
// ClickHouse like an attack.
func (p *Pool) pingFor(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	return p.Ping(ctx)
}
