package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// errManifest says that the list of the store's files is damaged. Pebble reads such
// a list up to the damage, forgets the files behind it, and deletes them.
var errManifest = errors.New("the list of its files is damaged: bring the folder back from a copy, or move it away and lose what ids were seen")

// checkManifest reads the list of the store's files before Pebble does.
func checkManifest(fs vfs.FS, dir string) error {
	desc, err := pebble.Peek(dir, fs)
	if err != nil {
		return fmt.Errorf("look at its files: %w", err)
	}
	if !desc.Exists {
		return nothingWithout(fs, dir)
	}
	data, err := readFile(fs, desc.ManifestFilename)
	if err != nil {
		return fmt.Errorf("read the list of its files: %w", err)
	}
	whole := wholeRecords(data)
	if whole == 0 || !isTorn(data[whole:], whole) {
		return fmt.Errorf("%s at %d of %d bytes: %w", desc.ManifestFilename, whole, len(data), errManifest)
	}
	return nil
}

// nothingWithout refuses tables that no list names: a new store would delete them.
func nothingWithout(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return fmt.Errorf("list its files: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			return fmt.Errorf("%s is there, and no list of files: %w", filepath.Join(dir, name), errManifest)
		}
	}
	return nil
}

func readFile(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	return data, err
}

// wholeRecords returns where the records that can be read end.
func wholeRecords(data []byte) int64 {
	end, records := int64(0), record.NewReader(bytes.NewReader(data), 0)
	for {
		r, err := records.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if errors.Is(err, io.EOF) {
			return int64(len(data))
		}
		if err != nil {
			return end
		}
		end = records.Offset()
	}
}

const (
	chunkHeader = 7 // checksum, length and kind
	chunkBlock  = 32 << 10
)

// isTorn reports whether rest, which begins at an offset of the list, is what a
// crash leaves of the last record: cut short, or not written over yet. Anything that
// was written behind it is proof that it was whole once.
func isTorn(rest []byte, offset int64) bool {
	if len(bytes.Trim(rest, "\x00")) == 0 {
		return true
	}
	for at := 1; at+chunkHeader <= len(rest); at++ {
		if isChunk(rest[at:]) {
			return false
		}
	}
	if len(rest) < chunkHeader {
		return true
	}
	length := chunkHeader + int64(binary.LittleEndian.Uint16(rest[4:]))
	if offset%chunkBlock+length > chunkBlock {
		return false // no chunk crosses a block: this is no length
	}
	return length > int64(len(rest)) || rest[length-1] == 0
}

// isChunk reports whether data begins with a chunk whose checksum is right.
func isChunk(data []byte) bool {
	end := chunkHeader + int(binary.LittleEndian.Uint16(data[4:]))
	if kind := data[6]; kind == 0 || kind > 4 || end > len(data) {
		return false
	}
	sum := crc32.Checksum(data[6:end], crc32.MakeTable(crc32.Castagnoli))
	return binary.LittleEndian.Uint32(data) == (sum>>15|sum<<17)+0xa282ead8
}
