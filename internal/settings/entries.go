package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Shape is how a settings directory is laid out.
type Shape string

// Shapes of a settings directory. ShapeUnknown is a directory that cannot be
// read.
const (
	ShapeUnknown Shape = ""
	ShapeFlat    Shape = "flat"
	ShapeNested  Shape = "nested"
)

// Bounds of what is listed.
const (
	maxFolders = 100_000 // entries of a settings directory
	maxEntries = 10_000  // entries of a tenant's folder
	maxListed  = 100     // entries that are out of place and get a finding each
)

// entry is one name in a directory.
type entry struct {
	name string
	dir  bool  // a folder; links are followed
	err  error // what it is cannot be told
}

// list returns the entries whose names do not begin with a dot, sorted. An
// entry that goes away meanwhile is left out.
func list(dir string, limit int) ([]entry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, describe(err)
	}
	defer func() { _ = f.Close() }()
	found, err := f.ReadDir(limit)
	switch {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, describe(err)
	case len(found) == limit:
		return nil, fmt.Errorf("there are %d entries or more; this is not a settings directory", limit)
	}
	entries := make([]entry, 0, len(found))
	for _, e := range found {
		path := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || !exists(path) {
			continue
		}
		known := entry{name: e.Name()}
		switch info, err := os.Stat(path); {
		case err == nil:
			known.dir = info.IsDir()
		case errors.Is(err, fs.ErrNotExist):
			known.err = errors.New("cannot be read: the link leads nowhere")
		default:
			known.err = describe(err)
		}
		entries = append(entries, known)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}

// exists reports whether there is something under the name, be it a link that
// leads nowhere.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// shapeOf calls a directory nested when it has folders and none of the four
// files. An empty one is a flat one that misses its files.
func shapeOf(entries []entry) Shape {
	folders := false
	for _, e := range entries {
		if slices.Contains(fileNames(), e.name) {
			return ShapeFlat
		}
		folders = folders || e.dir
	}
	if folders {
		return ShapeNested
	}
	return ShapeFlat
}

// printable returns a name from the file system as it can stand in a line of
// text.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted[1:len(quoted)-1] != name {
		return quoted
	}
	return name
}

// about judges entries one by one and returns a finding for each that there is
// something to say about, up to a bound.
func about(entries []entry, judge func(entry) string) []Finding {
	var found []Finding
	for _, e := range entries {
		message := judge(e)
		switch {
		case message == "":
		case len(found) < maxListed:
			found = append(found, Finding{Severity: SeverityError, File: printable(e.name), Message: message})
		case len(found) == maxListed:
			found = append(found, Finding{Severity: SeverityError, Message: fmt.Sprintf("there are more than %d unexpected entries; the rest are not shown", maxListed)})
		}
	}
	return found
}
