// Package blocks reads the files in which the queue's server keeps messages,
// finds what is damaged in them, and saves what is whole. The server itself cuts
// a file off where it finds the first damaged record, and says nothing.
package blocks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/minio/highwayhash"
)

// A record is its length (4 bytes; the top bit says that it has headers), its
// sequence (8), its time (8), the length of its subject (2), the subject, the
// length of its headers (4) and these if it has any, the body, and a checksum (8)
// of all but the lengths.
const (
	fixedSize = 22
	sumSize   = 8
	// emptySize is a record without subject and body: a sequence that was
	// erased, or a note that one was removed.
	emptySize = fixedSize + sumSize
	maxRecord = 32 << 20

	headersBit = 1 << 31
	erasedBit  = 1 << 63
	removedBit = 1 << 62
)

// What the headers of a message begin and end with.
var (
	headersBegin = []byte("NATS/1.0\r\n")
	headersEnd   = []byte("\r\n\r\n")
)

// kind of a record.
type kind byte

const (
	message kind = iota
	erased
	removed
)

// record is one that is whole.
type record struct {
	kind kind
	seq  uint64
	// data is the record as the file should hold it.
	data []byte
}

// codec knows the records of one file: their checksums have a key of its own.
type codec struct {
	hash *highwayhash.Digest64
	// subject is what the subject of every message begins with.
	subject []byte
	// patience bounds the bytes that are looked at in search of records.
	patience int
}

func newCodec(stream, subject string, index uint32) (*codec, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, index))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return nil, fmt.Errorf("checksums of block %d of stream %s: %w", index, stream, err)
	}
	return &codec{hash: hash, subject: []byte(subject)}, nil
}

// read reads the record that b begins with; ok is false when it is not whole.
func (c *codec) read(b []byte) (r record, ok bool) {
	if len(b) < emptySize {
		return r, false
	}
	length := binary.LittleEndian.Uint32(b)
	size, subject := int(length&^headersBit), int(binary.LittleEndian.Uint16(b[20:]))
	if size < emptySize || size > min(len(b), maxRecord) || subject > size-emptySize {
		return r, false
	}
	data := b[fixedSize : size-sumSize]
	rest := data[subject:]
	if length&headersBit != 0 {
		if len(rest) < 4 {
			return r, false
		}
		// The checksum does not tell where the headers end.
		headers := int(binary.LittleEndian.Uint32(rest))
		if rest = rest[4:]; headers == 0 || headers != headersIn(rest) {
			return r, false
		}
	}
	if !bytes.Equal(c.sum(b[4:20], data[:subject], rest), b[size-sumSize:size]) {
		return r, false
	}
	r = record{kind: message, seq: binary.LittleEndian.Uint64(b[4:]), data: b[:size:size]}
	switch {
	case r.seq&removedBit != 0:
		r.kind = removed
	case r.seq&erasedBit != 0 || r.seq == 0:
		r.kind = erased
	}
	r.seq &^= erasedBit | removedBit
	return r, true
}

func (c *codec) sum(parts ...[]byte) []byte {
	c.hash.Reset()
	for _, p := range parts {
		_, _ = c.hash.Write(p)
	}
	return c.hash.Sum(nil)
}

// headersIn is the length of the headers that b begins with, 0 when it does not.
func headersIn(b []byte) int {
	if !bytes.HasPrefix(b, headersBegin) {
		return 0
	}
	at := bytes.Index(b, headersEnd)
	if at < 0 {
		return 0
	}
	return at + len(headersEnd)
}

// mend reads b as one record of which nothing but the lengths is damaged.
func (c *codec) mend(b []byte) (r record, ok bool) {
	if len(b) < emptySize || len(b) > maxRecord {
		return r, false
	}
	fixed := slices.Clone(b)
	length := uint32(len(b))
	at := bytes.Index(b[fixedSize:], headersBegin)
	switch {
	case at >= 4:
		headers := headersIn(b[fixedSize+at : len(b)-sumSize])
		length |= headersBit
		binary.LittleEndian.PutUint16(fixed[20:], uint16(at-4))
		binary.LittleEndian.PutUint32(fixed[fixedSize+at-4:], uint32(headers))
	case len(b) == emptySize:
		binary.LittleEndian.PutUint16(fixed[20:], 0)
	default:
		return r, false
	}
	binary.LittleEndian.PutUint32(fixed, length)
	if r, ok = c.read(fixed); !ok || len(r.data) != len(b) {
		return r, false
	}
	return r, true
}

// next finds the first whole record of b from from on; without one it is the
// end of b.
func (c *codec) next(b []byte, from int) int {
	empty := binary.LittleEndian.AppendUint32(nil, emptySize)
	for from < len(b) {
		at := indexFrom(b, c.subject, from+fixedSize) - fixedSize
		if e := indexFrom(b[:max(min(at, len(b)), 0)], empty, from); e < at {
			at = e
		}
		if at+emptySize > len(b) {
			break
		}
		if size := int(binary.LittleEndian.Uint32(b[at:]) &^ headersBit); at+size <= len(b) {
			if c.patience -= size; c.patience < 0 {
				break
			}
			if _, ok := c.read(b[at:]); ok {
				return at
			}
		}
		from = at + 1
	}
	return len(b)
}

// indexFrom is where sep is in b from from on; without one it is past the end.
func indexFrom(b, sep []byte, from int) int {
	if from > len(b) {
		return len(b) + fixedSize
	}
	at := bytes.Index(b[from:], sep)
	if at < 0 {
		return len(b) + fixedSize
	}
	return from + at
}

// erase makes a record that says that seq was erased, which keeps the sequences
// up to it from being given out again.
func (c *codec) erase(seq uint64, at int64) record {
	data := make([]byte, fixedSize, emptySize)
	binary.LittleEndian.PutUint32(data, emptySize)
	binary.LittleEndian.PutUint64(data[4:], seq|erasedBit)
	binary.LittleEndian.PutUint64(data[12:], uint64(at))
	return record{kind: erased, seq: seq, data: append(data, c.sum(data[4:20])...)}
}
