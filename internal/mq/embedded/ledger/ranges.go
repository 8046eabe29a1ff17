package ledger

import (
	"cmp"
	"slices"
)

// Range is the sequences Lo to Hi, both included.
type Range struct{ Lo, Hi uint64 }

// Ranges is a set of sequences: sorted, disjoint, never adjacent.
type Ranges []Range

// Add returns the set with s; r is not to be used any more.
func (r Ranges) Add(s Range) Ranges {
	from, _ := slices.BinarySearchFunc(r, s.Lo, func(e Range, lo uint64) int {
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

// Find returns the range that holds seq.
func (r Ranges) Find(seq uint64) (Range, bool) {
	i, _ := slices.BinarySearchFunc(r, seq, func(e Range, seq uint64) int {
		if e.Hi < seq {
			return -1
		}
		return 1
	})
	if i < len(r) && r[i].Lo <= seq {
		return r[i], true
	}
	return Range{}, false
}

// Count is how many sequences the set holds.
func (r Ranges) Count() (n uint64) {
	for _, s := range r {
		n += s.Hi - s.Lo + 1
	}
	return n
}

// Highest is the newest sequence of the set, 0 when it is empty.
func (r Ranges) Highest() uint64 {
	if len(r) == 0 {
		return 0
	}
	return r[len(r)-1].Hi
}

// From drops what is below seq.
func (r Ranges) From(seq uint64) Ranges {
	n := 0
	for n < len(r) && r[n].Hi < seq {
		n++
	}
	return slices.Delete(r, 0, n)
}

// Without calls do with what of s is not in the set, in order, until it
// returns false.
func (r Ranges) Without(s Range, do func(Range) bool) {
	from, _ := slices.BinarySearchFunc(r, s.Lo, func(e Range, lo uint64) int { return cmp.Compare(e.Hi, lo) })
	for ; s.Lo <= s.Hi; from++ {
		gap := s
		if from < len(r) {
			gap.Hi = min(s.Hi, r[from].Lo-1)
		}
		if gap.Lo <= gap.Hi && !do(gap) || from >= len(r) {
			return
		}
		s.Lo = r[from].Hi + 1
	}
}

// advance takes from the set what follows floor without a hole, and returns
// the new floor. A set may be long, and its start goes often: nothing is moved.
func (r Ranges) advance(floor uint64) (Ranges, uint64) {
	n := 0
	for n < len(r) && r[n].Lo <= floor+1 {
		floor = max(floor, r[n].Hi)
		n++
	}
	return r[n:], floor
}

// Merged turns sequences into ranges; it sorts seqs.
func Merged(seqs []uint64) []Range {
	slices.Sort(seqs)
	var out []Range
	for _, seq := range seqs {
		if n := len(out); n > 0 && seq <= out[n-1].Hi+1 {
			out[n-1].Hi = seq
			continue
		}
		out = append(out, Range{seq, seq})
	}
	return out
}

// Minus returns what of the set is not in other.
func (r Ranges) Minus(other Ranges) (out Ranges) {
	for _, s := range r {
		other.Without(s, func(e Range) bool { out = append(out, e); return true })
	}
	return out
}
