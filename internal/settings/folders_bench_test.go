package settings

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// manyFolders writes n folders that differ in their config.json.
func manyFolders(b *testing.B, n int, f files) string {
	b.Helper()
	dir := b.TempDir()
	for i := range n {
		nested{fmt.Sprintf("t%05d", i): f.with("config.json", maxRows(fmt.Sprint(i+1)))}.write(b, dir)
	}
	return dir
}

// rich is a tenant with a policy and pipes of some size.
func rich() files {
	return files{
		"roles.json": `{"roles": ["public", "viewer", "writer"]}`,
		"policies.json": `{"default_role": "public", "tables": {
			"events": {"viewer": {"select": {"deny_columns": ["ip"], "filter": {"org": {"_eq": "{{ jwt.org }}"}}}}, "writer": {"insert": {"allow_columns": ["*"], "check": {"org": {"_eq": "{{ jwt.org }}"}}}}},
			"clicks": {"viewer": {"select": {"allow_columns": ["page", "at", "org"]}}}, "*": {"public": {"select": {}}}}}`,
		"pipes.json": `{"pipes": [{"name": "views_of", "sql": "SELECT count() AS views FROM events WHERE page = {{page}}",
			"parameters": [{"name": "page", "type": "string", "required": true}], "allowed_roles": ["viewer"]}]}`,
	}
}

// BenchmarkFolders is a nested directory of 1,000 tenants: the start, a reload
// of the whole that finds nothing new, one of a single folder, and the memory
// that a tenant's settings keep.
func BenchmarkFolders(b *testing.B) {
	const tenants = 1000
	for name, f := range map[string]files{"minimal": served(), "rich": rich()} {
		dir := manyFolders(b, tenants, f)
		b.Run(name+"/start", func(b *testing.B) {
			for b.Loop() {
				_, err := NewRegistry(dir, Options{})
				require.NoError(b, err)
			}
		})
		before := heap()
		r, err := NewRegistry(dir, Options{})
		require.NoError(b, err)
		kept := heap() - before
		require.Len(b, r.Snapshots(), tenants)
		b.Run(name+"/reload", func(b *testing.B) {
			for b.Loop() {
				require.True(b, r.Reload(b.Context(), nil).Adopted)
			}
			b.ReportMetric(float64(kept)/tenants, "B/tenant")
		})
		b.Run(name+"/reload-one", func(b *testing.B) {
			id := tenant.ID("t00500")
			for i := 0; b.Loop(); i++ {
				put(b, filepath.Join(dir, id.String(), "config.json"), maxRows(fmt.Sprint(i%1000+1)))
				require.True(b, r.Reload(b.Context(), &id).Adopted)
			}
		})
	}
}

// heap is what is reachable, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
