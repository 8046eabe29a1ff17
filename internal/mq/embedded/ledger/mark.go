package ledger

import (
	"errors"
	"fmt"
	"os"
)

// Mark is a file that says up to which sequence a stream was answered for. It
// holds two records, written in turn, so that a torn one leaves the other; what
// it says outlives the process at once, and the machine once it is synced.
//
// Its methods must not overlap.
type Mark struct {
	synced
	epoch uint64
	seq   uint64
	slot  int64
}

// ReadMark reads the mark at path: the stream's epoch and the newest sequence.
// ok is false when there is none that is readable, damaged that there is one.
func ReadMark(path string) (epoch, seq uint64, ok, damaged bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, false, !errors.Is(err, os.ErrNotExist)
	}
	for at := 0; at < 2*recordSize; at += recordSize {
		if at >= len(data) {
			break
		}
		e, s, whole := readRecord(data[at:])
		switch {
		case !whole:
			damaged = true
		case !ok || s > seq:
			epoch, seq, ok = e, s, true
		}
	}
	return epoch, seq, ok, damaged || len(data) < 2*recordSize
}

// OpenMark opens the mark of a stream at path, which stands at seq at least.
func OpenMark(path string, epoch, seq uint64) (*Mark, error) {
	m := &Mark{synced: synced{path: path}, epoch: epoch, seq: seq}
	e, s, ok, damaged := ReadMark(path)
	if ok && e == epoch {
		m.seq = max(m.seq, s)
	}
	var err error
	if ok && e == epoch && s >= seq && !damaged {
		m.file, err = os.OpenFile(path, os.O_RDWR, 0)
	} else {
		record := appendRecord(nil, epoch, m.seq)
		m.file, err = ReplaceFile(path, append(record, record...))
	}
	if err != nil {
		return nil, fmt.Errorf("write mark: %w", err)
	}
	return m, nil
}

// Reach notes that seq was answered for.
func (m *Mark) Reach(seq uint64) error {
	if seq <= m.seq {
		return nil
	}
	m.slot = recordSize - m.slot
	if _, err := m.file.WriteAt(appendRecord(nil, m.epoch, seq), m.slot); err != nil {
		return fmt.Errorf("write mark %s: %w", m.path, err)
	}
	m.seq, m.dirty = seq, true
	return nil
}
