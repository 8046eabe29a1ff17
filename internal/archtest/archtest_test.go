package archtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root is the module's root, seen from this package's folder.
const root = "../.."

func TestTheSourceTreeKeepsTheRules(t *testing.T) {
	packages, err := Load(root)
	require.NoError(t, err)
	require.Greater(t, len(packages), 5, "the walk found the tree")
	for _, v := range Check(packages) {
		t.Error(v)
	}
}

func TestLockFilesCarryNoRegistryAddresses(t *testing.T) {
	found, err := CheckLockFiles(root)
	require.NoError(t, err)
	for _, v := range found {
		t.Error(v)
	}
}

func TestLinksOfTheManualLeadSomewhere(t *testing.T) {
	found, err := CheckLinks(root)
	require.NoError(t, err)
	for _, v := range found {
		t.Error(v)
	}
}

func TestCheckNamesTheReason(t *testing.T) {
	const internal = Module + "/internal/"
	tests := []struct {
		name, file, source, what, reason string
	}{
		{"upwards", "internal/record/a.go", importing("record", internal+"api"),
			"import " + internal + "api", "imports point downwards"},
		{"implementation from the API", "internal/api/a.go", importing("api", internal+"mq/embedded"),
			"import " + internal + "mq/embedded", "only internal/app/backends.go chooses implementations"},
		{"a decoder beside the budget", "internal/api/a.go", "package api\n\nfunc f() { _, _ = zstd.NewReader(nil) }\n",
			"zstd.NewReader", "taken from a budget before it exists"},
		{"a body without a bound", "internal/stream/a.go", "package stream\n\nfunc f() { _, _ = io.ReadAll(body) }\n",
			"io.ReadAll", "what is read whole has a bound"},
		{"implementation beside the file that chooses", "internal/app/a.go", importing("app", internal+"cache/local"),
			"import " + internal + "cache/local", "only internal/app/backends.go chooses implementations"},
		{"implementation from a command", "cmd/wavehouse/a.go", importing("main", internal+"coord/local"),
			"import " + internal + "coord/local", "only internal/app/backends.go chooses implementations"},
		{"implementation from its contract", "internal/mq/a.go", importing("mq", internal+"mq/embedded"),
			"import " + internal + "mq/embedded", "only internal/app/backends.go chooses implementations"},
		{"NATS in the API", "internal/api/a.go", importing("api", "github.com/nats-io/nats.go"),
			"import github.com/nats-io/nats.go", "only mq/* may know NATS"},
		{"NATS in the contract", "internal/mq/a.go", importing("mq", "github.com/nats-io/nats.go/jetstream"),
			"import github.com/nats-io/nats.go/jetstream", "only mq/* may know NATS"},
		{"Pebble in the gate", "internal/ingest/a.go", importing("ingest", "github.com/cockroachdb/pebble/v2"),
			"import github.com/cockroachdb/pebble/v2", "only dedupe/pebble may know Pebble"},
		{"assertions in the product", "internal/query/a.go", importing("query", "github.com/stretchr/testify/require"),
			"import github.com/stretchr/testify/require", "assertions belong in tests"},
		{"test support in the product", "internal/app/a.go", importing("app", internal+"clickhouse/clickhousetest"),
			"import " + internal + "clickhouse/clickhousetest", "test support is not part of the product"},
		{"cmd from a package", "internal/app/a.go", importing("app", Module+"/cmd/wavehouse"),
			"import " + Module + "/cmd/wavehouse", "nothing depends on cmd"},
		{"a package without a height", "internal/novel/a.go", importing("novel", internal+"tenant"),
			"import " + internal + "tenant", "internal/novel has no height yet"},
		{"an import without a height", "internal/api/a.go", importing("api", internal+"novel"),
			"import " + internal + "novel", "internal/novel has no height yet"},
		{"a name that says nothing", "internal/query/util/a.go", "package util\n",
			"package util", "named for its one idea"},
		{"a position made by a reader", "internal/stream/a.go",
			"package stream\n\nimport queue \"" + internal + "mq\"\n\nfunc f() any { return queue.NewPosition(1, 2) }\n",
			"mq.NewPosition", "only brokers make positions"},
		{"a position looked into", "cmd/wavehouse/a.go",
			"package main\n\nimport \"" + internal + "mq\"\n\nfunc f(p mq.Position) { mq.SplitPosition(p) }\n",
			"mq.SplitPosition", "only brokers make positions and look inside"},
		{"init", "internal/query/a.go", "package query\n\nfunc init() {}\n",
			"func init", "wired in internal/app"},
		{"state of a command", "cmd/wavehouse/a.go", "package main\n\nvar running bool\n",
			"var running", "state belongs to a value"},
		{"state of a package", "internal/query/a.go", "package query\n\nvar cached map[string]int\n",
			"var cached", "state belongs to a value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := checkTree(t, map[string]string{tt.file: tt.source})
			require.Len(t, found, 1)
			assert.Equal(t, tt.file, found[0].File)
			assert.Equal(t, tt.what, found[0].What)
			assert.Contains(t, found[0].Reason, tt.reason)
			assert.Contains(t, found[0].String(), tt.file+": "+tt.what+": ")
		})
	}
}

func TestCheckAllows(t *testing.T) {
	const internal = Module + "/internal/"
	found := checkTree(t, map[string]string{
		"internal/app/backends.go":                importing("app", internal+"mq/embedded", internal+"api", internal+"tenant"),
		"internal/api/a.go":                       importing("api", internal+"stream", internal+"mq", internal+"tenant", "net/http", "github.com/go-chi/chi/v5"),
		"internal/stream/a.go":                    importing("stream", internal+"policy", internal+"mq"),
		"internal/mq/embedded/a.go":               importing("embedded", internal+"mq", "github.com/nats-io/nats-server/v2/server"),
		"internal/mq/external/a.go":               importing("external", internal+"mq/topology"),
		"internal/mq/mqtest/a.go":                 importing("mqtest", internal+"mq", "github.com/stretchr/testify/require"),
		"internal/clickhouse/clickhousetest/a.go": importing("clickhousetest", internal+"app", "github.com/ClickHouse/clickhouse-go/v2"),
		"cmd/wavehouse/a.go":                      importing("main", internal+"app", "github.com/spf13/cobra"),
		"cmd/wavehouse/version.go":                "package main\n\nvar version, commit string\n",
		"internal/query/a.go": "package query\n\nimport \"errors\"\n\n// ErrX is one.\nvar ErrX = errors.New(\"x\")\n\n" +
			"type T struct{}\n\nfunc (T) init() {}\n",
		"internal/console/a.go":     "package console\n\nimport \"embed\"\n\n//go:embed assets\nvar files embed.FS\n",
		"internal/mq/embedded/b.go": "package embedded\n\nimport \"" + internal + "mq\"\n\nfunc f() any { return mq.NewPosition(1, 2) }\n",
		"internal/auth/b.go":        "package auth\n\nfunc f() { _, _ = io.ReadAll(io.LimitReader(body, 9)) }\n",
		"internal/api/decode.go":    "package api\n\nfunc f() { _, _ = zstd.NewReader(nil) }\n",
		// Neither is looked at: tests may reach anywhere, and fixtures are data.
		"internal/record/a_test.go":         importing("record", internal+"app", internal+"mq/embedded"),
		"internal/record/testdata/bad/a.go": importing("util", internal+"app"),
		"sdk/node_modules/x/a.go":           "package util\n",
	})
	assert.Empty(t, found)
}

func TestLoadReportsTheFileThatDoesNotParse(t *testing.T) {
	dir := writeTree(t, map[string]string{"internal/query/broken.go": "package\n"})
	_, err := Load(dir)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "broken.go")

	_, err = Load(filepath.Join(dir, "absent"))
	require.Error(t, err)
}

func TestCheckLockFiles(t *testing.T) {
	dir := writeTree(t, map[string]string{
		"good/package-lock.json":                `{"packages":{"node_modules/a":{"version":"1.0.0","integrity":"sha512-x"}}}`,
		"linked/package-lock.json":              "{\n\"resolved\": \"../sdk\",\n\"link\": true}",
		"bad/package-lock.json":                 "{\n\"resolved\": \"https://registry.invalid/a-1.0.0.tgz\"\n}",
		"good/node_modules/a/package-lock.json": "{\n\"resolved\": \"https://registry.invalid/b.tgz\"\n}",
	})
	found, err := CheckLockFiles(dir)
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, "bad/package-lock.json", found[0].File)
	assert.Contains(t, found[0].Reason, ".npmrc")

	_, err = CheckLockFiles(filepath.Join(dir, "absent"))
	require.Error(t, err)
}

func TestCheckLinks(t *testing.T) {
	dir := writeTree(t, map[string]string{
		"docs/a.md": "[b](b.md#part), [up](../README.md \"title\"), [web](https://example.com/x), [here](#part)\n",
		"docs/b.md": "![picture](gone.png) and `code](not-a-link`\n",
		"README.md": "[docs](docs)\n",
	})
	found, err := CheckLinks(dir)
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, "docs/b.md", found[0].File)
	assert.Equal(t, "link to gone.png", found[0].What)

	_, err = CheckLinks(filepath.Join(dir, "absent"))
	require.Error(t, err)
}

func importing(name string, imports ...string) string {
	source := "package " + name + "\n"
	for _, i := range imports {
		source += "\nimport _ \"" + i + "\"\n"
	}
	return source
}

func checkTree(t *testing.T, files map[string]string) []Violation {
	t.Helper()
	packages, err := Load(writeTree(t, files))
	require.NoError(t, err)
	return Check(packages)
}

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	return dir
}
