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
)

// maxFileSize bounds a file, in bytes.
const maxFileSize = 1 << 20

// readAttempts is how often a directory that changes under the reader is read
// again before it is left to the next change.
const readAttempts = 5

// content is what stood at one moment in a folder with the four files: a flat
// settings directory, or a tenant's folder in a nested one.
type content struct {
	// shape is what the folder looks like by itself.
	shape Shape
	// absent: there is no such folder.
	absent bool
	// files holds the four files by name; one that cannot be read is missing
	// here and has a finding.
	files    map[string][]byte
	findings []Finding
	stamp    string
}

// read reads the folder so that all files are of one moment: a folder whose
// links are swapped between two files is read again.
func read(dir string) content {
	var c content
	before := stamp(dir)
	for range readAttempts {
		c = readOnce(dir)
		c.stamp = stamp(dir)
		if c.stamp == before {
			return c
		}
		before = c.stamp
	}
	c.fault("", "the files kept changing while they were read")
	return c
}

func readOnce(dir string) content {
	c := content{files: map[string][]byte{}}
	entries, err := list(dir, maxEntries)
	if err != nil {
		c.absent = errors.Is(err, fs.ErrNotExist) && !exists(dir)
		c.fault("", printable(dir)+" "+err.Error())
		return c
	}
	c.shape = shapeOf(entries)
	c.findings = about(entries, misplaced)
	for _, name := range fileNames() {
		data, err := ReadFile(filepath.Join(dir, name), maxFileSize)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.fault(name, "the file is missing; {} is an empty one")
		case err != nil:
			c.fault(name, err.Error())
		default:
			c.files[name] = data
		}
	}
	return c
}

func (c *content) fault(file, message string) {
	c.findings = append(c.findings, Finding{Severity: SeverityError, File: file, Message: message})
}

// misplaced says what is wrong with an entry's being beside the four files, ""
// for nothing.
func misplaced(e entry) string {
	switch known := slices.Contains(fileNames(), e.name); {
	case known, !e.dir && strings.HasSuffix(e.name, PolicyTestSuffix):
		return ""
	case e.dir:
		return "a folder beside the four files: a settings directory is flat or nested, never both"
	}
	return "unexpected entry: only " + strings.Join(fileNames(), ", ") + ", policy tests (*" + PolicyTestSuffix + ") and names that begin with a dot may be here" + nearest.Hint(e.name, fileNames())
}

// ReadFile reads a regular file of at most limit bytes. The error does not name
// the file: what is made of it does.
func ReadFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
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
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, describe(err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("the file is larger than %d bytes", limit)
	}
	return data, nil
}

// describe drops the path from a file system error: the finding names the file.
func describe(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("cannot be read: %w", pathError.Err)
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// stamp changes whenever the directory or one of the four files is replaced or
// written, without reading them.
func stamp(dir string) string {
	var b strings.Builder
	for _, name := range append([]string{"."}, fileNames()...) {
		path := filepath.Join(dir, name)
		real, _ := filepath.EvalSymlinks(path)
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintln(&b, real, info.Size(), info.ModTime().UnixNano(), info.Mode())
		} else {
			fmt.Fprintln(&b, name, "absent")
		}
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
	sum := c.sum(fileNames())
	return hex.EncodeToString(sum[:8])
}

// sum is the hash of the named files.
func (c *content) sum(names []string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range names {
		data, ok := c.files[name]
		_, _ = fmt.Fprintf(h, "%s %t ", name, ok)
		_ = binary.Write(h, binary.BigEndian, int64(len(data)))
		_, _ = h.Write(data)
	}
	h.Sum(sum[:0])
	return sum
}
