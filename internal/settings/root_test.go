package settings

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// TestFindingsAboutTheRoot: each refuses the start, and changes nothing on a
// reload, also not for the folders that changed.
func TestFindingsAboutTheRoot(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
		boots bool // as another shape, which a running server does not take
	}{
		"plain file": {func(t *testing.T, dir string) { put(t, filepath.Join(dir, "README"), "x") },
			"README: error: unexpected entry: a nested settings directory holds one folder for each tenant", false},
		"mixed shapes": {func(t *testing.T, dir string) { put(t, filepath.Join(dir, "roles.json"), "{}") },
			"roles.json: error: one of the four files beside the tenants' folders", false},
		"dangling link": {func(t *testing.T, dir string) { require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "elm"))) },
			"elm: error: cannot be read: the link leads nowhere", false},
		"loop": {func(t *testing.T, dir string) { require.NoError(t, os.Symlink("elm", filepath.Join(dir, "elm"))) },
			"elm: error: cannot be read: too many levels of symbolic links", false},
		"link to a file": {func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("birch/roles.json", filepath.Join(dir, "elm")))
		}, "elm: error: unexpected entry", false},
		"no directory": {func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) },
			"/settings cannot be read: no such file or directory", false},
		"a file in its place": {func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			put(t, dir, "{}")
		}, "/settings cannot be read: not a directory", false},
		"flat now": {func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Mkdir(dir, 0o750))
			served().write(t, dir)
		}, "roles.json: error: one of the four files beside the tenants' folders", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "settings")
			nested{"birch": served(), "cedar": served()}.write(t, dir)
			r, err := NewRegistry(dir, Options{})
			require.NoError(t, err)
			r.OnAdopt(func(context.Context, map[tenant.ID]*Snapshot) { t.Error("nothing was adopted") })
			broken().write(t, filepath.Join(dir, "birch"))
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "cedar")))
			c.spoil(t, dir)

			result := reloadOf(t, r)
			assert.False(t, result.Adopted)
			assert.Contains(t, strings.Join(errorsOf(result.Findings), "\n"), c.want)
			assert.True(t, isServed(r, "birch"))
			assert.True(t, isServed(r, "cedar"))

			_, err = NewRegistry(dir, Options{})
			assert.Equal(t, c.boots, err == nil, err)
			if err == nil {
				return
			}
			if info, statErr := os.Stat(dir); statErr == nil && info.IsDir() {
				served().write(t, filepath.Join(dir, "birch"))
			}
			_, err = NewRegistry(dir, Options{})
			assert.Error(t, err, "with good folders too")
		})
	}
}

func TestFlatServerKeepsItsShape(t *testing.T) {
	dir := served().dir(t)
	r, _ := newRegistry(t, dir, Options{})
	assert.False(t, r.Nested())
	for _, name := range fileNames() {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	nested{"birch": served(), "0": served()}.write(t, dir)
	result := reloadOf(t, r)
	assert.False(t, result.Adopted)
	require.Len(t, result.Findings, 1, "not of the missing files")
	assert.Contains(t, result.Findings[0].Message, "keeps the shape that it started with")
	assert.Equal(t, 10_000, servedRows(r))
	assert.Equal(t, []tenant.ID{tenant.Default}, r.Tenants())
}

func TestNamesOfFolders(t *testing.T) {
	long := strings.Repeat("x", tenant.MaxLen)
	dir := nested{
		"A": served(), "a": served(), long: served(), "9007199254740993": served(), "-": served(),
		"a b": served(), long + "x": served(), "b\u0456rch": served(), "birch.bak": served(), "new\nline\xff": served(),
		"..data": served(), ".git": {},
	}.dir(t)
	r, err := NewRegistry(dir, Options{})
	require.NoError(t, err)
	assert.Equal(t, []tenant.ID{"-", "9007199254740993", "A", "a", tenant.ID(long)}, r.Tenants())
	upper, _ := r.Get("A")
	lower, _ := r.Get("a")
	assert.NotSame(t, upper, lower)
	assert.Equal(t, []string{"A: warning: the name differs from a only by case: they are two tenants"}, warningsOf(r.Findings("A")))

	result := reloadOf(t, r)
	assert.False(t, result.Adopted, "what was skipped is not served")
	found := errorsOf(result.Findings)
	require.Len(t, found, 5)
	assert.Contains(t, strings.Join(found, "|"), "b\u0456rch: error: the folder's name is not a tenant id and it is skipped")
	assert.Contains(t, strings.Join(found, "|"), `"new\nline\xff": error`)
	assert.NotContains(t, strings.Join(found, "|"), "\n", "a finding is one line, whatever a folder is called")
	for _, hostile := range []tenant.ID{"..", "a/../A", "", "..data"} {
		assert.ErrorIs(t, r.Reload(t.Context(), &hostile).Err, ErrUnknownTenant)
	}

	_, err = NewRegistry(nested{"A": served(), "a": served()}.dir(t), Options{FoldCase: true})
	assert.ErrorContains(t, err, "A: error: the name differs from a only by case")
	assert.ErrorContains(t, err, "a: error: the name differs from A only by case")
}

func TestManyBadNames(t *testing.T) {
	n := nested{"birch": served()}
	for i := range maxListed + 20 {
		n[fmt.Sprintf("no tenant %d", i)] = files{}
	}
	r := Validate(n.dir(t))
	assert.Len(t, r.Findings, maxListed+1)
	assert.Len(t, r.Tenants, 1)
}

// TestNestedConfigMap: a root whose folders are links behind "..data", which a
// kubelet swaps, in a directory that is itself reached through a link.
func TestNestedConfigMap(t *testing.T) {
	real := t.TempDir()
	generation := func(name string, n nested) {
		n.write(t, filepath.Join(real, name))
		require.NoError(t, os.Symlink(name, filepath.Join(real, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(real, "..data_tmp"), filepath.Join(real, "..data")))
	}
	generation("..1", nested{"birch": served(), "cedar": served()})
	for _, name := range []string{"birch", "cedar"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(real, name)))
	}
	dir := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.Symlink(real, dir))
	r, err := NewRegistry(dir, Options{})
	require.NoError(t, err)
	cedar, _ := r.Get("cedar")

	generation("..2", nested{"birch": served().with("config.json", maxRows("7")), "cedar": served()})
	require.NoError(t, os.RemoveAll(filepath.Join(real, "..1")))
	assert.True(t, reloadOf(t, r).Adopted)
	birch, err := r.Get("birch")
	require.NoError(t, err)
	assert.Equal(t, 7, birch.Config.Query.DefaultMaxRows)
	same, _ := r.Get("cedar")
	assert.Same(t, cedar, same, "the place changed, the content did not")

	other := nested{"birch": broken(), "cedar": served()}.dir(t)
	require.NoError(t, os.Symlink(other, dir+".tmp"))
	require.NoError(t, os.Rename(dir+".tmp", dir))
	assert.False(t, reloadOf(t, r, "birch").Adopted)
	assert.False(t, isServed(r, "birch"))
}

func TestManyFindingsOfOneTenant(t *testing.T) {
	var tables []string
	for i := range 2 * maxFindings {
		tables = append(tables, fmt.Sprintf(`"t%d": {"viewer": {"select": {}}}`, i))
	}
	dir := nested{"birch": served().with("policies.json", `{"tables": {`+strings.Join(tables, ",")+`}}`)}.dir(t)
	found := errorsOf(Validate(dir).Findings)
	require.Len(t, found, maxFindings+1)
	assert.Equal(t, fmt.Sprintf("birch: error: there are %d more findings; they are not shown", maxFindings), found[maxFindings])
}
