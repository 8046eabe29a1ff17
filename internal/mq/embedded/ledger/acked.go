package ledger

import "slices"

// Acked is what was acknowledged of a stream.
type Acked struct {
	// Epoch names the stream.
	Epoch uint64
	// Floor is the sequence up to which everything is acknowledged, Above what
	// is besides.
	Floor uint64
	Above Ranges
}

// Done reports whether seq needs no delivery.
func (a *Acked) Done(seq uint64) bool {
	if seq <= a.Floor {
		return true
	}
	_, ok := a.Above.Find(seq)
	return ok
}

// Next is the first sequence from seq on that is not acknowledged, as far as
// one look tells.
func (a *Acked) Next(seq uint64) uint64 {
	seq = max(seq, a.Floor+1)
	if e, ok := a.Above.Find(seq); ok {
		return e.Hi + 1
	}
	return seq
}

// Pending counts the sequences up to last that are not acknowledged.
func (a *Acked) Pending(last uint64) uint64 {
	if last <= a.Floor {
		return 0
	}
	return last - a.Floor - a.Above.Count()
}

// Add marks s acknowledged.
func (a *Acked) Add(s Range) {
	a.Above, a.Floor = a.Above.Add(s).advance(a.Floor)
}

// Clone returns a copy that shares nothing.
func (a *Acked) Clone() Acked {
	return Acked{Epoch: a.Epoch, Floor: a.Floor, Above: slices.Clone(a.Above)}
}

// upTo cuts the record at last.
func (a *Acked) upTo(last uint64) Acked {
	out := Acked{Epoch: a.Epoch, Floor: min(a.Floor, last)}
	for _, s := range a.Above {
		if s.Lo <= last {
			out.Above = append(out.Above, Range{s.Lo, min(s.Hi, last)})
		}
	}
	return out
}

// Highest is the newest sequence that the record speaks of.
func (a *Acked) Highest() uint64 {
	if n := len(a.Above); n > 0 {
		return a.Above[n-1].Hi
	}
	return a.Floor
}
