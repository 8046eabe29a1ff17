package settings

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// files is a settings directory by file name; what is left out is {}, and ""
// leaves the file out.
type files map[string]string

const openPolicy = `{"default_role": "public", "tables": {"*": {"public": {"select": {}}}}}`

// served is a directory without any finding.
func served() files {
	return files{"roles.json": `{"roles": ["public"]}`, "policies.json": openPolicy}
}

// with returns f with one file changed.
func (f files) with(name, text string) files {
	changed := maps.Clone(f)
	changed[name] = text
	return changed
}

func (f files) write(t testing.TB, dir string) {
	t.Helper()
	for _, name := range slices.Concat(fileNames(), slices.Collect(maps.Keys(f))) {
		text, named := f[name]
		if !named {
			text = "{}"
		}
		if named && text == "" {
			continue
		}
		put(t, filepath.Join(dir, name), text)
	}
}

// dir writes f to a directory of its own.
func (f files) dir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f.write(t, dir)
	return dir
}

// put writes a file so that no reader sees a part of it.
func put(t testing.TB, path, text string) {
	t.Helper()
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	require.NoError(t, os.WriteFile(temp, []byte(text), 0o600))
	require.NoError(t, os.Rename(temp, path))
}

// errorsOf returns the findings that are errors, as text.
func errorsOf(findings []Finding) []string {
	return severityOf(findings, SeverityError)
}

func warningsOf(findings []Finding) []string {
	return severityOf(findings, SeverityWarning)
}

func severityOf(findings []Finding, severity string) []string {
	texts := []string{}
	for _, f := range findings {
		if f.Severity == severity {
			texts = append(texts, f.String())
		}
	}
	return texts
}

// eventually waits for what another goroutine does.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 30*time.Second, 5*time.Millisecond, what)
}
