package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
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

	plain []byte // nil when only the compressed forms are kept
	gzip  []byte // nil for a small body, or one that does not shrink
	zstd  []byte
}

// NewValue makes a value of a body, which it keeps.
func NewValue(body []byte, contentType string, tables []string) *Value {
	sum := sha256.Sum256(body)
	return &Value{
		ContentType: contentType, Tables: tables, Size: len(body), plain: body,
		ETag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`,
	}
}

// Compressed returns the value in the forms in which it is kept: small bodies
// as they are, larger ones as clients ask for them.
func (v *Value) Compressed() (*Value, error) {
	if v.Size <= squeezeAbove || v.plain == nil {
		return v, nil
	}
	kept := *v
	var out bytes.Buffer
	if err := squeezeGzip(&out, v.plain); err != nil {
		return nil, fmt.Errorf("compress a result: %w", err)
	}
	if out.Len() < v.Size {
		kept.gzip = bytes.Clone(out.Bytes())
	}
	if v.Size <= plainBelow {
		return &kept, nil
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("compress a result: %w", err)
	}
	defer encoder.Close()
	if packed := encoder.EncodeAll(v.plain, nil); len(packed) < v.Size {
		kept.zstd, kept.plain = bytes.Clone(packed), nil
	}
	return &kept, nil
}

func squeezeGzip(out io.Writer, body []byte) error {
	w, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return err
	}
	return w.Close()
}

// Weight is what the value takes in memory, in bytes.
func (v *Value) Weight() int {
	n := valueOverhead + len(v.plain) + len(v.gzip) + len(v.zstd) + len(v.ContentType)
	for _, table := range v.Tables {
		n += len(table) + 16
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
	if err != nil {
		return nil, fmt.Errorf("expand a result: %w", err)
	}
	return body, nil
}
