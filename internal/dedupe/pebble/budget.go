package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// idBytes is what an id takes besides its key and value, about.
	idBytes = 48
	// countVersion begins the key under which a tenant's count is kept.
	countVersion = 2
	// sampled is how many ids the age is taken from beyond which ids are forgotten.
	sampled = 4096
)

// count is what the ids of each tenant take, in bytes, and what they may. It is kept
// beside the ids from time to time, and exact after a sweep.
type count struct {
	mu      sync.Mutex
	budgets map[tenant.ID]dedupe.Budget
	used    map[tenant.ID]int64
	// crowded has room for one signal: a tenant is to forget.
	crowded chan struct{}
}

func newCount() *count {
	return &count{used: map[tenant.ID]int64{}, crowded: make(chan struct{}, 1)}
}

// SetBudgets implements dedupe.Budgeted.
func (s *Store) SetBudgets(budgets map[tenant.ID]dedupe.Budget) {
	s.count.mu.Lock()
	defer s.count.mu.Unlock()
	s.count.budgets = budgets
}

// admits reports whether the tenant may have more ids. One that forgets has a
// quarter more, until it has forgotten.
func (c *count) admits(t tenant.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	budget, used := c.budgets[t], c.used[t]
	if budget.Bytes == 0 || used < budget.Bytes {
		return true
	}
	if !budget.Forget {
		return false
	}
	select {
	case c.crowded <- struct{}{}:
	default:
	}
	return used < budget.Bytes+budget.Bytes/4
}

func (c *count) add(t tenant.ID, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used[t] = max(0, c.used[t]+n)
}

// set replaces what is counted by what was found.
func (c *count) set(found map[tenant.ID]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = found
}

// excess says what is to be forgotten, in bytes by tenant, and what there is.
func (c *count) excess() (excess, used map[tenant.ID]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	excess, used = map[tenant.ID]int64{}, map[tenant.ID]int64{}
	for t, budget := range c.budgets {
		if n := c.used[t]; budget.Forget && budget.Bytes > 0 && n >= budget.Bytes {
			excess[t], used[t] = n-budget.Bytes*3/4, n
		}
	}
	return excess, used
}

// tenantOf is whose a key is.
func tenantOf(key []byte) tenant.ID {
	if at := bytes.IndexByte(key, 0); at > 0 {
		return tenant.ID(key[1:at])
	}
	return ""
}

// rangeOf is where a tenant's keys are.
func rangeOf(t tenant.ID) *pebble.IterOptions {
	prefix := dedupe.Prefix(dedupe.Scope{Tenant: t})
	prefix = prefix[:len(prefix)-1] // without the end of the table's name
	return &pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: []byte(prefix[:len(prefix)-1] + "\x01")}
}

// keep notes the counts in the files.
func (c *count) keep(in *instance) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := in.db.NewBatch()
	defer func() { _ = batch.Close() }()
	for t, n := range c.used {
		if err := batch.Set(append([]byte{countVersion}, t...), binary.BigEndian.AppendUint64(nil, uint64(n)), nil); err != nil {
			return err
		}
	}
	return batch.Commit(pebble.NoSync)
}

// load reads the counts that were kept.
func (c *count) load(in *instance) error {
	it, err := in.db.NewIter(&pebble.IterOptions{LowerBound: []byte{countVersion}, UpperBound: []byte{countVersion + 1}})
	if err != nil {
		return err
	}
	found := map[tenant.ID]int64{}
	for ok := it.First(); ok; ok = it.Next() {
		if b := it.Value(); len(b) == 8 {
			found[tenant.ID(it.Key()[1:])] = int64(binary.BigEndian.Uint64(b))
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.used) == 0 { // else it is known better
		c.used = found
	}
	return nil
}

// forget removes the oldest ids of the tenants that hold more than they may, down to
// three quarters, about.
func (s *Store) forget(ctx context.Context) error {
	excess, used := s.count.excess()
	for t, n := range excess {
		if err := s.forgetOf(ctx, t, float64(n)/float64(used[t])); err != nil {
			return err
		}
	}
	return nil
}

// forgetOf removes a part of a tenant's ids.
func (s *Store) forgetOf(ctx context.Context, t tenant.ID, part float64) error {
	var oldest int64
	if err := s.do(ctx, func(in *instance) (err error) {
		oldest, err = ageOf(in, t, part)
		return err
	}); err != nil {
		return err
	}
	span := rangeOf(t)
	forgotten, err := s.remove(ctx, span, func(e entry) bool { return e.kind == kindCommitted && e.made <= oldest }, nil)
	s.metrics.forgotten.Add(float64(forgotten))
	if err != nil {
		return err
	}
	s.o.Logger.Warn("the tenant's seen ids filled their budget: the oldest are forgotten", "tenant", t, "ids", forgotten)
	return nil
}

// ageOf is when the youngest of a part of the tenant's ids was committed, the oldest
// part, by a sample.
func ageOf(in *instance, t tenant.ID, part float64) (int64, error) {
	it, err := in.db.NewIter(rangeOf(t))
	if err != nil {
		return 0, err
	}
	var ages []int64
	seen := 0
	for ok := it.First(); ok; ok = it.Next() {
		e, err := parseEntry(it.Value())
		if err != nil || e.kind != kindCommitted {
			continue
		}
		if seen++; len(ages) < sampled {
			ages = append(ages, e.made)
		} else if at := rand.IntN(seen); at < sampled {
			ages[at] = e.made
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil || len(ages) == 0 {
		return 0, err
	}
	slices.Sort(ages)
	return ages[min(len(ages)-1, int(part*float64(len(ages))))], nil
}
