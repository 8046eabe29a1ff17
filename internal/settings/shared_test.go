package settings

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTenantsOfEqualFilesShareWhatTheyWereCompiledTo(t *testing.T) {
	own := served().with("config.json", maxRows("5"))
	dir := nested{"birch": served(), "cedar": served(), "elm": own}.dir(t)
	r, err := NewRegistry(dir, Options{})
	require.NoError(t, err)
	birch, cedar, elm := r.Snapshots()["birch"], r.Snapshots()["cedar"], r.Snapshots()["elm"]
	assert.NotSame(t, birch, cedar)
	assert.Same(t, birch.Config, cedar.Config)
	assert.Same(t, birch.Policy, cedar.Policy)
	assert.Same(t, birch.Pipes, cedar.Pipes)
	assert.NotSame(t, birch.Config, elm.Config)
	assert.Same(t, birch.Policy, elm.Policy, "file by file")

	roles := served().with("roles.json", `{"roles": ["public", "viewer", "writer", "more"]}`)
	roles.write(t, filepath.Join(dir, "cedar"))
	reloadOf(t, r, "cedar")
	cedar = r.Snapshots()["cedar"]
	assert.Same(t, birch.Config, cedar.Config)
	assert.NotSame(t, birch.Policy, cedar.Policy, "the roles that it may name are others")
	assert.NotSame(t, birch.Pipes, cedar.Pipes)
}

func TestWhatNobodyHoldsAnyMoreIsForgotten(t *testing.T) {
	dir := nested{"birch": served(), "elm": served()}.dir(t)
	r, err := NewRegistry(dir, Options{})
	require.NoError(t, err)
	for n := range 5 {
		served().with("config.json", maxRows(fmt.Sprint(n+1))).write(t, filepath.Join(dir, "elm"))
		reloadOf(t, r, "elm")
		broken().with("config.json", maxRows(fmt.Sprint(n+100))).write(t, filepath.Join(dir, "birch"))
		reloadOf(t, r)
		served().write(t, filepath.Join(dir, "birch"))
		reloadOf(t, r)
	}
	r.directory.shared.keep(*r.tenants.Load())
	assert.Len(t, r.directory.shared.configs.held, 2)
	assert.Len(t, r.directory.shared.policies.held, 1)
	assert.Len(t, r.directory.shared.pipes.held, 1)
}
