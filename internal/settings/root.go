package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// root is what stood at the top of a settings directory.
type root struct {
	shape Shape
	// folders are those of a nested directory whose names are tenant ids,
	// sorted.
	folders []tenant.ID
	// faults are about the root itself: while there is one, nothing of a nested
	// directory is adopted. A flat directory's faults are found with its files.
	faults []Finding
	// skipped are about folders that can be no tenant's. They cost nobody else.
	skipped []Finding
}

// readRoot lists the directory. keep is the shape of a running server, which
// holds whatever the directory looks like; ShapeUnknown takes what is there.
func readRoot(dir string, keep Shape) root {
	entries, err := list(dir, maxFolders)
	if err != nil {
		return root{shape: keep, faults: []Finding{{Severity: SeverityError, Message: err.Error()}}}
	}
	r := root{shape: keep}
	if keep == ShapeUnknown {
		r.shape = shapeOf(entries)
	}
	if r.shape == ShapeNested {
		r.nested(entries)
	}
	return r
}

func (r *root) nested(entries []entry) {
	var faults, skipped faultList
	for _, e := range entries {
		if message := misplacedInRoot(e); message != "" {
			faults.entry(e.name, message)
			continue
		}
		id, err := tenant.Parse(e.name)
		if err != nil {
			skipped.entry(e.name, "the folder's name is not a tenant id and it is skipped: "+err.Error())
			continue
		}
		r.folders = append(r.folders, id)
	}
	r.faults, r.skipped = faults.findings, skipped.findings
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
		other, taken := first[folded]
		if !taken {
			first[folded] = id
			continue
		}
		twins[id] = other
		if _, known := twins[other]; !known {
			twins[other] = id
		}
	}
	return twins
}
