package strictjson

import (
	"bytes"
	"sort"
	"strings"
)

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

func (k kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// node is one value of a document. data[start:end] is its text.
type node struct {
	kind       kind
	start, end int
	text       string // strings: unescaped; numbers: as written
	truth      bool
	fields     []field
	items      []*node
}

type field struct {
	key   string
	start int
	value *node
}

// find returns the first field of that name.
func (n *node) find(key string) (*node, bool) {
	for i := range n.fields {
		if n.fields[i].key == key {
			return n.fields[i].value, true
		}
	}
	return nil, false
}

// lines turns offsets into line numbers.
type lines struct{ ends []int }

func newLines(data []byte) lines {
	var l lines
	for i := 0; ; {
		n := bytes.IndexByte(data[i:], '\n')
		if n < 0 {
			return l
		}
		i += n + 1
		l.ends = append(l.ends, i)
	}
}

// at returns the 1-based line of an offset.
func (l lines) at(offset int) int {
	return 1 + sort.SearchInts(l.ends, offset+1)
}

// descend walks from n along path as far as the document goes and returns the
// last value reached, the offset at which a reader should look for it, and
// whether the whole path was walked.
func (n *node) descend(path string) (last *node, offset int, all bool) {
	last, offset = n, n.start
	for path != "" {
		next, at, rest, ok := last.step(path)
		if !ok {
			return last, offset, false
		}
		last, offset, path = next, at, rest
	}
	return last, offset, true
}

// step takes the first segment off path.
func (n *node) step(path string) (next *node, offset int, rest string, ok bool) {
	for i := range n.fields {
		f := &n.fields[i]
		if rest, ok := cutSegment(path, Join("", f.key)); ok {
			return f.value, f.start, rest, true
		}
	}
	for i, item := range n.items {
		if rest, ok := cutSegment(path, Index("", i)); ok {
			return item, item.start, rest, true
		}
	}
	return nil, 0, "", false
}

func cutSegment(path, segment string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, segment)
	switch {
	case !ok:
		return "", false
	case rest == "", rest[0] == '[':
		return rest, true
	case rest[0] == '.':
		return rest[1:], true
	}
	return "", false
}
