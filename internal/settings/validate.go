package settings

import (
	"maps"
	"slices"

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
	return report(validator(dir).read(nil))
}

// TellApart adds to the report what Apart finds in a nested directory.
func (r *Report) TellApart(key TokenKey) {
	if r.Shape != ShapeNested {
		return
	}
	found := Apart(r.Tenants, key)
	for _, id := range slices.Sorted(maps.Keys(found)) {
		r.Findings = append(r.Findings, r.Lead(id, []Finding{found[id]})...)
	}
}

// ValidateTenant judges one tenant of the directory and reads no other's
// folder. Its tenant is the only one in Tenants; Known has all of them.
func ValidateTenant(dir string, id tenant.ID) Report {
	d := validator(dir)
	found := d.root()
	switch known := slices.Contains(found.tenants, id); {
	case found.shape != ShapeNested:
		found = d.read(nil)
	case known:
		found.states[id], _ = d.folder(id, caseTwins(found.tenants)[id], state{})
	}
	found.skipped = nil
	r := report(found)
	if r.Shape != ShapeUnknown && !slices.Contains(r.Known, id) {
		r.Tenants = nil
		r.Findings = append(r.Findings, Finding{Severity: SeverityError, Message: "it holds no tenant " + id.String()})
	}
	return r
}

func validator(dir string) directory {
	return directory{path: dir, documents: true}
}

func report(found reading) Report {
	return Report{Shape: found.shape, Known: found.tenants, Tenants: snapshots(found.states), Findings: append([]Finding{}, found.findings()...)}
}

// snapshots returns the snapshot of each tenant that has one.
func snapshots(states map[tenant.ID]state) map[tenant.ID]*Snapshot {
	served := map[tenant.ID]*Snapshot{}
	for id, s := range states {
		if s.snapshot != nil {
			served[id] = s.snapshot
		}
	}
	return served
}
