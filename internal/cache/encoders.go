package cache

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Encoders compress values. They are kept from one to the next, because making
// one takes longer than compressing a usual result. The zero Encoders are ready.
type Encoders struct {
	gzip, zstd, unzstd sync.Pool
}

// Pack encodes the value for a store elsewhere: in one form, compressed when that
// is worth it.
func (e *Encoders) Pack(v *Value) ([]byte, error) {
	packed := *v
	packed.gzip = nil
	if v.Size > squeezeAbove && v.zstd == nil {
		body, err := e.zstandard(v.plain)
		if err != nil {
			return nil, fmt.Errorf("compress a result: %w", err)
		}
		if len(body) < v.Size {
			packed.zstd = body
		}
	}
	if packed.zstd != nil {
		packed.plain = nil
	}
	return packed.MarshalBinary()
}

// Unpack reads what Pack made, and keeps the data. A small body is expanded, as
// Compress would have left it.
func (e *Encoders) Unpack(data []byte) (*Value, error) {
	v := &Value{}
	if err := v.UnmarshalBinary(data); err != nil {
		return nil, err
	}
	if v.plain != nil || v.Size == 0 || v.Size > plainBelow {
		return v, nil
	}
	r, ok := e.unzstd.Get().(*zstd.Decoder)
	if !ok {
		var err error
		r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(plainBelow+1<<20))
		if err != nil {
			return nil, fmt.Errorf("expand a result: %w", err)
		}
	}
	body, err := r.DecodeAll(v.zstd, make([]byte, 0, v.Size))
	e.unzstd.Put(r)
	if err != nil || len(body) != v.Size {
		return nil, errValue
	}
	v.plain = body
	return v, nil
}

// Compress returns the value in the forms in which it is kept: small bodies as
// they are, larger ones as clients ask for them.
func (e *Encoders) Compress(v *Value) (*Value, error) {
	if v.Size <= squeezeAbove || v.plain == nil {
		return v, nil
	}
	kept := *v
	packed, err := e.gzipped(v.plain)
	if err != nil {
		return nil, fmt.Errorf("compress a result: %w", err)
	}
	if len(packed) < v.Size {
		kept.gzip = packed
	}
	if v.Size <= plainBelow {
		return &kept, nil
	}
	if packed, err = e.zstandard(v.plain); err != nil {
		return nil, fmt.Errorf("compress a result: %w", err)
	}
	if len(packed) < v.Size {
		kept.zstd, kept.plain = packed, nil
	}
	return &kept, nil
}

func (e *Encoders) gzipped(body []byte) ([]byte, error) {
	var out bytes.Buffer
	w, ok := e.gzip.Get().(*gzip.Writer)
	if !ok {
		var err error
		if w, err = gzip.NewWriterLevel(&out, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	w.Reset(&out)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	e.gzip.Put(w)
	return bytes.Clone(out.Bytes()), nil
}

func (e *Encoders) zstandard(body []byte) ([]byte, error) {
	w, ok := e.zstd.Get().(*zstd.Encoder)
	if !ok {
		var err error
		if w, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)); err != nil {
			return nil, err
		}
	}
	packed := bytes.Clone(w.EncodeAll(body, nil))
	e.zstd.Put(w)
	return packed, nil
}
