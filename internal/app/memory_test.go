package app

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/config"
)

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	t.Setenv("GOMEMLIMIT", "")
	LimitMemory(0)
	require.Equal(t, before, debug.SetMemoryLimit(-1))
	LimitMemory(1_000_000_000)
	require.EqualValues(t, 900_000_000, debug.SetMemoryLimit(-1))
	t.Setenv("GOMEMLIMIT", "1GiB")
	LimitMemory(2_000_000_000)
	require.EqualValues(t, 900_000_000, debug.SetMemoryLimit(-1), "it is set already")
}

func TestContainerMemoryIsTheLeastLimitOfAGroup(t *testing.T) {
	const unlimited = "9223372036854771712\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no groups":               {nil, 0},
		"version 2, its own root": {map[string]string{"sys/fs/cgroup/memory.max": "536870912\n", "proc/self/cgroup": "0::/\n"}, 512 << 20},
		"version 2, unlimited":    {map[string]string{"sys/fs/cgroup/memory.max": "max\n"}, 0},
		"version 2, a group above": {map[string]string{
			"proc/self/cgroup":                 "0::/pod/box\n",
			"sys/fs/cgroup/pod/memory.max":     "1000000\n",
			"sys/fs/cgroup/pod/box/memory.max": "2000000\n",
		}, 1000000},
		"version 1": {map[string]string{
			"proc/self/cgroup":                                    "9:cpu,cpuacct:/\n4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          unlimited,
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "536870912\n",
		}, 512 << 20},
		"version 1, mounted as its own": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
		}, 512 << 20},
		"version 1, unlimited": {map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": unlimited}, 0},
		"nonsense":             {map[string]string{"sys/fs/cgroup/memory.max": "-1\n", "proc/self/cgroup": "what\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range test.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o600))
			}
			require.Equal(t, test.want, ContainerMemory(root))
		})
	}
}

func TestSharesOfMemoryLeaveRoom(t *testing.T) {
	for _, limit := range []int64{256 << 20, 512 << 20, 4 << 30} {
		s := sharesOf(limit, config.Limits{})
		require.Equal(t, limit/4, s.answers)
		require.LessOrEqual(t, s.answers+s.bodies+s.waiting+s.batches, limit*5/8)
	}
	require.EqualValues(t, 1<<20, sharesOf(0, config.Limits{Answers: 1 << 20}).answers)
	require.EqualValues(t, 512<<20, sharesOf(0, config.Limits{}).answers)
}

func TestSpareHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	require.Len(t, SpareHeap(0), 64<<20)
	require.Len(t, SpareHeap(256<<20), 16<<20, "a sixteenth")
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

func TestGarbageOfTheStartIsCollectedOnceItIsOver(t *testing.T) {
	for name, f := range map[string]struct {
		busy  time.Duration // how long tables are not known
		lives time.Duration
		at    time.Duration // 0 for never
	}{
		"when all tables are known":      {busy: 5500 * time.Millisecond, lives: time.Hour, at: 6 * time.Second},
		"though some never are":          {busy: 24 * time.Hour, lives: time.Hour, at: time.Minute},
		"not when the process ends then": {busy: time.Hour, lives: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), f.lives)
				defer cancel()
				began, calls := time.Now(), []time.Duration(nil)
				onceStarted(ctx, func() bool { return time.Since(began) < f.busy }, func() { calls = append(calls, time.Since(began)) })
				if f.at == 0 {
					assert.Empty(t, calls)
					return
				}
				assert.Equal(t, []time.Duration{f.at}, calls)
			})
		})
	}
}
