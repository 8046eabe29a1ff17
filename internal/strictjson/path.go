package strictjson

import (
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// Join returns the path of key inside the object at path, spelled as in a
// Fault.
func Join(path, key string) string {
	if !plain(key) {
		return path + "[" + excerpt.Quoted(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Index returns the path of element i of the array at path.
func Index(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

// plain reports whether a key can stand in a path without quotes.
func plain(key string) bool {
	if key == "" || len(key) > excerpt.Longest {
		return false
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`.[]"\`, c) >= 0 {
			return false
		}
	}
	return true
}

// trail is the way from the document to a value. It is spelled when there is
// something to say.
type trail []segment

// segment is one step: a key of an object or of a map, or an index.
type segment struct {
	key   string
	kind  step
	index int
}

type step uint8

const (
	stepKey step = iota
	stepName
	stepIndex
)

// path spells the way as in a Fault.
func (t trail) path() string {
	path := ""
	for _, s := range t {
		if s.kind == stepIndex {
			path = Index(path, s.index)
		} else {
			path = Join(path, s.key)
		}
	}
	return path
}

// place spells the way as in Rules.
func (t trail) place() string {
	var b strings.Builder
	for i, s := range t {
		if i > 0 && s.kind != stepIndex {
			b.WriteByte('.')
		}
		b.WriteString([...]string{stepKey: s.key, stepName: "*", stepIndex: "[]"}[s.kind])
	}
	return b.String()
}

// cutSegment takes one segment, or a path, off the front of a path.
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
