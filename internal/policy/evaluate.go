package policy

import (
	"errors"
	"slices"

	"github.com/wavehouse/wavehouse/internal/record"
)

// errUndecided withholds a row.
var errUndecided = errors.New("the row filter cannot be decided outside of ClickHouse: " +
	"the row lacks a column, or has one of another type than the table's")

// outcome is what a condition says of a row. The order is that in which they
// win within an AND.
type outcome uint8

const (
	no outcome = iota
	// undecided: only ClickHouse can tell.
	undecided
	// null: neither true nor false.
	null
	yes
)

// Visible reports whether the caller may see a row of a chunk. It says what
// ClickHouse would of the stored row, or fails when that cannot be known here.
func (b *BoundSelect) Visible(layout *record.Layout, row []byte) (bool, error) {
	switch {
	case b.fault != nil:
		return false, b.fault
	case b.predicate == nil:
		return !b.none, nil
	}
	p := b.plan.Load()
	if p == nil || p.layout != layout {
		p = newPlan(b.predicate, layout)
		b.plan.Store(p)
	}
	switch p.decide(row) {
	case yes:
		return true, nil
	case undecided:
		return false, errUndecided
	}
	return false, nil
}

// plan is a predicate compiled for the rows of one layout.
type plan struct {
	layout *record.Layout
	root   node
	// fields is how many fields of a row must be found.
	fields int
}

type node struct {
	*Predicate
	args []node
	// field is the column's place in a row, -1 when the rows lack it.
	field int
	codec record.Codec
	// foreign: the rows have the column with another type than the table.
	foreign bool
}

func newPlan(p *Predicate, layout *record.Layout) *plan {
	compiled := &plan{layout: layout}
	compiled.root = compiled.node(p)
	return compiled
}

func (p *plan) node(predicate *Predicate) node {
	n := node{Predicate: predicate, field: -1}
	switch predicate.Op {
	case OpAnd, OpOr, OpNot:
		for i := range predicate.Args {
			n.args = append(n.args, p.node(&predicate.Args[i]))
		}
		return n
	}
	n.field = slices.Index(p.layout.Names(), predicate.Column)
	if n.field >= 0 {
		n.codec = p.layout.Codecs()[n.field]
		n.foreign = predicate.opaque || p.layout.Types()[n.field] != predicate.Type
		p.fields = max(p.fields, n.field+1)
	}
	return n
}

func (p *plan) decide(row []byte) outcome {
	var few [32][]byte
	fields := few[:0]
	for _, codec := range p.layout.Codecs()[:p.fields] {
		length, err := codec.Skip(row)
		if err != nil {
			return undecided
		}
		fields, row = append(fields, row[:length]), row[length:]
	}
	return p.root.decide(fields)
}

func (n *node) decide(fields [][]byte) outcome {
	switch n.Op {
	case OpAnd:
		result := yes
		for i := range n.args {
			if result = min(result, n.args[i].decide(fields)); result == no {
				break
			}
		}
		return result
	case OpOr:
		// An OR is the negation of the AND of negations.
		result := yes
		for i := range n.args {
			if result = min(result, negate(n.args[i].decide(fields))); result == no {
				break
			}
		}
		return negate(result)
	case OpNot:
		return negate(n.args[0].decide(fields))
	}
	switch {
	case n.field < 0:
		return n.absent
	case n.foreign:
		return undecided
	}
	return n.holds(n.codec, fields[n.field])
}

func negate(o outcome) outcome {
	switch o {
	case no:
		return yes
	case yes:
		return no
	}
	return o
}

func truth(b bool) outcome {
	if b {
		return yes
	}
	return no
}

// holds evaluates a condition on one encoded value.
func (p *Predicate) holds(codec record.Codec, value []byte) outcome {
	isNull := codec.IsNull(value)
	switch {
	case p.Op == OpIsNull:
		return truth(isNull)
	case p.Op == OpIsNotNull:
		return truth(!isNull)
	case isNull:
		return null
	case p.Op == OpLike:
		text, ok := record.TextOf(codec, value)
		if !ok {
			return undecided
		}
		return truth(p.pattern.match(text))
	case p.Op == OpIn:
		return p.among(codec, value)
	case p.Op == OpNin:
		return negate(p.among(codec, value))
	}
	cmp, ok := p.compare(codec, value, 0)
	if !ok {
		return null
	}
	return truth(p.compares(cmp))
}

// compare orders a value and one of those it is compared with.
func (p *Predicate) compare(codec record.Codec, value []byte, i int) (cmp int, ok bool) {
	cmp, ok = codec.Compare(value, p.encoded[i])
	if cmp == 0 && p.between[i] {
		cmp = -1
	}
	return cmp, ok
}

// among reports whether a value is one of the list.
func (p *Predicate) among(codec record.Codec, value []byte) outcome {
	for i := range p.encoded {
		cmp, ok := p.compare(codec, value, i)
		if !ok {
			return null
		}
		if cmp == 0 {
			return yes
		}
	}
	return no
}

func (p *Predicate) compares(cmp int) bool {
	switch p.Op {
	case OpEq:
		return cmp == 0
	case OpNeq:
		return cmp != 0
	case OpGt:
		return cmp > 0
	case OpGte:
		return cmp >= 0
	case OpLt:
		return cmp < 0
	case OpLte:
		return cmp <= 0
	}
	return false
}
