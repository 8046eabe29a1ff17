package pebble

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// An entry on disk is a byte that says what it is, the time until which it
// holds in milliseconds since 1970 (0 for ever), and then the owner of a reservation
// or the time of the commit in milliseconds and the value of a committed id. One
// that an earlier version committed has no such time, and counts as the oldest.
const (
	kindReserved  = 'c'
	kindCommitted = 'e'
	kindUndated   = 'd'
	entryHead     = 9
)

// entry is what is known of an id.
type entry struct {
	kind  byte
	until int64
	owner dedupe.Owner
	made  int64
	value []byte
}

var errEntry = errors.New("an entry that this version cannot read")

func parseEntry(b []byte) (entry, error) {
	if len(b) < entryHead {
		return entry{}, errEntry
	}
	e := entry{kind: b[0], until: int64(binary.BigEndian.Uint64(b[1:]))}
	switch rest := b[entryHead:]; {
	case e.kind == kindReserved && len(rest) == len(e.owner):
		copy(e.owner[:], rest)
	case e.kind == kindUndated:
		e.kind, e.value = kindCommitted, rest
	case e.kind == kindCommitted && len(rest) >= 8:
		e.made, e.value = int64(binary.BigEndian.Uint64(rest)), rest[8:]
	default:
		return entry{}, errEntry
	}
	return e, nil
}

func (e entry) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, e.kind), uint64(e.until))
	if e.kind == kindReserved {
		return append(dst, e.owner[:]...)
	}
	return append(binary.BigEndian.AppendUint64(dst, uint64(e.made)), e.value...)
}

// over reports whether the entry is as if it were not there.
func (e entry) over(now time.Time) bool { return e.until != 0 && now.UnixMilli() >= e.until }

// until is the end of a time from now, which lasts at least as long as d.
func until(now time.Time, d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	return now.Add(d).UnixMilli() + 1
}
