package mq

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Position is a chunk's place in the queue that holds its topic. The zero
// value is before everything. Positions are values: two are the same place
// exactly if they are equal. What they are made of is known to the brokers
// alone, as a topic's queue may be one of several, and one that was reset is
// another.
type Position struct {
	epoch uint64
	seq   uint64
}

// NewPosition is for brokers: the chunk seq of the queue that epoch names.
func NewPosition(epoch, seq uint64) Position { return Position{epoch, seq} }

// SplitPosition is for brokers: what NewPosition was given.
func SplitPosition(p Position) (epoch, seq uint64) { return p.epoch, p.seq }

// IsZero reports whether p is the position before everything.
func (p Position) IsZero() bool { return p == Position{} }

// Compare orders p and q as cmp.Compare does; ok is false when they are of
// different queues and neither comes first. The zero position comes before
// all others.
func (p Position) Compare(q Position) (order int, ok bool) {
	switch {
	case p.epoch == q.epoch:
		return cmp.Compare(p.seq, q.seq), true
	case p.IsZero():
		return -1, true
	case q.IsZero():
		return 1, true
	}
	return 0, false
}

// Before reports whether p comes before q, which it does not when they are of
// different queues.
func (p Position) Before(q Position) bool {
	order, ok := p.Compare(q)
	return ok && order < 0
}

// Prev is the position just before p: a replay from it starts at p. There is
// nothing before the start of a queue.
func (p Position) Prev() Position {
	return Position{p.epoch, max(p.seq, 1) - 1}
}

// String is p's text form, for ParsePosition.
func (p Position) String() string {
	return strconv.FormatUint(p.epoch, 10) + "." + strconv.FormatUint(p.seq, 10)
}

// ParsePosition reads what String wrote.
func ParsePosition(text string) (Position, error) {
	a, b, _ := strings.Cut(text, ".")
	epoch, err := strconv.ParseUint(a, 10, 64)
	seq, err2 := strconv.ParseUint(b, 10, 64)
	if err != nil || err2 != nil {
		return Position{}, fmt.Errorf("%q is not a position", text)
	}
	return Position{epoch, seq}, nil
}

// AppendBinary appends p in 16 bytes, such that different positions differ.
func (p Position) AppendBinary(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, p.epoch), p.seq)
}

// Fold is p in 12 bytes: a hash of its queue, which is 0 for the zero position
// alone, and its place there.
func (p Position) Fold() (queue uint32, place uint64) {
	queue = uint32(p.epoch * 0x9e3779b97f4a7c15 >> 32)
	if queue == 0 && p.epoch != 0 {
		queue = 1
	}
	return queue, p.seq
}

// Unfold returns the position of p's own queue that was folded; ok is false for one
// of another queue.
func (p Position) Unfold(queue uint32, place uint64) (q Position, ok bool) {
	if queue == 0 && place == 0 {
		return Position{}, true
	}
	own, _ := p.Fold()
	return Position{p.epoch, place}, own == queue
}
