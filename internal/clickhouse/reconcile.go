package clickhouse

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// ErrOverCeiling says that a tenant's pool does not fit under
// clickhouse.max_total_conns.
var ErrOverCeiling = errors.New("over clickhouse.max_total_conns")

// Reconcile makes the pools follow the served tenants: it opens, repoints,
// resizes and retires. The result names each tenant whose settings could not be
// followed and why (ErrOverCeiling, or a TLS file); such a tenant keeps the pool
// it had, or has none. Tenants that leave free their connections first.
func (p *Pools) Reconcile(want map[tenant.ID]Config) map[tenant.ID]error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	had := make(map[tenant.ID]entry)
	for id, e := range p.tenants {
		if _, stays := want[id]; stays {
			had[id] = e
		}
	}
	asked, refused := prepare(want, had)
	plan := p.fit(had, asked, refused)
	p.apply(plan, refused)
	p.refusals = make(map[tenant.ID]error, len(refused))
	for id, err := range refused {
		p.refusals[id] = fmt.Errorf("%w: %w", ErrNoPool, err)
	}
	return refused
}

// prepare reads what each tenant asks. One whose files cannot be read asks for
// what it had.
func prepare(want map[tenant.ID]Config, had map[tenant.ID]entry) (asked map[tenant.ID]entry, refused map[tenant.ID]error) {
	asked, refused = make(map[tenant.ID]entry, len(want)), map[tenant.ID]error{}
	for id, c := range want {
		c = c.normal()
		tls, err := c.TLS.load(c.Addr)
		if err == nil {
			key := coreKey{addr: c.Addr, database: c.Database, username: c.Username, password: c.Password, tls: tls.print}
			asked[id] = entry{key: key, config: c, tls: tls}
			continue
		}
		refused[id] = err
		if e, ok := had[id]; ok {
			asked[id] = e
		}
	}
	return asked, refused
}

// fit decides whose wish is followed so that the sizes stay under the ceiling,
// and notes the others in refused.
func (p *Pools) fit(had, asked map[tenant.ID]entry, refused map[tenant.ID]error) map[tenant.ID]entry {
	sum := total(asked)
	if p.ceiling <= 0 || sum <= p.ceiling {
		return asked
	}
	plan := maps.Clone(had)
	pending := slices.Sorted(maps.Keys(asked))
	// One tenant's move may make room for another's: go on while it does.
	for moved := true; moved; {
		moved = false
		pending = slices.DeleteFunc(pending, func(id tenant.ID) bool {
			done := p.move(plan, id, asked[id])
			moved = moved || done
			return done
		})
	}
	for _, id := range pending {
		refused[id] = fmt.Errorf("%w: the tenants ask for %d connections together, the ceiling is %d", ErrOverCeiling, sum, p.ceiling)
	}
	return plan
}

// move lets a tenant have what it asks if that stays under the ceiling, or at
// least takes no more than before.
func (p *Pools) move(plan map[tenant.ID]entry, id tenant.ID, to entry) bool {
	before := total(plan)
	from, had := plan[id]
	plan[id] = to
	if after := total(plan); after <= p.ceiling || after <= before {
		return true
	}
	delete(plan, id)
	if had {
		plan[id] = from
	}
	return false
}

// sizes are how large each pool of a plan has to be: the largest ask among
// those who share it.
func sizes(plan map[tenant.ID]entry) map[coreKey]size {
	all := make(map[coreKey]size, len(plan))
	for _, e := range plan {
		s := all[e.key]
		all[e.key] = size{open: max(s.open, e.config.MaxOpenConns), idle: max(s.idle, e.config.MaxIdleConns)}
	}
	return all
}

func total(plan map[tenant.ID]entry) int {
	sum := 0
	for _, s := range sizes(plan) {
		sum += s.open
	}
	return sum
}

// apply makes the plan's pools and retires those that are not in it.
func (p *Pools) apply(plan map[tenant.ID]entry, refused map[tenant.ID]error) {
	graces := p.graces()
	want := sizes(plan)
	cores := make(map[coreKey]*core, len(want))
	tenants := make(map[tenant.ID]entry, len(plan))
	for id, e := range plan {
		c, err := p.coreFor(e, want[e.key], cores)
		if err != nil {
			refused[id] = fmt.Errorf("make the pool: %w", err)
			continue
		}
		e.pool = &Pool{core: c, config: e.config, metrics: p.metrics}
		tenants[id] = e
	}
	for key, c := range p.cores {
		if cores[key] != c {
			p.retire(c, graces[c])
		}
	}
	p.tenants, p.cores = tenants, cores
}

func (p *Pools) coreFor(e entry, s size, cores map[coreKey]*core) (*core, error) {
	if c, ok := cores[e.key]; ok {
		return c, nil
	}
	c, ok := p.cores[e.key]
	if !ok || c.size != s {
		var err error
		if c, err = newCore(e, s); err != nil {
			return nil, err
		}
		p.logger.Info("ClickHouse pool made", "pool", c.name, "user", e.config.Username, "max_open_conns", s.open)
	}
	cores[e.key] = c
	return c, nil
}

// graces are how long each pool may still be in use once it is no longer
// handed out: the longest query_timeout among its tenants.
func (p *Pools) graces() map[*core]time.Duration {
	all := make(map[*core]time.Duration, len(p.cores))
	for _, e := range p.tenants {
		c := e.pool.core
		all[c] = max(all[c], e.config.QueryTimeout)
	}
	return all
}

// retire closes c after grace.
func (p *Pools) retire(c *core, grace time.Duration) {
	p.logger.Info("ClickHouse pool retired", "pool", c.name, "grace", grace)
	p.retired[c] = p.afterFunc(grace, func() {
		p.mu.Lock()
		delete(p.retired, c)
		p.mu.Unlock()
		if err := c.close(); err != nil {
			p.logger.Warn("ClickHouse pool did not close cleanly", "pool", c.name, "error", err)
		}
	})
}
