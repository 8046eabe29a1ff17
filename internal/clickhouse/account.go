package clickhouse

import "github.com/wavehouse/wavehouse/internal/tenant"

// account is the sum of the connections of a plan's pools, kept up to date as tenants
// move: counting anew for each of them would take as long as there are tenants.
type account struct {
	// asks holds for each pool how many of its tenants ask for a size.
	asks map[coreKey]map[int]int
	sum  int
}

func newAccount(plan map[tenant.ID]entry) *account {
	a := &account{asks: make(map[coreKey]map[int]int, len(plan))}
	for _, e := range plan {
		a.count(e, 1)
	}
	return a
}

// count adds n times what e asks; n is 1 or -1.
func (a *account) count(e entry, n int) {
	asks := a.asks[e.key]
	if asks == nil {
		asks = map[int]int{}
		a.asks[e.key] = asks
	}
	before := connections(largest(asks))
	if asks[e.config.MaxOpenConns] += n; asks[e.config.MaxOpenConns] == 0 {
		delete(asks, e.config.MaxOpenConns)
	}
	a.sum += connections(largest(asks)) - before
}

func largest(asks map[int]int) int {
	most := 0
	for size := range asks {
		most = max(most, size)
	}
	return most
}
