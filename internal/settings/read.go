package settings

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/tenant"
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

// Bounds of what is read.
const (
	maxFileSize = 1 << 20
	maxEntries  = 10_000 // of the directory
	maxListed   = 100    // unexpected entries that get a finding each
)

// readAttempts is how often a directory that changes under the reader is read
// again before it is left to the next change.
const readAttempts = 5

// content is what stood in a settings directory at one moment.
type content struct {
	shape Shape
	// files holds the four files by name; one that cannot be read is missing
	// here and has a finding.
	files    map[string][]byte
	findings []Finding
	stamp    string
}

// read reads the directory so that all files are of one moment: a directory
// whose links are swapped between two files is read again.
func read(dir string) content {
	var c content
	for range readAttempts {
		before := stamp(dir)
		c = readOnce(dir)
		c.stamp = stamp(dir)
		if c.stamp == before {
			return c
		}
	}
	c.fault("", "the files kept changing while they were read")
	return c
}

func readOnce(dir string) content {
	c := content{files: map[string][]byte{}}
	entries, err := list(dir)
	if err != nil {
		c.fault("", err.Error())
		return c
	}
	c.shape = shapeOf(entries)
	c.unexpected(entries)
	if c.shape == ShapeNested {
		c.fault("", "nested settings directories (one folder per tenant) are not served by this version")
		return c
	}
	for _, name := range fileNames() {
		data, err := readFile(filepath.Join(dir, name))
		if err != nil {
			c.fault(name, err.Error())
			continue
		}
		c.files[name] = data
	}
	return c
}

func (c *content) fault(file, message string) {
	c.findings = append(c.findings, Finding{Severity: SeverityError, File: file, Message: message})
}

// entry is one name in the directory; dir follows links.
type entry struct {
	name string
	dir  bool
}

// list returns the entries whose names do not begin with a dot, sorted.
func list(dir string) ([]entry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, describe(err)
	}
	defer func() { _ = f.Close() }()
	found, err := f.ReadDir(maxEntries)
	switch {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, describe(err)
	case len(found) == maxEntries:
		return nil, fmt.Errorf("there are %d entries or more; this is not a settings directory", maxEntries)
	}
	entries := make([]entry, 0, len(found))
	for _, e := range found {
		if !strings.HasPrefix(e.Name(), ".") {
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			entries = append(entries, entry{e.Name(), err == nil && info.IsDir()})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
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

func (c *content) unexpected(entries []entry) {
	listed := 0
	for _, e := range entries {
		message := c.misplaced(e)
		if message == "" {
			continue
		}
		if listed++; listed > maxListed {
			c.fault("", fmt.Sprintf("there are more than %d unexpected entries; the rest are not shown", maxListed))
			return
		}
		c.fault(e.name, message)
	}
}

// misplaced says what is wrong with an entry's being there, "" for nothing.
func (c *content) misplaced(e entry) string {
	if c.shape == ShapeNested && e.dir {
		if _, err := tenant.Parse(e.name); err != nil {
			return "the folder's name is not a tenant id: " + err.Error()
		}
		return ""
	}
	switch known := slices.Contains(fileNames(), e.name); {
	case known, c.shape == ShapeFlat && isPolicyTest(e):
		return ""
	case e.dir:
		return "a folder beside the four files: a settings directory is flat or nested, never both"
	}
	message := "unexpected entry: only " + strings.Join(fileNames(), ", ") + ", policy tests (*" + PolicyTestSuffix + ") and names that begin with a dot may be here"
	if near, ok := nearest.Name(e.name, fileNames()); ok {
		message += fmt.Sprintf("; did you mean %s?", near)
	}
	return message
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("the file is missing; {} is an empty one")
	case err != nil:
		return nil, describe(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("want a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, describe(err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	switch {
	case err != nil:
		return nil, describe(err)
	case len(data) > maxFileSize:
		return nil, fmt.Errorf("the file is larger than %d bytes", maxFileSize)
	}
	return data, nil
}

// describe drops the path from a file system error: the finding names the file.
func describe(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return fmt.Errorf("cannot be read: %w", pathError.Err)
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// stamp changes whenever the directory or one of the four files is replaced or
// written, without reading them.
func stamp(dir string) string {
	var b strings.Builder
	real, err := filepath.EvalSymlinks(dir)
	fmt.Fprintln(&b, real, err)
	if info, err := os.Stat(dir); err == nil {
		fmt.Fprintln(&b, info.ModTime().UnixNano())
	}
	for _, name := range fileNames() {
		path := filepath.Join(dir, name)
		real, _ := filepath.EvalSymlinks(path)
		info, err := os.Stat(path)
		if err != nil {
			fmt.Fprintln(&b, name, "absent")
			continue
		}
		fmt.Fprintln(&b, real, info.Size(), info.ModTime().UnixNano(), info.Mode())
	}
	return b.String()
}

// outcome tells contents apart that could be judged differently.
func (c *content) outcome() string {
	h := sha256.New()
	_, _ = io.WriteString(h, c.generation())
	for _, f := range c.findings {
		_, _ = io.WriteString(h, f.String()+"\n")
	}
	return string(h.Sum(nil))
}

// generation is the hash of the four files, the same wherever they are.
func (c *content) generation() string {
	h := sha256.New()
	for _, name := range fileNames() {
		data, ok := c.files[name]
		_, _ = fmt.Fprintf(h, "%s %t ", name, ok)
		_ = binary.Write(h, binary.BigEndian, int64(len(data)))
		_, _ = h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
