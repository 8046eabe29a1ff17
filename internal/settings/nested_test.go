package settings

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// nested is a settings directory by its folders.
type nested map[string]files

func (n nested) write(t testing.TB, dir string) {
	t.Helper()
	for name, f := range n {
		folder := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(folder, 0o750))
		f.write(t, folder)
	}
}

func (n nested) dir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	n.write(t, dir)
	return dir
}

// broken has an error in its policies.
func broken() files { return served().with("policies.json", `{"tables": {"events": {"viewer": {}}}}`) }

const brokenFinding = `birch/policies.json:1: error: tables.events.viewer: role "viewer" is not in roles.json`

// reloadOf reloads the whole directory, or one folder.
func reloadOf(t *testing.T, r *Registry, folder ...tenant.ID) ReloadResult {
	t.Helper()
	var id *tenant.ID
	if len(folder) > 0 {
		id = &folder[0]
	}
	result := r.Reload(t.Context(), id)
	require.NoError(t, result.Err)
	return result
}

func isServed(r *Registry, id tenant.ID) bool {
	_, err := r.Get(id)
	return err == nil
}

// A root with folders that can be no tenant's, or no complete one, is not
// served.
func TestRootThatHoldsOnlyFolders(t *testing.T) {
	for folder, says := range map[string]string{
		"lost+found": "lost+found: error: the folder's name is not a tenant id",
		"birch":      "birch/roles.json: error: the file is missing",
		"birch.bak":  "birch.bak: error: the folder's name is not a tenant id",
	} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o750))
		r := Validate(dir)
		assert.Equal(t, ShapeNested, r.Shape)
		assert.Empty(t, r.Tenants)
		assert.False(t, r.OK())
		_, err := NewRegistry(dir, Options{})
		assert.ErrorContains(t, err, says)
	}
}

// One tenant's bad folder costs that tenant alone.
func TestOneTenantsBadFolder(t *testing.T) {
	dir := nested{"birch": served(), "cedar": served()}.dir(t)
	var log bytes.Buffer
	r, err := NewRegistry(dir, Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	require.NoError(t, err)
	assert.True(t, r.Nested())
	cedar, err := r.Get("cedar")
	require.NoError(t, err)
	birch, err := r.Get("birch")
	require.NoError(t, err)
	assert.Equal(t, tenant.ID("birch"), birch.Tenant)
	assert.Nil(t, birch.PolicyDocument(), "what only checks need is not kept")

	for _, folder := range [][]tenant.ID{nil, {"birch"}} {
		broken().write(t, filepath.Join(dir, "birch"))
		result := reloadOf(t, r, folder...)
		assert.False(t, result.Adopted)
		assert.Equal(t, []string{brokenFinding}, errorsOf(result.Findings))
		_, err = r.Get("birch")
		require.ErrorIs(t, err, ErrRejected, "whatever it had before")
		assert.Equal(t, []string{brokenFinding}, errorsOf(r.Findings("birch")))
		assert.Empty(t, r.Findings("cedar"))
		assert.Equal(t, []tenant.ID{"birch", "cedar"}, r.Tenants(), "a rejected tenant is held")
		same, err := r.Get("cedar")
		require.NoError(t, err)
		assert.Same(t, cedar, same)

		served().write(t, filepath.Join(dir, "birch"))
		assert.True(t, reloadOf(t, r, "birch").Adopted)
		assert.True(t, isServed(r, "birch"))
		assert.Empty(t, r.Findings("birch"))
	}
	assert.Contains(t, log.String(), `"msg":"settings rejected; the tenant is not served","tenant":"birch"`)
	assert.Contains(t, log.String(), `"tenant":"birch","file":"birch/policies.json"`)
	assert.NotContains(t, log.String(), `"tenant":"cedar"`)
}

func TestNestedBootRejectsOnlyTheBroken(t *testing.T) {
	dir := nested{"birch": broken(), "cedar": served(), "elm": served().with("pipes.json", "")}.dir(t)
	r, err := NewRegistry(dir, Options{})
	require.NoError(t, err)
	assert.Equal(t, []tenant.ID{"cedar"}, slices.Collect(maps.Keys(r.Snapshots())))
	_, err = r.Get("elm")
	assert.ErrorIs(t, err, ErrRejected)
	_, err = r.Get(tenant.Default)
	assert.ErrorIs(t, err, ErrUnknownTenant, "there is no default tenant unless a folder makes it")
}

func TestNestedBootRefusesToServeNobody(t *testing.T) {
	_, err := NewRegistry(nested{"birch": broken(), "elm": {"pipes.json": "", "roles.json": "["}}.dir(t), Options{})
	var refused *FindingsError
	require.ErrorAs(t, err, &refused)
	for _, part := range []string{brokenFinding, "elm/pipes.json: error", "elm/roles.json:1: error"} {
		assert.Contains(t, err.Error(), part)
	}
}

func TestNestedReloadMirrorsTheFolders(t *testing.T) {
	dir := nested{"birch": served(), "cedar": served()}.dir(t)
	r, err := NewRegistry(dir, Options{})
	require.NoError(t, err)
	var told []map[tenant.ID]*Snapshot
	r.OnAdopt(func(_ context.Context, s map[tenant.ID]*Snapshot) { told = append(told, s) })
	cedar, _ := r.Get("cedar")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "birch")))
	nested{"elm": served()}.write(t, dir)
	elm := tenant.ID("elm")
	assert.ErrorIs(t, r.Reload(t.Context(), &elm).Err, ErrUnknownTenant, "one folder alone makes no tenant")
	assert.True(t, reloadOf(t, r).Adopted)
	_, err = r.Get("birch")
	assert.ErrorIs(t, err, ErrUnknownTenant)
	assert.Equal(t, []tenant.ID{"cedar", "elm"}, r.Tenants())
	require.Len(t, told, 1)
	assert.Same(t, cedar, told[0]["cedar"], "what did not change keeps its snapshot")
	assert.Contains(t, told[0], elm)

	for _, name := range []string{"cedar", "elm"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
	}
	assert.True(t, reloadOf(t, r).Adopted, "an emptied root is one without folders")
	assert.Empty(t, r.Tenants())
	require.Len(t, told, 2)
	assert.Empty(t, told[1])

	nested{"birch": served()}.write(t, dir)
	assert.True(t, reloadOf(t, r).Adopted)
	assert.True(t, isServed(r, "birch"))
}

func TestReloadOfOneFolderReadsNothingElse(t *testing.T) {
	dir := nested{"birch": served(), "cedar": served()}.dir(t)
	r, err := NewRegistry(dir, Options{})
	require.NoError(t, err)
	broken().write(t, filepath.Join(dir, "cedar"))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "elm")))
	served().with("config.json", maxRows("5")).write(t, filepath.Join(dir, "birch"))
	assert.True(t, reloadOf(t, r, "birch").Adopted)
	birch, err := r.Get("birch")
	require.NoError(t, err)
	assert.Equal(t, 5, birch.Config.Query.DefaultMaxRows)
	assert.True(t, isServed(r, "cedar"), "nobody looked at it")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "birch")))
	result := reloadOf(t, r, "birch")
	assert.False(t, result.Adopted)
	assert.Equal(t, []string{"birch: error: the folder is gone; a reload of the whole directory forgets the tenant"}, errorsOf(result.Findings))
	_, err = r.Get("birch")
	assert.ErrorIs(t, err, ErrRejected)
}

func TestNestedIsNotWatched(t *testing.T) {
	dir := nested{"birch": served()}.dir(t)
	r, err := NewRegistry(dir, Options{Poll: time.Millisecond})
	require.NoError(t, err)
	r.OnAdopt(func(context.Context, map[tenant.ID]*Snapshot) { t.Error("nobody asked for a reload") })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	put(t, filepath.Join(dir, "birch", "config.json"), maxRows("5"))
	require.NoError(t, r.Run(ctx))
	birch, _ := r.Get("birch")
	assert.Equal(t, 10_000, birch.Config.Query.DefaultMaxRows)
}

func TestNestedMetrics(t *testing.T) {
	dir := nested{"birch": served(), "cedar": served(), "elm": served()}.dir(t)
	registry := prometheus.NewRegistry()
	r, err := NewRegistry(dir, Options{Metrics: registry})
	require.NoError(t, err)
	expect := func(successful, served, rejected int, adopted, unchanged, partial, refused int) {
		t.Helper()
		var text strings.Builder
		fmt.Fprintln(&text, "# HELP wavehouse_settings_generation_info The hash of the settings that a tenant is served by; the value is always 1.")
		fmt.Fprintln(&text, "# TYPE wavehouse_settings_generation_info gauge")
		for id, s := range r.Snapshots() {
			fmt.Fprintf(&text, "wavehouse_settings_generation_info{hash=%q,tenant=%q} 1\n", s.Hash, id)
		}
		assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(text.String()), "wavehouse_settings_generation_info"))
		assert.InDelta(t, successful, testutil.ToFloat64(r.metrics.successful), 0)
		assert.InDelta(t, served, testutil.ToFloat64(r.metrics.tenants.WithLabelValues("served")), 0)
		assert.InDelta(t, rejected, testutil.ToFloat64(r.metrics.tenants.WithLabelValues("rejected")), 0)
		for result, n := range map[string]int{resultAdopted: adopted, resultUnchanged: unchanged, resultPartial: partial, resultRefused: refused} {
			assert.InDelta(t, n, testutil.ToFloat64(r.metrics.reloads.WithLabelValues(result)), 0, result)
		}
	}
	expect(1, 3, 0, 1, 0, 0, 0)
	reloadOf(t, r)
	expect(1, 3, 0, 1, 1, 0, 0)
	broken().write(t, filepath.Join(dir, "birch"))
	reloadOf(t, r)
	expect(0, 2, 1, 1, 1, 1, 0)
	served().with("config.json", maxRows("5")).write(t, filepath.Join(dir, "cedar"))
	reloadOf(t, r, "cedar")
	expect(0, 2, 1, 2, 1, 1, 0) // another tenant is still rejected
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "elm")))
	put(t, filepath.Join(dir, "README"), "")
	reloadOf(t, r)
	expect(0, 2, 1, 2, 1, 1, 1)
	served().write(t, filepath.Join(dir, "birch"))
	reloadOf(t, r, "birch")
	expect(0, 3, 0, 3, 1, 1, 1) // the root still cannot be adopted
	require.NoError(t, os.Remove(filepath.Join(dir, "README")))
	reloadOf(t, r)
	expect(1, 2, 0, 4, 1, 1, 1)
}

func TestValidateOneTenant(t *testing.T) {
	dir := nested{"birch": broken(), "cedar": served(), "no tenant": {}}.dir(t)
	one := ValidateTenant(dir, "cedar")
	assert.True(t, one.OK())
	assert.Len(t, one.Tenants, 1)
	assert.NotNil(t, one.Tenants["cedar"].PolicyDocument())
	assert.Equal(t, []string{brokenFinding}, errorsOf(ValidateTenant(dir, "birch").Findings))
	assert.Equal(t, []string{"settings directory: error: it holds no tenant elm"}, errorsOf(ValidateTenant(dir, "elm").Findings))
	assert.Equal(t, []tenant.ID{"birch", "cedar"}, Validate(dir).Known)

	flat := served().dir(t)
	assert.Len(t, ValidateTenant(flat, tenant.Default).Tenants, 1)
	assert.Empty(t, ValidateTenant(flat, "birch").Tenants)
	assert.False(t, ValidateTenant(flat, "birch").OK())
	assert.Len(t, ValidateTenant("/nowhere/at/all", "birch").Findings, 1)
	put(t, filepath.Join(dir, "README"), "")
	assert.False(t, ValidateTenant(dir, "cedar").OK(), "a fault of the root concerns everyone")
}
