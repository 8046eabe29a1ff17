package settings

import (
	"crypto/sha256"
	"maps"
	"sync"

	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// shared is what files were compiled to, by their content, so that tenants with
// equal files hold it once. It is as large as what the tenants hold, and what the
// last reading found. A nil one shares nothing.
type shared struct {
	configs  shelf[Config]
	policies shelf[policy.Policy]
	pipes    shelf[pipes.Set]
}

// shelf has one kind of it.
type shelf[T any] struct {
	mu   sync.Mutex
	held map[[sha256.Size]byte]*T
}

// apply makes a snapshot of the files share what an equal one has.
func (s *shared) apply(of *Snapshot, c content) {
	if s == nil {
		return
	}
	of.Config = s.configs.of(c, of.Config, fileConfig)
	of.Policy = s.policies.of(c, of.Policy, filePolicies, fileRoles)
	of.Pipes = s.pipes.of(c, of.Pipes, filePipes, fileRoles)
}

// keep forgets what none of the tenants holds.
func (s *shared) keep(held map[tenant.ID]state) {
	if s == nil {
		return
	}
	configs, policies, sets := map[*Config]bool{}, map[*policy.Policy]bool{}, map[*pipes.Set]bool{}
	for _, of := range held {
		if snapshot := of.alone().snapshot; snapshot != nil {
			configs[snapshot.Config], policies[snapshot.Policy], sets[snapshot.Pipes] = true, true, true
		}
	}
	s.configs.keep(configs)
	s.policies.keep(policies)
	s.pipes.keep(sets)
}

// of returns what is held of the named files, or from now on made.
func (s *shelf[T]) of(c content, made *T, names ...string) *T {
	sum := c.sum(names)
	s.mu.Lock()
	defer s.mu.Unlock()
	if held, ok := s.held[sum]; ok {
		return held
	}
	if s.held == nil {
		s.held = map[[sha256.Size]byte]*T{}
	}
	s.held[sum] = made
	return made
}

func (s *shelf[T]) keep(used map[*T]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.held, func(_ [sha256.Size]byte, held *T) bool { return !used[held] })
}
