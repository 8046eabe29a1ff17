package embedded

import "sync"

// chunkOverhead is what a delivery costs beside its body, so that many small
// chunks are bounded too.
const chunkOverhead = 512

// allowance shares the bytes that may be out for delivery over the tenants.
// A tenant may hold as much as is still free, so one tenant takes at most
// half, two a third each, and there is always something left for the next;
// whoever holds nothing may always take one chunk.
type allowance struct {
	mu        sync.Mutex
	perTenant int64
	total     int64
	used      int64
	waiting   map[*source]struct{}
}

func newAllowance(perTenant, total int64) *allowance {
	if perTenant <= 0 {
		perTenant = defaultTenantPrefetch
	}
	if total <= 0 {
		total = defaultPrefetch
	}
	return &allowance{perTenant: perTenant, total: total, waiting: map[*source]struct{}{}}
}

// room says how many bytes a tenant that holds held may take, at most want; 1
// means a single chunk of any size. With less than want the source is woken
// when there may be more. A read may exceed its room by a part of a chunk.
func (a *allowance) room(s *source, held, want int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	room := min(a.perTenant, a.total-a.used) - held
	if room < want {
		a.waiting[s] = struct{}{}
	}
	if room <= 0 && held == 0 {
		return 1
	}
	return max(0, min(room, want))
}

// take and give account for bytes.
func (a *allowance) take(n int64) {
	a.mu.Lock()
	a.used += n
	a.mu.Unlock()
}

func (a *allowance) give(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used -= n
	for s := range a.waiting {
		s.wakeUp()
	}
	clear(a.waiting)
}
