package blocks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
)

const suffix = ".blk"

// block is what one file holds.
type block struct {
	path  string
	index uint32
	codec *codec
	size  int
	// kept are the messages, gone the sequences that it notes as removed or
	// erased, last is the newest of which it has a message or that was erased.
	kept, gone ledger.Ranges
	last       uint64
	// records and wounds are there when something is damaged.
	records []record
	wounds  []wound
}

// wound is a part of a block that is damaged.
type wound struct {
	from, to int
	// after and before are the sequences of the messages on both sides, 0 at
	// the beginning and the end of the block; guess is the one that the damaged
	// part claims to begin with.
	after, before, guess uint64
	// mended says that nothing is lost.
	mended bool
}

// readBlock reads a file into the buffer. One of which nothing is damaged keeps no
// records, and nothing of the buffer.
func readBlock(path string, index uint32, stream, subject string, buffer *bytes.Buffer) (*block, error) {
	c, err := newCodec(stream, subject, index)
	if err != nil {
		return nil, err
	}
	if err := readFile(path, buffer); err != nil {
		return nil, fmt.Errorf("read block of stream %s: %w", stream, err)
	}
	data := buffer.Bytes()
	b := &block{path: path, index: index, codec: c, size: len(data)}
	c.patience = 64 * max(len(data), 1<<20)
	var records []record
	for at := 0; at < len(data); {
		if r, ok := c.read(data[at:]); ok {
			records = b.take(records, r)
			at += len(r.data)
			continue
		}
		end := c.next(data, at+1)
		w := wound{from: at, to: end, after: b.last}
		if end-at >= 12 {
			w.guess = binary.LittleEndian.Uint64(data[at+4:])
		}
		if r, ok := c.mend(data[at:end]); ok {
			w.mended = true
			records = b.take(records, r)
		}
		b.wounds = append(b.wounds, w)
		at = end
	}
	if len(b.wounds) > 0 {
		b.records = records
	}
	return b, nil
}

// readFile is os.ReadFile into a buffer.
func readFile(path string, buffer *bytes.Buffer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	buffer.Reset()
	if info, err := file.Stat(); err == nil {
		buffer.Grow(int(info.Size()) + bytes.MinRead) // so that the end is found without growing
	}
	_, err = buffer.ReadFrom(file)
	return err
}

func (b *block) take(records []record, r record) []record {
	switch {
	case r.kind == message && r.seq > b.last:
		b.kept = b.kept.Add(ledger.Range{Lo: r.seq, Hi: r.seq})
	case r.seq > 0:
		b.gone = b.gone.Add(ledger.Range{Lo: r.seq, Hi: r.seq})
	}
	if r.kind != removed && r.seq > b.last {
		b.last = r.seq
		for i := range b.wounds {
			if b.wounds[i].before == 0 {
				b.wounds[i].before = r.seq
			}
		}
	}
	return append(records, r)
}

// hurt says that the file is not as it was written.
func (b *block) hurt() bool { return len(b.wounds) > 0 }

// torn says that the only wound is at the end, as when a write was cut short.
func (b *block) torn() bool {
	return len(b.wounds) == 1 && !b.wounds[0].mended && b.wounds[0].to == b.size
}

// content is what the file should hold.
func (b *block) content() (out []byte) {
	for _, r := range b.records {
		out = append(out, r.data...)
	}
	return out
}

// listBlocks returns the indices of the files in dir, in order.
func listBlocks(dir string) ([]uint32, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var indices []uint32
	for _, e := range entries {
		text, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if n, err := strconv.ParseUint(text, 10, 32); err == nil {
			indices = append(indices, uint32(n))
		}
	}
	slices.Sort(indices)
	return indices, nil
}

func blockPath(dir string, index uint32) string {
	return filepath.Join(dir, strconv.FormatUint(uint64(index), 10)+suffix)
}
