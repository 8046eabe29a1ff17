package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A ledger is what one tenant's worker has acknowledged: a file that begins
// with the stream's epoch and a floor, everything up to which is
// acknowledged, followed by spans above it, one record each. An append is one
// write, so what it says outlives the process at once; sync makes it outlive
// the machine. The last record may be torn: it is then cut off, which at
// worst delivers a chunk again.
type ledger struct {
	path  string
	file  *os.File
	size  int64
	dirty bool
	// broken is set when the end of the file is not known to be whole; the
	// next write then replaces the file.
	broken bool
}

const (
	ledgerMagic     = "WHACK1\r\n"
	ledgerHeader    = len(ledgerMagic) + 8 + 8 + 4
	ledgerRecord    = 8 + 8 + 4
	ledgerCompactAt = 1 << 20
)

// acked is the content of a ledger.
type acked struct {
	epoch uint64
	floor uint64
	above spans
}

// openLedger reads the ledger at path; found is false when there is none that
// is readable. Nothing is written before the first append or rewrite.
func openLedger(path string) (l *ledger, state acked, found bool, err error) {
	l = &ledger{path: path}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return l, acked{}, false, nil
	}
	if err != nil {
		return nil, acked{}, false, fmt.Errorf("open acknowledgements: %w", err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		_ = f.Close()
		return nil, acked{}, false, fmt.Errorf("read acknowledgements %s: %w", path, err)
	}
	state, whole, ok := parseLedger(data)
	l.file, l.size = f, int64(whole)
	if !ok {
		l.broken = true
		return l, acked{}, false, nil
	}
	if whole < len(data) {
		err = f.Truncate(l.size)
	}
	if err != nil {
		_ = f.Close()
		return nil, acked{}, false, fmt.Errorf("repair acknowledgements %s: %w", path, err)
	}
	return l, state, true, nil
}

// parseLedger reads records up to the first that is not whole, and says how
// many bytes are good.
func parseLedger(data []byte) (state acked, whole int, ok bool) {
	if len(data) < ledgerHeader || string(data[:len(ledgerMagic)]) != ledgerMagic {
		return acked{}, 0, false
	}
	a, b, ok := readRecord(data[len(ledgerMagic):])
	if !ok {
		return acked{}, 0, false
	}
	state.epoch, state.floor = a, b
	whole = ledgerHeader
	for {
		lo, hi, ok := readRecord(data[whole:])
		if !ok || lo == 0 || lo > hi {
			break
		}
		whole += ledgerRecord
		state.above = state.above.add(span{lo, hi})
	}
	state.above, state.floor = state.above.advance(state.floor)
	return state, whole, true
}

// errRewrite: the file must be rewritten before it can be appended to.
var errRewrite = errors.New("acknowledgements must be rewritten")

// append records spans durably against the end of the process.
func (l *ledger) append(add []span) error {
	if l.file == nil || l.broken {
		return errRewrite
	}
	buf := make([]byte, 0, len(add)*ledgerRecord)
	for _, s := range add {
		buf = appendRecord(buf, s.lo, s.hi)
	}
	n, err := l.file.WriteAt(buf, l.size)
	if err != nil {
		l.broken = true
		return fmt.Errorf("write acknowledgements %s: %w", l.path, err)
	}
	l.size += int64(n)
	l.dirty = true
	return nil
}

// long says that the file may be worth a rewrite that leaves n spans.
func (l *ledger) long(n int) bool {
	return l.size > ledgerCompactAt && l.size > 2*int64(ledgerHeader+n*ledgerRecord)
}

// rewrite replaces the file by one that says just state, durably.
func (l *ledger) rewrite(state *acked) error {
	buf := make([]byte, 0, ledgerHeader+len(state.above)*ledgerRecord)
	buf = append(buf, ledgerMagic...)
	buf = appendRecord(buf, state.epoch, state.floor)
	for _, s := range state.above {
		buf = appendRecord(buf, s.lo, s.hi)
	}
	f, err := replaceFile(l.path, buf)
	if err != nil {
		return fmt.Errorf("rewrite acknowledgements: %w", err)
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.size, l.dirty, l.broken = f, int64(len(buf)), false, false
	return nil
}

// sync makes what was appended outlive the machine.
func (l *ledger) sync() error {
	if l.file == nil || !l.dirty {
		return nil
	}
	l.dirty = false
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync acknowledgements %s: %w", l.path, err)
	}
	return nil
}

func (l *ledger) close() error {
	err := l.sync()
	if l.file != nil {
		if cerr := l.file.Close(); err == nil {
			err = cerr
		}
		l.file = nil
	}
	return err
}

// replaceFile writes data beside path and moves it there, and returns the
// open file.
func replaceFile(path string, data []byte) (*os.File, error) {
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func appendRecord(dst []byte, a, b uint64) []byte {
	from := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, a)
	dst = binary.LittleEndian.AppendUint64(dst, b)
	return binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[from:]))
}

func readRecord(b []byte) (x, y uint64, ok bool) {
	if len(b) < ledgerRecord {
		return 0, 0, false
	}
	if crc32.ChecksumIEEE(b[:16]) != binary.LittleEndian.Uint32(b[16:]) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), true
}
