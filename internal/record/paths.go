package record

import (
	"bytes"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
)

// typedPath is a step of the paths that a JSON type declares.
type typedPath struct {
	// codec is of a path that ends here, nil for none.
	codec Codec
	steps map[string]*typedPath
}

// typedPaths returns the root of a JSON type's paths. A type that this version
// cannot read leaves its path to ClickHouse.
func (m maker) typedPaths(t coltype.Type) *typedPath {
	root := &typedPath{}
	paths, err := t.JSONPaths()
	if err != nil {
		return root
	}
	for _, p := range paths {
		codec, err := m.codec(p.Type)
		if err != nil {
			codec = &rawCodec{plainCodec: plainCodec{name: label(p.Type)}}
		}
		root.add(p.Path, codec)
	}
	return root
}

func (p *typedPath) add(path string, codec Codec) {
	for step := range strings.SplitSeq(path, ".") {
		if p.steps == nil {
			p.steps = make(map[string]*typedPath)
		}
		if p.steps[step] == nil {
			p.steps[step] = &typedPath{}
		}
		p = p.steps[step]
	}
	p.codec = codec
}

// below returns what is declared at a key and below it, nil for nothing. It is
// not free when the key leads through a path that has a type.
func (p *typedPath) below(key []byte) (at *typedPath, free bool) {
	for p != nil {
		part, rest, more := bytes.Cut(key, []byte{'.'})
		if p = p.steps[string(part)]; !more {
			return p, true
		}
		if p != nil && p.codec != nil {
			return nil, false
		}
		key = rest
	}
	return nil, true
}

// fewSteps is how many steps of a document are looked through one by one.
const fewSteps = 16

// docPaths are the paths that a document has so far, as a tree of steps. Keys of
// a document with a dot are two steps, as ClickHouse has it. It takes no memory
// for small documents, and as many steps as a large one has keys.
type docPaths struct {
	few   [fewSteps]docStep
	n     int
	many  []docStep
	index map[docKey]int32
}

type docKey struct {
	parent int32
	key    string
}

type docStep struct {
	docKey
	// value: a value stands here; parent: steps follow.
	value, followed bool
}

// root is the parent of the first steps.
const root = int32(-1)

func (d *docPaths) at(n int32) *docStep {
	if n < fewSteps {
		return &d.few[n]
	}
	return &d.many[n-fewSteps]
}

// enter returns the step of a key's last part. It is not ok when the document
// has a value on the way there.
func (d *docPaths) enter(parent int32, key []byte) (step int32, ok bool) {
	for {
		part, rest, more := bytes.Cut(key, []byte{'.'})
		step = d.find(docKey{parent, view(part)})
		if !more {
			return step, !d.at(step).value
		}
		if d.at(step).value {
			return step, false
		}
		parent, key = step, rest
	}
}

// put notes a value at a step. It is not ok when the step has steps below it.
func (d *docPaths) put(step int32) (ok bool) {
	s := d.at(step)
	s.value = true
	return !s.followed
}

// find returns the step, which it makes if need be.
func (d *docPaths) find(k docKey) int32 {
	for i := range min(d.n, fewSteps) {
		if d.few[i].docKey == k {
			return int32(i)
		}
	}
	if n, ok := d.index[k]; ok {
		return n
	}
	step := int32(d.n)
	d.n++
	if k.parent != root {
		d.at(k.parent).followed = true
	}
	if step < fewSteps {
		d.few[step] = docStep{docKey: k}
		return step
	}
	if d.index == nil {
		d.index = make(map[docKey]int32)
	}
	d.index[k] = step
	d.many = append(d.many, docStep{docKey: k})
	return step
}
