package settings

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// TestAThousandFolders: half of them broken, each in one of many ways.
func TestAThousandFolders(t *testing.T) {
	const folders = 1000
	defects := []func(folder string){
		func(f string) { require.NoError(t, os.Remove(filepath.Join(f, "roles.json"))) },
		func(f string) { put(t, filepath.Join(f, "config.json"), `{"query": {},}`) },
		func(f string) { put(t, filepath.Join(f, "config.json"), "\xef\xbb\xbf{}") },
		func(f string) { put(t, filepath.Join(f, "policies.json"), "null") },
		func(f string) { put(t, filepath.Join(f, "policies.json"), strings.Repeat("[", 10_000)) },
		func(f string) { put(t, filepath.Join(f, "pipes.json"), `{"pipes": [], "pipes": []}`) },
		func(f string) { put(t, filepath.Join(f, "extra.json"), "{}") },
		func(f string) { require.NoError(t, os.Mkdir(filepath.Join(f, "inner"), 0o750)) },
		func(f string) {
			put(t, filepath.Join(f, "roles.json"), `{"roles": ["`+strings.Repeat("x", maxFileSize)+`"]}`)
		},
		func(f string) {
			require.NoError(t, os.Remove(filepath.Join(f, "pipes.json")))
			require.NoError(t, os.Symlink("pipes.json", filepath.Join(f, "pipes.json")))
		},
		func(f string) { require.NoError(t, os.RemoveAll(f)); require.NoError(t, os.Mkdir(f, 0o750)) },
		func(f string) { require.NoError(t, os.RemoveAll(f)); require.NoError(t, os.Symlink("..", f)) },
	}
	dir := t.TempDir()
	for i := range folders {
		folder := filepath.Join(dir, fmt.Sprintf("t%04d", i))
		require.NoError(t, os.Mkdir(folder, 0o750))
		served().with("config.json", maxRows(fmt.Sprint(i+1))).write(t, folder)
		if i%2 == 1 {
			defects[i/2%len(defects)](folder)
		}
	}
	r, err := NewRegistry(dir, Options{})
	require.NoError(t, err)
	require.Len(t, r.Tenants(), folders)
	before := r.Snapshots()
	require.Len(t, before, folders/2)
	for i := range folders {
		id := tenant.ID(fmt.Sprintf("t%04d", i))
		s, err := r.Get(id)
		if i%2 == 1 {
			require.ErrorIs(t, err, ErrRejected)
			require.True(t, HasErrors(r.Findings(id)), id)
			for _, f := range r.Findings(id) {
				require.True(t, f.File == id.String() || strings.HasPrefix(f.File, id.String()+"/"), f)
			}
			continue
		}
		require.NoError(t, err)
		require.Equal(t, i+1, s.Config.Query.DefaultMaxRows, "its own and nobody else's")
	}
	result := reloadOf(t, r)
	assert.False(t, result.Adopted)
	assert.Equal(t, before, r.Snapshots())
	for id, s := range r.Snapshots() {
		require.Same(t, before[id], s)
	}
}

// TestReloadStorm reloads the whole, single folders and reads all at once,
// while folders come, break and go. A tenant that nobody touches is always
// served, by the same snapshot.
func TestReloadStorm(t *testing.T) {
	dir := nested{"steady": served(), "birch": served(), "cedar": served()}.dir(t)
	r, err := NewRegistry(dir, Options{})
	require.NoError(t, err)
	steady, err := r.Get("steady")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				s, err := r.Get("steady")
				assert.NoError(t, err)
				assert.Same(t, steady, s)
				if s, err := r.Get("birch"); err == nil {
					assert.Equal(t, tenant.ID("birch"), s.Tenant)
				}
				_, _, _ = r.Tenants(), r.Findings("birch"), r.Snapshots()
			}
		})
	}
	for _, id := range []tenant.ID{"birch", "cedar", "elm"} {
		writers.Go(func() {
			folder := filepath.Join(dir, id.String())
			for i := range 20 {
				switch i % 4 {
				case 0:
					nested{id.String(): served().with("config.json", maxRows(fmt.Sprint(i+1)))}.write(t, dir)
				case 1:
					put(t, filepath.Join(folder, "roles.json"), "[")
				case 2:
					_ = os.RemoveAll(folder)
				}
				r.Reload(context.WithoutCancel(t.Context()), nil)
				r.Reload(context.WithoutCancel(t.Context()), &id)
			}
		})
	}
	writers.Wait()
	stop()
	readers.Wait()
	for _, name := range []string{"birch", "cedar", "elm"} {
		nested{name: served()}.write(t, dir)
	}
	assert.True(t, reloadOf(t, r).Adopted)
	assert.Len(t, r.Snapshots(), 4)
}
