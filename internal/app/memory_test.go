package app

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	file := filepath.Join(t.TempDir(), "memory.max")
	t.Setenv("GOMEMLIMIT", "")
	for text, want := range map[string]int64{"max\n": 0, "": 0, "-1": 0, "1000000000\n": 900_000_000} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.Equal(t, want, LimitMemory(file), text)
	}
	require.EqualValues(t, 900_000_000, debug.SetMemoryLimit(-1))
	require.Zero(t, LimitMemory(filepath.Join(t.TempDir(), "none")))
	t.Setenv("GOMEMLIMIT", "1GiB")
	require.Zero(t, LimitMemory(file), "it is set already")
}

func TestSpareHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	require.Len(t, SpareHeap(0), 64<<20)
	require.Len(t, SpareHeap(256<<20), 32<<20, "an eighth")
	require.Len(t, SpareHeap(64<<30), 64<<20)
	t.Setenv("GOGC", "100")
	require.Nil(t, SpareHeap(0))
}

func TestSpareHeapTakesNoRoom(t *testing.T) {
	resident := func() int {
		data, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Skip("no /proc here")
		}
		pages, err := strconv.Atoi(strings.Fields(string(data))[1])
		require.NoError(t, err)
		return pages * os.Getpagesize()
	}
	t.Setenv("GOGC", "")
	debug.FreeOSMemory()
	before := resident()
	var kept [][]byte
	for range 8 { // half a gigabyte, if it were touched
		kept = append(kept, SpareHeap(0))
	}
	require.Less(t, resident()-before, 256<<20)
	runtime.KeepAlive(kept)
}
