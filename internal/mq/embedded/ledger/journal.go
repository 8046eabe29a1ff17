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
	appended
	limit int64 // the size at which it is written anew
}

const journalHead = 4 + 4

// maxRecord bounds the record whose length is believed at the end of a file.
const maxRecord = 64 << 20

// OpenJournal reads the journal at path, which need not exist, and returns its
// records that are whole, those behind damage included, and how many bytes are
// not: 0 also where the end was cut short in the middle of a write.
func OpenJournal(path string) (j *Journal, records [][]byte, damaged int, err error) {
	j = &Journal{appended: appended{synced: synced{path: path}}, limit: compactAt}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil, 0, nil
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read %s: %w", path, err)
	}
	// What is not whole goes with the next write.
	j.broken = true
	records, damaged = readJournal(data)
	return j, records, damaged, nil
}

func readJournal(data []byte) (records [][]byte, damaged int) {
	skipped := 0
	for rest := data; len(rest) > 0; {
		record, after, ok := cutRecord(rest)
		switch {
		case ok:
			records, rest = append(records, record), after
			damaged, skipped = damaged+skipped, 0
		case skipped == 0 && tornRecord(rest) && !anyRecord(rest[1:]):
			return records, damaged
		default:
			rest = rest[1:]
			skipped++
		}
	}
	return records, damaged + skipped
}

// tornRecord reports whether b may be the beginning of a record.
func tornRecord(b []byte) bool {
	if len(b) < journalHead {
		return true
	}
	n := binary.LittleEndian.Uint32(b)
	return n <= maxRecord && int(n) > len(b)-journalHead
}

// anyRecord reports whether a whole record is anywhere in b.
func anyRecord(b []byte) bool {
	for ; len(b) >= journalHead; b = b[1:] {
		if _, _, ok := cutRecord(b); ok {
			return true
		}
	}
	return false
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
	return j.add(appendJournal(nil, record))
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
	if err := j.replace(data); err != nil {
		return err
	}
	j.limit = max(compactAt, 2*j.size)
	return nil
}
