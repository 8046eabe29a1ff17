package settings

import (
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// readers is how many folders are read and compiled at once; each holds at most
// four files of maxFileSize.
const readers = 8

// state is what is held of one tenant.
type state struct {
	snapshot *Snapshot // nil is a rejected tenant
	// findings are those that reject it, or the warnings of a served one.
	findings []Finding
	outcome  string // of the content that was judged
}

// folderReader reads tenants' folders in a nested directory.
type folderReader struct {
	dir string
	now func() time.Time
	// foldCase: tenants whose names differ only by case cannot be kept apart.
	foldCase bool
	// documents: the snapshots keep policies.json as it was written.
	documents bool
}

// all reads every folder of a nested directory. What is unchanged since held
// keeps its state, snapshot included. The directory is read again when it is
// swapped meanwhile.
func (f folderReader) all(held map[tenant.ID]state) (root, map[tenant.ID]state) {
	for range readAttempts {
		before := identity(f.dir)
		top := readRoot(f.dir, ShapeNested)
		states := f.folders(top.folders, held)
		if identity(f.dir) == before {
			return top, states
		}
	}
	kept := Finding{Severity: SeverityError, Message: "the directory kept being swapped while it was read"}
	return root{shape: ShapeNested, faults: []Finding{kept}}, nil
}

func (f folderReader) folders(ids []tenant.ID, held map[tenant.ID]state) map[tenant.ID]state {
	twins := caseTwins(ids)
	judged := make([]state, len(ids))
	present := make([]bool, len(ids))
	var group errgroup.Group
	group.SetLimit(readers)
	for i, id := range ids {
		group.Go(func() error {
			judged[i], present[i] = f.folder(id, twins[id], held[id])
			return nil
		})
	}
	_ = group.Wait() // no reader returns an error
	states := make(map[tenant.ID]state, len(ids))
	for i, id := range ids {
		if present[i] {
			states[id] = judged[i]
		}
	}
	return states
}

// folder judges one tenant's folder, and reports whether it is there. before is
// what was held of the tenant; it is returned when the content is the same.
func (f folderReader) folder(id, twin tenant.ID, before state) (now state, present bool) {
	c := read(filepath.Join(f.dir, id.String()))
	if twin != "" {
		c.findings = append(c.findings, f.twinFinding(twin))
	}
	outcome := c.outcome()
	if before.outcome == outcome {
		return before, !c.absent
	}
	if c.absent {
		c.findings = []Finding{{Severity: SeverityError, Message: "the folder is gone; a reload of the whole directory forgets the tenant"}}
	}
	now.outcome = outcome
	now.snapshot, now.findings = compile(id, c, f.now())
	lead(now.findings, id)
	if now.snapshot != nil && !f.documents {
		now.snapshot.document = nil
	}
	return now, !c.absent
}

func (f folderReader) twinFinding(twin tenant.ID) Finding {
	if f.foldCase {
		return Finding{Severity: SeverityError, Message: "the name differs from " + twin.String() +
			" only by case, and the file system of data_dir does not tell them apart; rename one of them"}
	}
	return Finding{Severity: SeverityWarning, Message: "the name differs from " + twin.String() +
		" only by case: they are two tenants"}
}

// lead puts the tenant's folder in front of the findings' files.
func lead(findings []Finding, id tenant.ID) {
	for i := range findings {
		if findings[i].File == "" {
			findings[i].File = id.String()
			continue
		}
		findings[i].File = id.String() + "/" + findings[i].File
	}
}
