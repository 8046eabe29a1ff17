package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
)

// Journal is a file of records that are only added to, each with its length and
// checksum before it, until it is written anew with those that still count. Like
// a Ledger it is right against the end of the process at once, and against that
// of the machine once it is synced; what is torn at its end is cut off.
//
// Its methods must not overlap.
type Journal struct {
	path  string
	file  *os.File
	size  int64
	limit int64 // the size at which it is written anew
	dirty bool
	// broken is set when the end of the file is not known to be whole.
	broken bool
}

const journalHead = 4 + 4

// OpenJournal reads the journal at path, which need not exist, and returns its
// records.
func OpenJournal(path string) (*Journal, [][]byte, error) {
	j := &Journal{path: path, limit: compactAt}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	var records [][]byte
	for rest := data; ; {
		record, after, ok := cutRecord(rest)
		if !ok {
			break
		}
		records, rest = append(records, record), after
		j.size += int64(journalHead + len(record))
	}
	// What is behind the last whole record goes with the next write.
	j.broken = true
	return j, records, nil
}

func cutRecord(b []byte) (record, rest []byte, ok bool) {
	if len(b) < journalHead {
		return nil, nil, false
	}
	n := uint64(binary.LittleEndian.Uint32(b))
	if n == 0 || n > uint64(len(b)-journalHead) {
		return nil, nil, false
	}
	record, rest = b[journalHead:journalHead+n], b[journalHead+n:]
	return record, rest, crc32.ChecksumIEEE(record) == binary.LittleEndian.Uint32(b[4:])
}

// Append adds a record, which is not empty, in one write. A file that has grown
// long is replaced by the records that live returns, which has the new one.
func (j *Journal) Append(record []byte, live func() [][]byte) error {
	if j.file == nil || j.broken || j.size > j.limit {
		return j.rewrite(live())
	}
	n, err := j.file.WriteAt(appendJournal(nil, record), j.size)
	if err != nil {
		j.broken = true
		return fmt.Errorf("write %s: %w", j.path, err)
	}
	j.size += int64(n)
	j.dirty = true
	return nil
}

func appendJournal(dst, record []byte) []byte {
	dst = slices.Grow(dst, journalHead+len(record))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(record)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(record))
	return append(dst, record...)
}

func (j *Journal) rewrite(records [][]byte) error {
	var data []byte
	for _, r := range records {
		data = appendJournal(data, r)
	}
	f, err := ReplaceFile(j.path, data)
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", j.path, err)
	}
	if j.file != nil {
		_ = j.file.Close()
	}
	j.file, j.size, j.dirty, j.broken = f, int64(len(data)), false, false
	j.limit = max(compactAt, 2*j.size)
	return nil
}

// Sync makes what was appended outlive the machine.
func (j *Journal) Sync() error {
	if j.file == nil || !j.dirty {
		return nil
	}
	j.dirty = false
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", j.path, err)
	}
	return nil
}

// Close syncs and closes the file.
func (j *Journal) Close() error {
	err := j.Sync()
	if j.file != nil {
		err = errors.Join(err, j.file.Close())
		j.file = nil
	}
	return err
}
