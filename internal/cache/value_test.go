package cache_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
)

func TestValueIsKeptReadyToSend(t *testing.T) {
	for _, c := range []struct {
		size                int
		plain, gzip, packed bool
	}{
		{0, true, false, false}, {1000, true, false, false}, {5000, true, true, false}, {100_000, false, true, true},
	} {
		body := []byte(strings.Repeat("0123456789", c.size/10))
		v, err := new(cache.Encoders).Compress(cache.NewValue(body, "text/plain", nil))
		require.NoError(t, err)
		_, plain := v.Encoded(cache.EncodingPlain)
		zipped, gzipped := v.Encoded(cache.EncodingGzip)
		_, packed := v.Encoded(cache.EncodingZstd)
		assert.Equal(t, []bool{c.plain, c.gzip, c.packed}, []bool{plain, gzipped, packed}, "%d bytes", c.size)
		got, err := v.Body()
		require.NoError(t, err)
		assert.True(t, bytes.Equal(body, got))
		assert.LessOrEqual(t, v.Weight(), c.size+2048)
		if gzipped {
			reader, err := gzip.NewReader(bytes.NewReader(zipped))
			require.NoError(t, err)
			got, err := io.ReadAll(reader)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(body, got))
		}
		assert.Equal(t, cache.NewValue(body, "text/plain", nil).ETag, v.ETag, "the encodings share it")
	}
	assert.NotEqual(t, cache.NewValue([]byte("a"), "", nil).ETag, cache.NewValue([]byte("b"), "", nil).ETag)
}

func TestValueSurvivesItsEncoding(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 5000, 100_000} {
		body := []byte(strings.Repeat("0123456789", size/10+1)[:size])
		for _, tables := range [][]string{nil, {"db.t"}, {"db.t", "a\x00b", ""}} {
			made := cache.NewValue(body, "text/plain; charset=utf-8", tables)
			if len(tables) > 0 {
				made.Notes = []cache.Note{{Name: "X-Made", Value: "now"}, {Name: "Empty"}}
			}
			v, err := new(cache.Encoders).Compress(made)
			require.NoError(t, err)
			data, err := v.MarshalBinary()
			require.NoError(t, err)
			var back cache.Value
			require.NoError(t, back.UnmarshalBinary(data))
			assert.Equal(t, []any{v.ContentType, v.ETag, v.Tables, v.Size, v.Notes}, []any{back.ContentType, back.ETag, back.Tables, back.Size, back.Notes})
			assert.Equal(t, made.Note("X-Made"), back.Note("X-Made"))
			assert.Empty(t, back.Note("no such note"))
			for _, encoding := range []string{cache.EncodingPlain, cache.EncodingGzip, cache.EncodingZstd} {
				want, kept := v.Encoded(encoding)
				got, ok := back.Encoded(encoding)
				assert.Equal(t, kept, ok, "%d bytes, %q", size, encoding)
				assert.True(t, bytes.Equal(want, got), "%d bytes, %q", size, encoding)
			}
			data[0]++
			require.Error(t, back.UnmarshalBinary(data), "of another version")
		}
	}
}

// FuzzEncodedValue: what is not a value is refused, and what is has a body as
// long as it says, or none that can be had.
func FuzzEncodedValue(f *testing.F) {
	for _, size := range []int{0, 10, 2000, 40_000} {
		v, err := new(cache.Encoders).Compress(cache.NewValue([]byte(strings.Repeat("row,", size/4)), "text/csv", []string{"db.t"}))
		require.NoError(f, err)
		data, err := v.MarshalBinary()
		require.NoError(f, err)
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v cache.Value
		if v.UnmarshalBinary(data) != nil || v.Size > 1<<20 {
			return
		}
		if body, err := v.Body(); err == nil {
			assert.Len(t, body, v.Size)
		}
	})
}

func TestPeek(t *testing.T) {
	r, s := newRig(t), newSlow()
	q := s.query("q")
	assert.Nil(t, r.Peek(t.Context(), q.Key))
	s.release <- nil
	_, _, err := r.Get(t.Context(), q)
	require.NoError(t, err)
	require.NotNil(t, r.Peek(t.Context(), q.Key))
	assert.InDelta(t, 1, r.counted(t, "hit"), 0)
}
