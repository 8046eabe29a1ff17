package clickhouse

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
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
	asked, refused := p.prepare(want, had)
	plan := p.fit(had, asked, refused)
	p.apply(plan)
	p.refusals = make(map[tenant.ID]error, len(refused))
	for id, err := range refused {
		p.refusals[id] = fmt.Errorf("%w: %w", ErrNoPool, err)
	}
	return refused
}

// Fits returns an ErrOverCeiling that names the sum and the ceiling when the
// tenants ask for more connections together than there may be.
func (p *Pools) Fits(want map[tenant.ID]Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, _ := p.prepare(want, nil)
	if sum := newAccount(asked).sum; p.ceiling > 0 && sum > p.ceiling {
		return overCeiling(sum, p.ceiling)
	}
	return nil
}

func overCeiling(sum, ceiling int) error {
	return fmt.Errorf("%w: the tenants ask for %d connections together, the ceiling is %d", ErrOverCeiling, sum, ceiling)
}

// prepare reads what each tenant asks. One whose files cannot be read asks for
// what it had, and one that asks for nothing new keeps its entry.
func (p *Pools) prepare(want map[tenant.ID]Config, had map[tenant.ID]entry) (asked map[tenant.ID]entry, refused map[tenant.ID]error) {
	asked, refused = make(map[tenant.ID]entry, len(want)), map[tenant.ID]error{}
	files := p.files.again()
	for id, c := range want {
		c = c.normal()
		tls, err := files.load(c.TLS, c.Addr)
		e, known := had[id]
		switch {
		case err != nil:
			refused[id] = err
			if known {
				asked[id] = e
			}
		case known && e.key.tls == tls.print && reflect.DeepEqual(e.config, c):
			asked[id] = e
		default:
			key := coreKey{native: c.Native, addr: c.server(), database: c.Database, username: c.Username, password: c.Password, tls: tls.print}
			asked[id] = entry{wish: &wish{key: key, config: c, tls: tls.config}}
		}
	}
	p.files = files
	return asked, refused
}

// fit decides whose wish is followed so that the connections stay under the ceiling,
// and notes the others in refused.
func (p *Pools) fit(had, asked map[tenant.ID]entry, refused map[tenant.ID]error) map[tenant.ID]entry {
	sum := newAccount(asked).sum
	if p.ceiling <= 0 || sum <= p.ceiling {
		return asked
	}
	plan := maps.Clone(had)
	account := newAccount(plan)
	pending := slices.Sorted(maps.Keys(asked))
	// One tenant's move may make room for another's: go on while it does.
	for moved := true; moved; {
		moved = false
		pending = slices.DeleteFunc(pending, func(id tenant.ID) bool {
			done := p.move(plan, account, id, asked[id])
			moved = moved || done
			return done
		})
	}
	for _, id := range pending {
		refused[id] = overCeiling(sum, p.ceiling)
	}
	return plan
}

// move lets a tenant have what it asks if that stays under the ceiling, or at
// least takes no more than before.
func (p *Pools) move(plan map[tenant.ID]entry, account *account, id tenant.ID, to entry) bool {
	before := account.sum
	from, had := plan[id]
	if had {
		account.count(from, -1)
	}
	account.count(to, 1)
	if account.sum <= p.ceiling || account.sum <= before {
		plan[id] = to
		return true
	}
	account.count(to, -1)
	if had {
		account.count(from, 1)
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

// apply makes the plan's pools and retires those that are not in it.
func (p *Pools) apply(plan map[tenant.ID]entry) {
	graces := p.graces()
	want := sizes(plan)
	cores := make(map[coreKey]*core, len(want))
	tenants := make(map[tenant.ID]entry, len(plan))
	for id, e := range plan {
		c := p.coreFor(e, want[e.key], cores)
		if e.pool == nil || e.pool.core != c {
			e.pool = &Pool{core: c, config: &e.config, metrics: p.metrics}
		}
		tenants[id] = e
	}
	for key, c := range p.cores {
		if cores[key] != c {
			p.retire(c, graces[c])
		}
	}
	p.tenants, p.cores = tenants, cores
}

func (p *Pools) coreFor(e entry, s size, cores map[coreKey]*core) *core {
	if c, ok := cores[e.key]; ok {
		return c
	}
	c, ok := p.cores[e.key]
	if !ok || c.size != s {
		c = newCore(e.wish, s)
		p.logger.Info("ClickHouse pool made", "pool", c.name, "user", e.config.Username, "max_open_conns", s.open)
	}
	cores[e.key] = c
	return c
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
		c.close()
	})
}
