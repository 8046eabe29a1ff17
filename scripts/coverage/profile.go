package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
)

// tally counts statements.
type tally struct{ covered, total int }

func (t tally) percent() float64 {
	if t.total == 0 {
		return 100
	}
	return 100 * float64(t.covered) / float64(t.total)
}

// block is one line of a profile, less its count.
type block struct {
	file, span string
	statements int
}

// profile says of each block whether anything covered it. A block that several
// test binaries report, as with -coverpkg, is there once.
type profile map[block]bool

func (p profile) addFile(name string, excluded func(file string) bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := p.add(f, excluded); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (p profile) add(r io.Reader, excluded func(file string) bool) error {
	lines := bufio.NewScanner(r)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "mode: ") {
		return errors.Join(errors.New("not a cover profile: its first line is not a mode"), lines.Err())
	}
	for n := 2; lines.Scan(); n++ {
		if strings.HasPrefix(lines.Text(), "mode: ") { // profiles laid one after another
			continue
		}
		b, hit, err := parseBlock(lines.Text())
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if !excluded(b.file) {
			p[b] = p[b] || hit
		}
	}
	return lines.Err()
}

// parseBlock reads "file.go:1.2,3.4 statements count".
func parseBlock(line string) (b block, hit bool, err error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return block{}, false, fmt.Errorf("%q: want a position and two counts", line)
	}
	colon := strings.LastIndexByte(fields[0], ':')
	if colon < 0 {
		return block{}, false, fmt.Errorf("%q: no file name", line)
	}
	statements, err := strconv.Atoi(fields[1])
	if err != nil {
		return block{}, false, fmt.Errorf("%q: statements: %w", line, err)
	}
	count, err := strconv.ParseUint(fields[2], 10, 64)
	if err != nil {
		return block{}, false, fmt.Errorf("%q: count: %w", line, err)
	}
	return block{fields[0][:colon], fields[0][colon+1:], statements}, count > 0, nil
}

// packages adds the blocks up per package.
func (p profile) packages() map[string]tally {
	packages := map[string]tally{}
	for b, hit := range p {
		name := path.Dir(b.file)
		t := packages[name]
		t.total += b.statements
		if hit {
			t.covered += b.statements
		}
		packages[name] = t
	}
	return packages
}
