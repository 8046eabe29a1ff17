package settings

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// adoptions records what the hooks were told.
type adoptions struct {
	mu     sync.Mutex
	hashes []string
}

func (a *adoptions) add(_ context.Context, snapshots map[tenant.ID]*Snapshot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hashes = append(a.hashes, snapshots[tenant.Default].Hash)
}

func (a *adoptions) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.hashes)
}

func newRegistry(t *testing.T, dir string, o Options) (*Registry, *adoptions) {
	t.Helper()
	r, err := NewRegistry(dir, o)
	require.NoError(t, err)
	a := &adoptions{}
	r.OnAdopt(a.add)
	return r, a
}

// maxRows tells the generations of a test apart.
func maxRows(n string) string { return `{"query": {"default_max_rows": ` + n + `}}` }

func servedRows(r *Registry) int {
	s, err := r.Get(tenant.Default)
	if err != nil {
		return -1
	}
	return s.Config.Query.DefaultMaxRows
}

func TestRegistryServesTheFlatTenant(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r, _ := newRegistry(t, served().dir(t), Options{Now: func() time.Time { return now }})
	s, err := r.Get(tenant.Default)
	require.NoError(t, err)
	assert.Equal(t, []string{"public"}, s.Roles)
	assert.Equal(t, []tenant.ID{tenant.Default}, r.Tenants())
	assert.Same(t, s, r.Snapshots()[tenant.Default])
	_, err = r.Get("birch")
	assert.ErrorIs(t, err, ErrUnknownTenant)
	birch := tenant.ID("birch")
	assert.ErrorIs(t, r.Reload(t.Context(), &birch).Err, ErrUnknownTenant)
}

func TestRejectedTenantsAreTold(t *testing.T) {
	r, _ := newRegistry(t, served().dir(t), Options{})
	r.tenants.Store(&map[tenant.ID]state{"birch": {}})
	_, err := r.Get("birch")
	require.ErrorIs(t, err, ErrRejected)
	assert.Equal(t, []tenant.ID{"birch"}, r.Tenants())
	assert.Empty(t, r.Snapshots())
}

func TestRegistryRefusesToStartOnErrors(t *testing.T) {
	_, err := NewRegistry(served().with("config.json", `{"x": 1, "y": 2}`).dir(t), Options{})
	var refused *FindingsError
	require.ErrorAs(t, err, &refused)
	assert.Len(t, refused.Findings, 2)
	assert.Contains(t, err.Error(), "config.json:1: error: x: unknown key")
	assert.Contains(t, err.Error(), "config.json:1: error: y: unknown key")
}

func TestReloadAdoptsAndTellsInOrder(t *testing.T) {
	dir := served().dir(t)
	r, first := newRegistry(t, dir, Options{})
	var order []string
	r.OnAdopt(func(ctx context.Context, _ map[tenant.ID]*Snapshot) {
		order = append(order, "second")
		assert.Equal(t, 1, first.count(), "called after the first")
		assert.NoError(t, ctx.Err(), "the steps outlive the request")
	})
	put(t, filepath.Join(dir, "config.json"), maxRows("7"))
	ctx, cancel := context.WithCancel(t.Context())
	r.OnAdopt(func(context.Context, map[tenant.ID]*Snapshot) { cancel() })
	result := r.Reload(ctx, nil)
	assert.True(t, result.Adopted)
	assert.Equal(t, 7, servedRows(r))
	assert.Equal(t, []string{"second"}, order)

	assert.ErrorIs(t, r.Reload(ctx, nil).Err, context.Canceled, "a context that ended takes no turn")
}

func TestReloadOfTheSameContent(t *testing.T) {
	dir := served().dir(t)
	r, adopted := newRegistry(t, dir, Options{})
	before, _ := r.Get(tenant.Default)
	served().write(t, dir)
	id := tenant.Default
	assert.True(t, r.Reload(t.Context(), &id).Adopted)
	after, _ := r.Get(tenant.Default)
	assert.Same(t, before, after, "the snapshot stays")
	assert.Equal(t, 1, adopted.count(), "steps that failed are tried again")
	assert.True(t, r.reload(t.Context(), nil, false).Adopted)
	assert.Equal(t, 1, adopted.count(), "the watcher has nothing to tell")
}

func TestMetrics(t *testing.T) {
	dir := served().dir(t)
	registry := prometheus.NewRegistry()
	now := time.Unix(100, 0)
	r, _ := newRegistry(t, dir, Options{Metrics: registry, Now: func() time.Time { return now }})
	read := func(name string) float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == name {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("no metric " + name)
		return 0
	}
	assert.InDelta(t, 1, read("wavehouse_settings_last_reload_successful"), 0)
	assert.InDelta(t, 100, read("wavehouse_settings_last_reload_success_timestamp_seconds"), 0)

	now = time.Unix(200, 0)
	put(t, filepath.Join(dir, "config.json"), "{")
	assert.False(t, r.Reload(t.Context(), nil).Adopted)
	assert.InDelta(t, 0, read("wavehouse_settings_last_reload_successful"), 0)
	assert.InDelta(t, 100, read("wavehouse_settings_last_reload_success_timestamp_seconds"), 0)

	put(t, filepath.Join(dir, "config.json"), maxRows("5"))
	r.Reload(t.Context(), nil)
	r.Reload(t.Context(), nil)
	s, _ := r.Get(tenant.Default)
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP wavehouse_settings_generation_info The hash of the settings that a tenant is served by; the value is always 1.
# TYPE wavehouse_settings_generation_info gauge
wavehouse_settings_generation_info{hash="`+s.Hash+`",tenant="0"} 1
# HELP wavehouse_settings_reloads_total Readings of the settings directory by their result: adopted, unchanged, partial, refused.
# TYPE wavehouse_settings_reloads_total counter
wavehouse_settings_reloads_total{result="adopted"} 2
wavehouse_settings_reloads_total{result="partial"} 0
wavehouse_settings_reloads_total{result="refused"} 1
wavehouse_settings_reloads_total{result="unchanged"} 1
`), "wavehouse_settings_generation_info", "wavehouse_settings_reloads_total"))
}

// TestBadEditKeepsTheGoodSettings also covers the restart: the directory
// that a reload refused is one that a start refuses, with the same findings.
func TestBadEditKeepsTheGoodSettings(t *testing.T) {
	for name, bad := range map[string]files{
		"trailing comma":  served().with("config.json", `{"query": {},}`),
		"unknown key":     served().with("config.json", `{"quary": {}}`),
		"repeated key":    served().with("config.json", `{"query": {}, "query": {}}`),
		"byte order mark": served().with("config.json", "\xef\xbb\xbf{}"),
		"null":            served().with("config.json", "null"),
		"empty file":      served().with("config.json", "").with("config.json", " "),
		"file missing":    served().with("pipes.json", ""),
		"undeclared role": served().with("policies.json", `{"default_role": "nobody"}`),
		"unexpected file": served().with("other.json", "{}"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := served().dir(t)
			var log bytes.Buffer
			r, adopted := newRegistry(t, dir, Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			before, _ := r.Get(tenant.Default)
			for _, file := range fileNames() {
				if text, ok := bad[file]; ok && text == "" {
					require.NoError(t, os.Remove(filepath.Join(dir, file)))
				}
			}
			bad.write(t, dir)

			result := r.Reload(t.Context(), nil)
			assert.False(t, result.Adopted)
			require.NotEmpty(t, errorsOf(result.Findings))
			assert.NotEmpty(t, result.Findings[0].File)
			assert.NotEmpty(t, result.Findings[0].Message)
			after, err := r.Get(tenant.Default)
			require.NoError(t, err)
			assert.Same(t, before, after)
			assert.Zero(t, adopted.count())
			assert.Contains(t, log.String(), "the settings before it are kept")
			assert.Contains(t, log.String(), `"tenant":"0"`)

			_, err = NewRegistry(dir, Options{})
			var refused *FindingsError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, result.Findings, refused.Findings)
		})
	}
}

func TestReloadsTakeTurns(t *testing.T) {
	dir := served().dir(t)
	r, _ := newRegistry(t, dir, Options{})
	running, peak := 0, 0
	r.OnAdopt(func(context.Context, map[tenant.ID]*Snapshot) {
		running++ // unguarded on purpose: the race detector holds this to one at a time
		peak = max(peak, running)
		running--
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { r.Reload(context.WithoutCancel(t.Context()), nil) })
		wg.Go(func() { _, _ = r.Get(tenant.Default) })
	}
	wg.Wait()
	assert.Equal(t, 1, peak)
}

func BenchmarkGet(b *testing.B) {
	dir := b.TempDir()
	_, err := Bootstrap(dir, Closed())
	require.NoError(b, err)
	r, err := NewRegistry(dir, Options{})
	require.NoError(b, err)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.Get(tenant.Default); err != nil {
				b.Error(err)
			}
		}
	})
}
