// Package ledger keeps on disk what a queue's worker has acknowledged, a file
// per stream.
package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
)

// Ledger is a file that begins with the stream's epoch and a floor, everything
// up to which is acknowledged, followed by ranges above it, one record each. An
// append is one write, so what it says outlives the process at once; Sync
// makes it outlive the machine. The last record may be torn: it is then cut
// off, which at worst delivers a chunk again.
//
// Its methods must not overlap.
type Ledger struct{ appended }

const (
	magic      = "WHACK1\r\n"
	headerSize = len(magic) + recordSize
	recordSize = 8 + 8 + 4
	compactAt  = 1 << 20
)

// Stream is what a ledger must agree with.
type Stream struct {
	Name string
	// Epoch names this stream among those of the same name.
	Epoch uint64
	// First and Last are the oldest and the newest sequence kept, Messages how
	// many there are.
	First, Last, Messages uint64
}

// Open reads the ledger at path, and writes it anew when it must. What the
// stream does not hold any more counts as acknowledged; what it does not hold
// yet cannot be, or a chunk that gets the sequence later would never be
// delivered.
func Open(path string, s Stream, log *slog.Logger) (*Ledger, Acked, error) {
	l, state, found, err := read(path)
	if err != nil {
		return nil, Acked{}, err
	}
	anew := !found || state.Epoch != s.Epoch
	if anew {
		if s.Messages > 0 {
			log.Warn("no record of what was delivered: all kept chunks are delivered again", "file", path, "chunks", s.Messages)
		}
		state = Acked{Epoch: s.Epoch}
	}
	if state.Highest() > s.Last {
		log.Error("the stream lost its newest chunks", "stream", s.Name, "last", s.Last, "acknowledged", state.Floor)
		state, anew = state.upTo(s.Last), true
	}
	if s.First > 0 && state.Floor < s.First-1 {
		state.Above, state.Floor = state.Above.advance(s.First - 1)
	}
	if anew {
		if err := l.rewrite(&state); err != nil {
			// Nothing is lost by it: the next write tries again.
			l.broken = true
			log.Warn("acknowledgements cannot be written", "stream", s.Name, "error", err)
		}
	}
	return l, state, nil
}

// read reads the ledger at path; found is false when there is none that is
// readable.
func read(path string) (l *Ledger, state Acked, found bool, err error) {
	l = &Ledger{appended{synced: synced{path: path}}}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return l, Acked{}, false, nil
	}
	if err != nil {
		return nil, Acked{}, false, fmt.Errorf("open acknowledgements: %w", err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		_ = f.Close()
		return nil, Acked{}, false, fmt.Errorf("read acknowledgements %s: %w", path, err)
	}
	c := parse(data)
	l.file, l.size = f, int64(c.whole)
	if !c.Readable {
		l.broken = true
		return l, Acked{}, false, nil
	}
	if c.Damaged > 0 {
		l.broken = true // the next write leaves out what is not whole
	}
	if c.whole < len(data) {
		err = f.Truncate(l.size)
	}
	if err != nil {
		_ = f.Close()
		return nil, Acked{}, false, fmt.Errorf("repair acknowledgements %s: %w", path, err)
	}
	return l, c.Acked, true, nil
}

// Condition is what a look at a ledger tells.
type Condition struct {
	Acked
	// Found says that there is a ledger, Readable that its beginning is whole.
	Found, Readable bool
	// Damaged counts records that are not whole and are followed by others.
	Damaged int
	// Cut counts bytes at the end that are not whole.
	Cut int
	// whole is how many bytes are good.
	whole int
}

// Whole reports whether nothing but the last record can be missing, as when a
// write was cut short.
func (c *Condition) Whole() bool { return c.Readable && c.Damaged == 0 && c.Cut < recordSize }

// Inspect reads the ledger at path and changes nothing.
func Inspect(path string) (Condition, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Condition{}, nil
	}
	if err != nil {
		return Condition{}, fmt.Errorf("read acknowledgements: %w", err)
	}
	c := parse(data)
	c.Found = true
	return c, nil
}

// parse reads all records that are whole. What is not whole at the end is a
// write that was cut short.
func parse(data []byte) (c Condition) {
	if len(data) < headerSize || string(data[:len(magic)]) != magic {
		return c
	}
	c.Epoch, c.Floor, c.Readable = readRecord(data[len(magic):])
	if !c.Readable {
		return c
	}
	c.whole = headerSize
	damaged := 0
	for at := headerSize; at+recordSize <= len(data); at += recordSize {
		lo, hi, ok := readRecord(data[at:])
		if !ok || lo == 0 || lo > hi {
			damaged++
			continue
		}
		c.whole, c.Damaged = at+recordSize, damaged
		c.Above = c.Above.Add(Range{lo, hi})
	}
	c.Above, c.Floor = c.Above.advance(c.Floor)
	c.Cut = len(data) - c.whole
	return c
}

// Append records ranges durably against the end of the process. A file that
// must be written anew gets what before returns as well.
func (l *Ledger) Append(add []Range, before func() Acked) error {
	if l.file == nil || l.broken {
		state := before()
		for _, s := range add {
			state.Add(s)
		}
		return l.rewrite(&state)
	}
	buf := make([]byte, 0, len(add)*recordSize)
	for _, s := range add {
		buf = appendRecord(buf, s.Lo, s.Hi)
	}
	return l.add(buf)
}

// Compact rewrites a file that is long for the ranges that it says now.
func (l *Ledger) Compact(ranges int, now func() Acked) error {
	if l.size <= compactAt || l.size <= 2*int64(headerSize+ranges*recordSize) {
		return nil
	}
	state := now()
	return l.rewrite(&state)
}

// rewrite replaces the file by one that says just state, durably.
func (l *Ledger) rewrite(state *Acked) error {
	buf := make([]byte, 0, headerSize+len(state.Above)*recordSize)
	buf = append(buf, magic...)
	buf = appendRecord(buf, state.Epoch, state.Floor)
	for _, s := range state.Above {
		buf = appendRecord(buf, s.Lo, s.Hi)
	}
	return l.replace(buf)
}

func appendRecord(dst []byte, a, b uint64) []byte {
	from := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, a)
	dst = binary.LittleEndian.AppendUint64(dst, b)
	return binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[from:]))
}

func readRecord(b []byte) (x, y uint64, ok bool) {
	if len(b) < recordSize {
		return 0, 0, false
	}
	if crc32.ChecksumIEEE(b[:16]) != binary.LittleEndian.Uint32(b[16:]) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), true
}
