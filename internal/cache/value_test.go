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
