package embedded

import "slices"

// span is the sequences lo to hi, both included.
type span struct{ lo, hi uint64 }

// spans is a set of sequences: sorted, disjoint, never adjacent.
type spans []span

// add puts s into the set.
func (r spans) add(s span) spans {
	from, _ := slices.BinarySearchFunc(r, s.lo, func(e span, lo uint64) int {
		if e.hi+1 < lo {
			return -1
		}
		return 1
	})
	to := from
	for to < len(r) && r[to].lo <= s.hi+1 {
		s.lo, s.hi = min(s.lo, r[to].lo), max(s.hi, r[to].hi)
		to++
	}
	return slices.Replace(r, from, to, s)
}

// find returns the span that holds seq.
func (r spans) find(seq uint64) (span, bool) {
	i, _ := slices.BinarySearchFunc(r, seq, func(e span, seq uint64) int {
		if e.hi < seq {
			return -1
		}
		return 1
	})
	if i < len(r) && r[i].lo <= seq {
		return r[i], true
	}
	return span{}, false
}

// count is how many sequences the set holds.
func (r spans) count() (n uint64) {
	for _, s := range r {
		n += s.hi - s.lo + 1
	}
	return n
}

// advance takes from the set what follows floor without a hole, and returns
// the new floor.
func (r spans) advance(floor uint64) (spans, uint64) {
	n := 0
	for n < len(r) && r[n].lo <= floor+1 {
		floor = max(floor, r[n].hi)
		n++
	}
	return slices.Delete(r, 0, n), floor
}

// merged turns sequences into spans; it sorts seqs.
func merged(seqs []uint64) []span {
	slices.Sort(seqs)
	var out []span
	for _, seq := range seqs {
		if n := len(out); n > 0 && seq <= out[n-1].hi+1 {
			out[n-1].hi = seq
			continue
		}
		out = append(out, span{seq, seq})
	}
	return out
}
