package settings

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Report is the verdict on a settings directory.
type Report struct {
	Shape Shape
	// Known are the tenants that the directory holds, served or rejected,
	// sorted.
	Known []tenant.ID
	// Tenants holds the snapshot of each tenant that would be served.
	Tenants map[tenant.ID]*Snapshot
	// Findings are led by the folder in a nested directory.
	Findings []Finding
}

// OK reports whether all of the directory would be adopted: warnings are
// allowed.
func (r Report) OK() bool { return !HasErrors(r.Findings) }

// Lead names the tenant's folder in findings about its files, as the report's
// own findings do. It changes findings and returns them.
func (r Report) Lead(id tenant.ID, findings []Finding) []Finding {
	if r.Shape == ShapeNested {
		lead(findings, id)
	}
	return findings
}

// Validate judges the directory without adopting anything.
func Validate(dir string) Report {
	top := readRoot(dir, ShapeUnknown)
	if top.shape != ShapeNested {
		return validateFlat(dir)
	}
	top, states := validator(dir).all(nil)
	r := Report{Shape: ShapeNested, Known: top.folders, Tenants: map[tenant.ID]*Snapshot{}}
	for id, s := range states {
		if s.snapshot != nil {
			r.Tenants[id] = s.snapshot
		}
	}
	r.Findings = slices.Concat(top.faults, top.skipped, findingsOf(states))
	return r
}

// ValidateTenant judges one tenant of the directory and reads no other's
// folder. Its tenant is the only one in Tenants; Known has all of them.
func ValidateTenant(dir string, id tenant.ID) Report {
	top := readRoot(dir, ShapeUnknown)
	r := Report{Shape: top.shape, Known: top.folders, Tenants: map[tenant.ID]*Snapshot{}, Findings: top.faults}
	if top.shape != ShapeNested {
		r = validateFlat(dir)
	}
	if top.shape == ShapeNested && slices.Contains(top.folders, id) {
		s, _ := validator(dir).folder(id, caseTwins(top.folders)[id], state{})
		if s.snapshot != nil {
			r.Tenants[id] = s.snapshot
		}
		r.Findings = slices.Concat(r.Findings, s.findings)
	}
	if top.shape != ShapeUnknown && !slices.Contains(r.Known, id) {
		delete(r.Tenants, tenant.Default)
		r.Findings = append(r.Findings, Finding{Severity: SeverityError, Message: "it holds no tenant " + id.String()})
	}
	return r
}

func validateFlat(dir string) Report {
	c := read(dir)
	snapshot, findings := compile(tenant.Default, c, time.Time{})
	r := Report{Shape: c.shape, Tenants: map[tenant.ID]*Snapshot{}, Findings: findings}
	if c.shape != ShapeUnknown {
		r.Known = []tenant.ID{tenant.Default}
	}
	if snapshot != nil {
		r.Tenants[snapshot.Tenant] = snapshot
	}
	return r
}

func validator(dir string) folderReader {
	return folderReader{dir: dir, now: func() time.Time { return time.Time{} }, documents: true}
}

// TenantDir returns where the tenant's four files are in a settings directory
// of the shape.
func TenantDir(dir string, shape Shape, id tenant.ID) string {
	if shape == ShapeNested {
		return filepath.Join(dir, id.String())
	}
	return dir
}
