package ledger

import "slices"

// Span is the sequences Lo to Hi, both included.
type Span struct{ Lo, Hi uint64 }

// Spans is a set of sequences: sorted, disjoint, never adjacent.
type Spans []Span

// add puts s into the set.
func (r Spans) add(s Span) Spans {
	from, _ := slices.BinarySearchFunc(r, s.Lo, func(e Span, lo uint64) int {
		if e.Hi+1 < lo {
			return -1
		}
		return 1
	})
	to := from
	for to < len(r) && r[to].Lo <= s.Hi+1 {
		s.Lo, s.Hi = min(s.Lo, r[to].Lo), max(s.Hi, r[to].Hi)
		to++
	}
	return slices.Replace(r, from, to, s)
}

// Find returns the span that holds seq.
func (r Spans) Find(seq uint64) (Span, bool) {
	i, _ := slices.BinarySearchFunc(r, seq, func(e Span, seq uint64) int {
		if e.Hi < seq {
			return -1
		}
		return 1
	})
	if i < len(r) && r[i].Lo <= seq {
		return r[i], true
	}
	return Span{}, false
}

// Count is how many sequences the set holds.
func (r Spans) Count() (n uint64) {
	for _, s := range r {
		n += s.Hi - s.Lo + 1
	}
	return n
}

// advance takes from the set what follows floor without a hole, and returns
// the new floor.
func (r Spans) advance(floor uint64) (Spans, uint64) {
	n := 0
	for n < len(r) && r[n].Lo <= floor+1 {
		floor = max(floor, r[n].Hi)
		n++
	}
	return slices.Delete(r, 0, n), floor
}

// Merged turns sequences into spans; it sorts seqs.
func Merged(seqs []uint64) []Span {
	slices.Sort(seqs)
	var out []Span
	for _, seq := range seqs {
		if n := len(out); n > 0 && seq <= out[n-1].Hi+1 {
			out[n-1].Hi = seq
			continue
		}
		out = append(out, Span{seq, seq})
	}
	return out
}
