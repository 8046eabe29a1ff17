package settings

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fast is a look every few milliseconds.
var fast = Options{Poll: 5 * time.Millisecond}

// watch runs the registry until the test ends.
func watch(t *testing.T, dir string, o Options) (*Registry, *adoptions) {
	t.Helper()
	r, a := newRegistry(t, dir, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	return r, a
}

func TestWatchFollowsEverySave(t *testing.T) {
	dir := served().dir(t)
	r, _ := watch(t, dir, fast)
	path := filepath.Join(dir, "config.json")
	require.NoError(t, os.WriteFile(path, []byte(maxRows("1")), 0o600))
	eventually(t, "written in place", func() bool { return servedRows(r) == 1 })
	put(t, path, maxRows("2"))
	eventually(t, "renamed over", func() bool { return servedRows(r) == 2 })
	require.NoError(t, os.Rename(path, path[:len(path)-len("config.json")]+".backup"))
	put(t, path, maxRows("3"))
	eventually(t, "moved away and written anew", func() bool { return servedRows(r) == 3 })
}

func TestWatchMakesABurstOneReload(t *testing.T) {
	for end := time.Now().Add(time.Minute); ; {
		dir := served().dir(t)
		r, adopted := watch(t, dir, Options{Poll: time.Second})
		began := time.Now()
		for i := range 50 {
			put(t, filepath.Join(dir, "config.json"), maxRows(strconv.Itoa(i+1)))
		}
		put(t, filepath.Join(dir, "config.json"), maxRows("77"))
		burst := time.Since(began) < 500*time.Millisecond // else the machine made several of it
		eventually(t, "the last content", func() bool { return servedRows(r) == 77 && adopted.count() > 0 })
		if burst || time.Now().After(end) {
			assert.Equal(t, 1, adopted.count())
			return
		}
	}
}

func TestWatchCutsABurstThatNeverEnds(t *testing.T) {
	dir := served().dir(t)
	r, _ := watch(t, dir, Options{Poll: 20 * time.Millisecond})
	put(t, filepath.Join(dir, "config.json"), maxRows("5"))
	deadline := time.Now().Add(30 * time.Second)
	for servedRows(r) != 5 {
		require.True(t, time.Now().Before(deadline), "the burst was never cut")
		put(t, filepath.Join(dir, ".noise"), "x")
	}
}

func TestWatchRecoversFromABadEdit(t *testing.T) {
	dir := served().dir(t)
	r, _ := watch(t, dir, fast)
	put(t, filepath.Join(dir, "config.json"), "{")
	eventually(t, "refused", func() bool { return !r.Reload(context.WithoutCancel(t.Context()), nil).Adopted })
	put(t, filepath.Join(dir, "config.json"), maxRows("4"))
	eventually(t, "adopted again", func() bool { return servedRows(r) == 4 })
}

func TestWatchFindsWhatChangedBeforeItBegan(t *testing.T) {
	dir := served().dir(t)
	r, _ := newRegistry(t, dir, fast)
	put(t, filepath.Join(dir, "config.json"), maxRows("6"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	eventually(t, "adopted", func() bool { return servedRows(r) == 6 })
	cancel()
	assert.NoError(t, <-done)
}

// TestConfigMapStyleSwap writes what a kubelet writes.
func TestConfigMapStyleSwap(t *testing.T) {
	dir := t.TempDir()
	generation := func(n int) string {
		name := fmt.Sprintf("..2026_%d", n)
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o750))
		served().with("config.json", maxRows(strconv.Itoa(n))).write(t, filepath.Join(dir, name))
		return name
	}
	old := generation(1)
	require.NoError(t, os.Symlink(old, filepath.Join(dir, "..data")))
	for _, name := range fileNames() {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	r, adopted := watch(t, dir, Options{Poll: 20 * time.Millisecond})
	require.Equal(t, 1, servedRows(r))
	for n := 2; n <= 4; n++ {
		next := generation(n)
		require.NoError(t, os.Symlink(next, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, old)))
		eventually(t, fmt.Sprintf("swap %d", n), func() bool { return servedRows(r) == n })
		old = next
	}
	eventually(t, "told of each swap", func() bool { return adopted.count() >= 3 })
	assert.Equal(t, 3, adopted.count(), "each swap is one reload")
}

// TestWatchFollowsTheLinkToTheDirectory swaps the directory itself, three
// times, as deployments with release folders do.
func TestWatchFollowsTheLinkToTheDirectory(t *testing.T) {
	root := t.TempDir()
	link := filepath.Join(root, "settings")
	release := func(n int) string {
		dir := served().with("config.json", maxRows(strconv.Itoa(n))).dir(t)
		require.NoError(t, os.Symlink(dir, link+".next"))
		require.NoError(t, os.Rename(link+".next", link))
		return dir
	}
	old := release(1)
	r, _ := watch(t, link, fast)
	for n := 2; n <= 4; n++ {
		next := release(n)
		require.NoError(t, os.RemoveAll(old))
		eventually(t, fmt.Sprintf("swap %d", n), func() bool { return servedRows(r) == n })
		put(t, filepath.Join(next, "config.json"), maxRows(strconv.Itoa(n*10)))
		eventually(t, "a save in the new directory", func() bool { return servedRows(r) == n*10 })
		old = next
	}
}

func TestWatchOutlivesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.Mkdir(dir, 0o750))
	served().write(t, dir)
	r, _ := watch(t, dir, fast)
	require.NoError(t, os.RemoveAll(dir))
	eventually(t, "refused", func() bool { return !r.Reload(context.WithoutCancel(t.Context()), nil).Adopted })
	assert.Equal(t, DefaultConfig().Query.DefaultMaxRows, servedRows(r), "what was served is served")
	require.NoError(t, os.Mkdir(dir, 0o750))
	served().with("config.json", maxRows("8")).write(t, dir)
	eventually(t, "found again", func() bool { return servedRows(r) == 8 })
}
