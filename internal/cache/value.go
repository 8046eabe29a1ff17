package cache

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

const (
	// plainBelow is the size up to which a body is kept as it is: sending it is
	// then a copy. A larger one is kept compressed only.
	plainBelow = 16 << 10
	// squeezeAbove is the size above which a body is also kept in the encodings
	// that clients ask for: the same that the server compresses answers from.
	squeezeAbove = 1 << 10
	// valueOverhead is what a value takes besides its bytes, about.
	valueOverhead = 512
)

// Encodings of a body.
const (
	EncodingPlain = ""
	EncodingGzip  = "gzip"
	EncodingZstd  = "zstd"
)

// Value is a result that is ready to be sent. It is not changed once made.
type Value struct {
	ContentType string
	// ETag names the content, weakly: the encodings of one body share it.
	ETag string
	// Tables are what the result depends on; see the keys of Invalidate.
	Tables []string
	// Size is that of the plain body, in bytes.
	Size int
	// Notes are the answer's.
	Notes []Note

	plain []byte // nil when only the compressed forms are kept
	gzip  []byte // nil for a small body, or one that does not shrink
	zstd  []byte
}

// Note is something that is told of an answer beside its content, such as a header.
// It is kept with it.
type Note struct{ Name, Value string }

// Note returns the note of the name, "" without one.
func (v *Value) Note(name string) string {
	for _, n := range v.Notes {
		if n.Name == name {
			return n.Value
		}
	}
	return ""
}

// NewValue makes a value of a body, which it keeps.
func NewValue(body []byte, contentType string, tables []string) *Value {
	sum := sha256.Sum256(body)
	return &Value{
		ContentType: contentType, Tables: tables, Size: len(body), plain: body,
		ETag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`,
	}
}

// Weight is what the value takes in memory, in bytes.
func (v *Value) Weight() int {
	n := valueOverhead + len(v.plain) + len(v.gzip) + len(v.zstd) + len(v.ContentType)
	for _, table := range v.Tables {
		n += len(table) + 16
	}
	for _, note := range v.Notes {
		n += len(note.Name) + len(note.Value) + 32
	}
	return n
}

// Encoded returns the body in an encoding that it is kept in.
func (v *Value) Encoded(encoding string) (body []byte, ok bool) {
	switch encoding {
	case EncodingGzip:
		return v.gzip, v.gzip != nil
	case EncodingZstd:
		return v.zstd, v.zstd != nil
	}
	return v.plain, v.plain != nil || v.Size == 0
}

// Body returns the plain body.
func (v *Value) Body() ([]byte, error) {
	if body, ok := v.Encoded(EncodingPlain); ok {
		return body, nil
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(v.Size)+1<<20))
	if err != nil {
		return nil, fmt.Errorf("expand a result: %w", err)
	}
	defer decoder.Close()
	body, err := decoder.DecodeAll(v.zstd, make([]byte, 0, v.Size))
	if err == nil && len(body) != v.Size {
		err = errValue
	}
	if err != nil {
		return nil, fmt.Errorf("expand a result: %w", err)
	}
	return body, nil
}
