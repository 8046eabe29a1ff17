// Package strictjson reads small JSON documents, such as settings files and
// query documents, strictly: an unknown key, a repeated key, a byte order mark,
// a null where none is meant and trailing data are faults. Every fault of a
// document is reported at once, with its JSON path and line.
package strictjson

import (
	"fmt"
	"strings"
)

// MaxDepth is the deepest nesting of arrays and objects that is read.
const MaxDepth = 64

// maxFaults bounds the report on one document.
const maxFaults = 100

// Fault is one thing that is wrong with a document.
type Fault struct {
	// Path names the value, like tables.events.viewer.select or pipes[0].name;
	// "" is the document itself.
	Path string
	// Line is 1-based; 0 when the fault has no place.
	Line int
	// Message is a sentence without its final stop.
	Message string

	// holder is the path of the object or list that the value is in.
	holder string
}

func (f Fault) String() string {
	place := f.Path
	if f.Line > 0 {
		place = strings.TrimSpace(fmt.Sprintf("line %d %s", f.Line, f.Path))
	}
	if place == "" {
		return f.Message
	}
	return place + ": " + f.Message
}

// Explains reports whether what is found at path may only follow from a fault
// that Decode returned: it is about the value, about something in it, or about
// what the value is in.
func (f Fault) Explains(path string) bool {
	if path == f.holder || f.Path == "" {
		return true
	}
	_, within := cutSegment(path, f.Path)
	return within
}

// faults collects, up to a bound.
type faults struct {
	list []Fault
	more bool
}

func (f *faults) add(x Fault) {
	switch {
	case len(f.list) < maxFaults:
		f.list = append(f.list, x)
	case !f.more:
		f.more = true
		f.list = append(f.list, Fault{Message: fmt.Sprintf("more than %d faults; the rest are not shown", maxFaults)})
	}
}
