package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func probe(dir string) ([]string, error) {
	return (&Config{DataDir: dir}).ProbeDataDir()
}

func TestProbeCreatesAndWarnsOfMissingState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	warnings, err := probe(dir)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "not on a volume that persists")
	assert.DirExists(t, dir)

	require.NoError(t, os.Mkdir(filepath.Join(dir, stateFolder), 0o750))
	warnings, err = probe(dir)
	require.NoError(t, err)
	assert.Len(t, warnings, 1, "an empty state folder warns too")

	write(t, filepath.Join(dir, stateFolder, "x"), "")
	warnings, err = probe(dir)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "the probe leaves nothing behind")
}

// A process whose queue is elsewhere has no state to miss.
func TestProbeMissesNoStateOfAQueueElsewhere(t *testing.T) {
	warnings, err := (&Config{DataDir: t.TempDir(), MQ: MQ{Backend: "nats"}}).ProbeDataDir()
	require.NoError(t, err)
	assert.Empty(t, warnings)
}

func TestProbeRefuses(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "file"), "")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "gone"), link))
	for path, want := range map[string]string{
		"":                         "data_dir is empty",
		file:                       "is not a directory",
		link:                       "which does not exist: is the volume mounted?",
		filepath.Join(file, "sub"): "not a directory",
		"/proc/wavehouse":          "UID 65532",
		"/proc":                    "chown -R 65532",
	} {
		_, err := probe(path)
		require.Error(t, err, path)
		assert.Contains(t, err.Error(), want, path)
	}
}

func TestProbeRefusesUnreadableState(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, stateFolder), "a file where the queue's folder should be")
	_, err := probe(dir)
	assert.ErrorContains(t, err, "queue's folder cannot be read")
}

func TestProbeFollowsALink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	_, err := probe(link)
	assert.NoError(t, err)
}
