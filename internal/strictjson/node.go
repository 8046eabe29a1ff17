package strictjson

import (
	"bytes"
	"encoding/json"
	"sort"
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
	text       string // strings: unescaped; others: as written
	fields     []field
	items      []*node
}

type field struct {
	key   string
	start int
	value *node
}

// plain turns a tree into maps, slices, strings, booleans, nil and json.Number.
func (n *node) plain() any {
	switch n.kind {
	case kindObject:
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.key] = f.value.plain()
		}
		return m
	case kindArray:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.plain()
		}
		return list
	case kindString:
		return n.text
	case kindNumber:
		return json.Number(n.text)
	case kindBool:
		return n.text == "true"
	}
	return nil
}

// descend walks from n along path as far as the document goes. It returns the
// offset at which a reader should look for the last value reached, and whether
// the whole path was walked.
func (n *node) descend(path string) (offset int, all bool) {
	for offset = n.start; path != ""; {
		next, at, rest := n.step(path)
		if next == nil {
			return offset, false
		}
		n, offset, path = next, at, rest
	}
	return offset, true
}

// step takes the first segment off path; next is nil when there is no such
// value.
func (n *node) step(path string) (next *node, offset int, rest string) {
	for _, f := range n.fields {
		if rest, ok := cutSegment(path, Join("", f.key)); ok {
			return f.value, f.start, rest
		}
	}
	for i, item := range n.items {
		if rest, ok := cutSegment(path, Index("", i)); ok {
			return item, item.start, rest
		}
	}
	return nil, 0, ""
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
