package settings

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Report is the verdict on a settings directory.
type Report struct {
	Shape Shape
	// Tenants holds the snapshot of each tenant that would be served.
	Tenants  map[tenant.ID]*Snapshot
	Findings []Finding
}

// OK reports whether the directory would be adopted: warnings are allowed.
func (r Report) OK() bool { return !HasErrors(r.Findings) }

// Validate judges the directory without adopting anything.
func Validate(dir string) Report {
	c := read(dir)
	snapshot, findings := compile(c, time.Time{})
	r := Report{Shape: c.shape, Tenants: map[tenant.ID]*Snapshot{}, Findings: findings}
	if snapshot != nil {
		r.Tenants[snapshot.Tenant] = snapshot
	}
	return r
}
