package units

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0":       0,
		"0s":      0,
		"90s":     90 * time.Second,
		"12h":     12 * time.Hour,
		"7d":      7 * Day,
		"2w":      14 * Day,
		"1h30m":   90 * time.Minute,
		"1.5h":    90 * time.Minute,
		".5s":     500 * time.Millisecond,
		"1.s":     time.Second,
		"250ms":   250 * time.Millisecond,
		"5us":     5 * time.Microsecond,
		"5µs":     5 * time.Microsecond,
		"7ns":     7,
		"106751d": 106751 * Day,
	} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestParseDurationRefuses(t *testing.T) {
	for _, text := range []string{
		"", "5", "-1h", "+1h", "s", "1y", "1 h", " 1h", "1h ", "1..5h", "1e3s", "h1", "1h30",
		"106752d", strings.Repeat("9", 60) + "h", strings.Repeat("1h", 40), "NaNs", "0x1s", "1M",
	} {
		_, err := ParseDuration(text)
		assert.Error(t, err, "%q", text)
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "0B": 0, "100B": 100, "1KB": 1000, "1kB": 1000, "1KiB": 1024,
		"512MiB": 512 << 20, "1.5GB": 15e8, "50GB": 50e9, "2TiB": 2 << 40, "3TB": 3e12, "4MB": 4e6, "1GiB": 1 << 30,
	} {
		got, err := ParseSize(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestParseSizeRefuses(t *testing.T) {
	for _, text := range []string{
		"", "5", "-1MB", "MB", "1mb", "1 MB", "1MB2KB", "1e3B", "99999999TiB", strings.Repeat("9", 80) + "B",
	} {
		_, err := ParseSize(text)
		assert.Error(t, err, "%q", text)
	}
}

func TestNumbersTakeTheirUnit(t *testing.T) {
	d, err := DurationOf("1.5", "m")
	require.NoError(t, err)
	assert.Equal(t, 90*time.Second, d)
	n, err := SizeOf("0.5", "GB")
	require.NoError(t, err)
	assert.Equal(t, int64(5e8), n)
	for _, bad := range []string{"-1", "1e9", "1E9", "9999999999999999999999", "x", strings.Repeat("1", 80)} {
		_, err := DurationOf(bad, "s")
		assert.Error(t, err, bad)
		_, err = SizeOf(bad, "GB")
		assert.Error(t, err, bad)
	}
}

func TestFormatsReadBack(t *testing.T) {
	for _, d := range []time.Duration{0, time.Nanosecond, 90 * time.Second, time.Minute, time.Hour, 36 * time.Hour, 7 * Day, 61 * time.Minute, math.MaxInt64} {
		got, err := ParseDuration(FormatDuration(d))
		require.NoError(t, err, FormatDuration(d))
		assert.Equal(t, d, got)
	}
	for _, n := range []int64{0, 1, 999, 1000, 1024, 16 << 20, 50e9, 1<<62 + 1} {
		got, err := ParseSize(FormatSize(n))
		require.NoError(t, err, FormatSize(n))
		assert.Equal(t, n, got)
	}
	assert.Equal(t, "1h", FormatDuration(time.Hour))
	assert.Equal(t, "1m30s", FormatDuration(90*time.Second))
	assert.Equal(t, "16MiB", FormatSize(16<<20))
	assert.Equal(t, "50GB", FormatSize(50e9))
}
