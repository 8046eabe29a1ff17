package cache_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
)

// What is compressed with kept encoders is what new ones make of it.
func TestEncodersKeepNothingOfWhatWasBefore(t *testing.T) {
	var kept cache.Encoders
	for _, size := range []int{100, 3000, 300_000, 2000, 90_000} {
		body := []byte(strings.Repeat("some text, ", size/11) + strings.Repeat("x", size%7))
		got, err := kept.Compress(cache.NewValue(body, "text/plain", nil))
		require.NoError(t, err)
		want, err := new(cache.Encoders).Compress(cache.NewValue(body, "text/plain", nil))
		require.NoError(t, err)
		assert.Equal(t, want, got)
		back, err := got.Body()
		require.NoError(t, err)
		assert.Equal(t, body, back)
	}
}

// BenchmarkCompress is what keeping an answer of some hundred rows costs.
func BenchmarkCompress(b *testing.B) {
	body := []byte(strings.Repeat(`{"page":"/products/12/reviews","views":412},`, 200))
	var encoders cache.Encoders
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encoders.Compress(cache.NewValue(body, "application/json", nil)); err != nil {
			b.Fatal(err)
		}
	}
}
