package settings

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// readers is how many folders are read and compiled at once; each holds at most
// four files of maxFileSize.
const readers = 8

// directory reads a settings directory.
type directory struct {
	path string
	// shape is that of a running server, which holds whatever the directory
	// looks like; ShapeUnknown takes what is there.
	shape Shape
	// foldCase: tenants whose names differ only by case cannot be kept apart.
	foldCase bool
	// documents: the snapshots keep policies.json as it was written.
	documents bool
	shared    *shared
}

// state is what is held of one tenant.
type state struct {
	snapshot *Snapshot // nil is a rejected tenant
	// findings are those that reject it, or the warnings of a served one.
	findings []Finding
	outcome  string // of the content that was judged
	// itself is the state of a tenant that is rejected for what others are.
	itself *state
}

// alone is the state without regard to other tenants.
func (s state) alone() state {
	if s.itself != nil {
		return *s.itself
	}
	return s
}

// reading is what one reading of the directory found.
type reading struct {
	shape Shape
	// tenants are those that the directory holds, sorted.
	tenants []tenant.ID
	// faults are about the root of a nested directory: while there is one,
	// nothing of it is adopted. A flat directory's faults are its tenant's.
	faults []Finding
	// skipped are about folders that can be no tenant's. They cost nobody else.
	skipped []Finding
	states  map[tenant.ID]state
	stamp   string // of a flat directory
}

// findings returns all of them, in the order of the tenants.
func (r reading) findings() []Finding {
	found := slices.Concat(r.faults, r.skipped)
	for _, id := range slices.Sorted(maps.Keys(r.states)) {
		found = append(found, r.states[id].findings...)
	}
	return found
}

// servedOf counts the tenants that have a snapshot.
func servedOf(states map[tenant.ID]state) int {
	n := 0
	for _, s := range states {
		if s.snapshot != nil {
			n++
		}
	}
	return n
}

// read reads the whole directory. What is unchanged since held keeps its state,
// snapshot included. A nested directory that is swapped meanwhile is read again.
func (d directory) read(held map[tenant.ID]state) reading {
	for range readAttempts {
		before := identity(d.path)
		r := d.root()
		if r.shape != ShapeNested {
			return d.flat(held[tenant.Default])
		}
		d.folders(&r, held)
		if identity(d.path) == before {
			return r
		}
	}
	kept := Finding{Severity: SeverityError, Message: "the directory kept being swapped while it was read"}
	return reading{shape: ShapeNested, faults: []Finding{kept}}
}

// flat reads a directory that holds the four files, the default tenant's.
func (d directory) flat(before state) reading {
	c := read(d.path)
	if d.shape == ShapeFlat && c.shape == ShapeNested {
		c.findings = nil
		c.fault("", "there are only folders now: the directory is nested, and a running server keeps the shape that it started with, which is flat")
	}
	r := reading{shape: c.shape, stamp: c.stamp, states: map[tenant.ID]state{tenant.Default: d.judge(tenant.Default, c, before, false)}}
	if c.shape != ShapeUnknown {
		r.tenants = []tenant.ID{tenant.Default}
	}
	return r
}

// root looks at what stands at the top of the directory.
func (d directory) root() reading {
	r := reading{shape: d.shape, states: map[tenant.ID]state{}}
	entries, err := list(d.path, maxFolders)
	if err != nil {
		r.faults = []Finding{{Severity: SeverityError, Message: printable(d.path) + " " + err.Error()}}
		return r
	}
	if r.shape == ShapeUnknown {
		r.shape = shapeOf(entries)
	}
	if r.shape != ShapeNested {
		return r
	}
	r.faults = about(entries, misplacedInRoot)
	entries = slices.DeleteFunc(entries, func(e entry) bool { return misplacedInRoot(e) != "" })
	r.skipped = about(entries, func(e entry) string {
		id, err := tenant.Parse(e.name)
		if err != nil {
			return "the folder's name is not a tenant id and it is skipped: " + err.Error()
		}
		r.tenants = append(r.tenants, id)
		return ""
	})
	return r
}

// misplacedInRoot says what is wrong with an entry of a nested directory, ""
// for nothing.
func misplacedInRoot(e entry) string {
	switch {
	case e.err != nil:
		return e.err.Error()
	case slices.Contains(fileNames(), e.name):
		return "one of the four files beside the tenants' folders: a settings directory is flat or nested, never both, and a running server keeps the shape that it started with"
	case !e.dir:
		return "unexpected entry: a nested settings directory holds one folder for each tenant, and names that begin with a dot"
	}
	return ""
}

// folders judges every tenant's folder. One that is gone by now is no tenant.
func (d directory) folders(r *reading, held map[tenant.ID]state) {
	twins := caseTwins(r.tenants)
	judged := make([]state, len(r.tenants))
	present := make([]bool, len(r.tenants))
	var group errgroup.Group
	group.SetLimit(readers)
	for i, id := range r.tenants {
		group.Go(func() error {
			judged[i], present[i] = d.folder(id, twins[id], held[id])
			return nil
		})
	}
	_ = group.Wait() // no reader returns an error
	var there []tenant.ID
	for i, id := range r.tenants {
		if present[i] {
			r.states[id] = judged[i]
			there = append(there, id)
		}
	}
	r.tenants = there
}

// folder judges one tenant's folder, and reports whether it is there. before is
// what was held of the tenant; it is returned when the content is the same.
func (d directory) folder(id, twin tenant.ID, before state) (now state, present bool) {
	c := read(TenantDir(d.path, ShapeNested, id))
	switch {
	case c.absent:
		c.findings = nil
		c.fault("", "the folder is gone; a reload of the whole directory forgets the tenant")
	case twin != "" && d.foldCase:
		c.fault("", fmt.Sprintf("the name differs from %s only by case, and the file system of data_dir does not tell them apart; rename one of them", twin))
	case twin != "":
		c.findings = append(c.findings, Finding{Severity: SeverityWarning, Message: fmt.Sprintf("the name differs from %s only by case: they are two tenants", twin)})
	}
	return d.judge(id, c, before, true), !c.absent
}

// judge compiles what was read, unless it is what was judged before.
func (d directory) judge(id tenant.ID, c content, before state, nested bool) state {
	now := state{outcome: c.outcome()}
	before = before.alone()
	if before.outcome == now.outcome {
		return before
	}
	now.snapshot, now.findings = compile(id, c)
	if nested {
		lead(now.findings, id)
	}
	if now.snapshot != nil && !d.documents {
		now.snapshot.document = nil
	}
	if now.snapshot != nil {
		d.shared.apply(now.snapshot, c)
	}
	return now
}

// lead puts the tenant's folder in front of the findings' files.
func lead(findings []Finding, id tenant.ID) {
	for i := range findings {
		findings[i].File = strings.TrimSuffix(id.String()+"/"+findings[i].File, "/")
	}
}

// TenantDir returns where the tenant's four files are in a settings directory
// of the shape.
func TenantDir(dir string, shape Shape, id tenant.ID) string {
	if shape == ShapeNested {
		return filepath.Join(dir, id.String())
	}
	return dir
}

// identity changes when the directory as a whole is swapped for another: the
// directory is a link, or its entries stand behind the link "..data". Folders
// that come and go do not change it.
func identity(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	data, _ := os.Readlink(filepath.Join(dir, "..data"))
	return fmt.Sprintln(real, err != nil, data)
}

// caseTwins maps the tenants whose names differ only by case to another of
// them. They are two tenants, but a file system that ignores case would keep
// what belongs to both under one name.
func caseTwins(ids []tenant.ID) map[tenant.ID]tenant.ID {
	first := make(map[string]tenant.ID, len(ids))
	twins := map[tenant.ID]tenant.ID{}
	for _, id := range ids {
		folded := strings.ToLower(id.String())
		if other, taken := first[folded]; taken {
			twins[id], twins[other] = other, id
		} else {
			first[folded] = id
		}
	}
	return twins
}
