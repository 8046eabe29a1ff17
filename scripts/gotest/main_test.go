package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// write makes a module with one test file.
func write(t *testing.T, test string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module sample\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package sample\n"+test), 0o600))
	t.Chdir(dir)
}

func TestCountsAndShowsWhatFailed(t *testing.T) {
	write(t, `
import "testing"
func TestGood(t *testing.T) { t.Log("quiet") }
func TestBad(t *testing.T) { t.Error("loud") }
func TestSkipped(t *testing.T) { t.Skip("because") }
`)
	var out, errOut bytes.Buffer
	totals := filepath.Join(t.TempDir(), "totals")
	require.Equal(t, 1, run([]string{"./..."}, totals, &out, &errOut))
	require.Contains(t, out.String(), "loud")
	require.Contains(t, out.String(), "because")
	require.NotContains(t, out.String(), "quiet")
	data, err := os.ReadFile(totals)
	require.NoError(t, err)
	require.Equal(t, "1 1 1", strings.TrimSpace(string(data)))
}

func TestPassesWhenAllPass(t *testing.T) {
	write(t, "import \"testing\"\nfunc TestGood(t *testing.T) {}\n")
	var out, errOut bytes.Buffer
	require.Zero(t, run([]string{"./..."}, "", &out, &errOut))
	require.Contains(t, out.String(), "1 passed, 0 failed, 0 skipped")
}

func TestABuildErrorIsAFailure(t *testing.T) {
	write(t, "func broken( {\n")
	var out, errOut bytes.Buffer
	require.Equal(t, 1, run([]string{"./..."}, "", &out, &errOut))
	require.Contains(t, out.String()+errOut.String(), "a_test.go")
}
