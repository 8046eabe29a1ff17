package settings

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/spec"
)

var update = flag.Bool("update", false, "write the published schemas anew")

const docs = "../../docs"

func TestPublishedSchemasAreCurrent(t *testing.T) {
	schemas, err := Schemas()
	require.NoError(t, err)
	require.Len(t, schemas, len(fileNames()))
	for name, want := range schemas {
		path := filepath.Join(docs, "schemas", name)
		if *update {
			require.NoError(t, os.WriteFile(path, want, 0o644))
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "%s is not current: run make generate", path)
	}
}

func TestSchemaOfConfigHoldsWhatTheReaderHolds(t *testing.T) {
	schemas, err := Schemas()
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(schemas[SchemaName(fileConfig)], &schema))
	at := func(path string) map[string]any {
		node := schema
		for part := range strings.SplitSeq(path, ".") {
			properties, ok := node["properties"].(map[string]any)
			require.True(t, ok, path)
			node, ok = properties[part].(map[string]any)
			require.True(t, ok, path)
		}
		return node
	}
	assert.Equal(t, false, schema["additionalProperties"])
	assert.Equal(t, map[string]any{
		"type": "integer", "minimum": 1.0, "maximum": 65535.0, "default": 8123.0,
		"description": "The port of the HTTP interface on the same host.",
	}, at("clickhouse.http_port"))
	assert.Equal(t, []any{"http", "https"}, at("clickhouse.http_scheme")["enum"])
	wait := at("ingest.flush.max_wait")
	assert.Equal(t, "1s", wait["default"])
	assert.Regexp(t, wait["pattern"], "1h30m")
	assert.NotRegexp(t, wait["pattern"], "-1h")
	assert.InDelta(t, 0, wait["maximum"], 0, "the only number without a unit is 0")
	size := at("mq.max_bytes_gb")
	assert.Equal(t, "50GB", size["default"])
	assert.Regexp(t, size["pattern"], "1.5GiB")
	assert.NotRegexp(t, size["pattern"], "1.5")
	assert.Contains(t, at("$comment"), "anyOf")
}

func TestSchemaOfPolicies(t *testing.T) {
	schemas, err := Schemas()
	require.NoError(t, err)
	text := string(schemas[SchemaName(filePolicies)])
	for _, key := range []string{"default_role", "admin_role", "allow_columns", "deny_columns", "max_execution_time", "filter", "check"} {
		assert.Contains(t, text, `"`+key+`": {`)
	}
}

func TestEveryKeyHasARowAndEveryRowAKey(t *testing.T) {
	checkRows(t, keys())
	checkRows(t, policy.Fields())
	checkRows(t, pipes.Fields())
	checkRows(t, spec.Of[rolesDocument](roleFields))
}

// checkRows holds a table against the struct that it describes.
func checkRows[T any](t *testing.T, table spec.Of[T]) {
	t.Helper()
	described := map[string]bool{}
	for _, f := range table {
		assert.False(t, described[f.Key], "%s is there twice", f.Key)
		described[f.Key] = true
	}
	text, err := table.Schema("", "")
	require.NoError(t, err)
	var root map[string]any
	require.NoError(t, json.Unmarshal(text, &root))
	var visit func(node map[string]any, key string)
	visit = func(node map[string]any, key string) {
		if f, known := table.Lookup(key); key != "" && !strings.HasSuffix(key, "*") && !strings.HasSuffix(key, "[]") {
			assert.True(t, known && f.Doc != "", "no row for %s", key)
		}
		delete(described, key)
		properties, _ := node["properties"].(map[string]any)
		for name, inner := range properties {
			if !strings.HasPrefix(name, "$") {
				visit(inner.(map[string]any), strings.TrimPrefix(key+"."+name, "."))
			}
		}
		if inner, ok := node["additionalProperties"].(map[string]any); ok {
			visit(inner, key+".*")
		}
		if inner, ok := node["items"].(map[string]any); ok {
			visit(inner, key+"[]")
		}
	}
	visit(root, "")
	assert.Empty(t, described, "rows of keys that do not exist")
}

// keysMark begins the keys of a section in docs/settings.md.
var keysMark = regexp.MustCompile("(?s)<!-- keys of ([a-z]+), written by make generate -->\n.*?<!-- end -->")

func TestThePageOfSettingsIsCurrent(t *testing.T) {
	path := filepath.Join(docs, "settings.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	var sections []string
	want := keysMark.ReplaceAllStringFunc(string(page), func(found string) string {
		mark, _, _ := strings.Cut(found, "\n")
		section := keysMark.FindStringSubmatch(found)[1]
		sections = append(sections, section)
		return mark + "\n" + Reference(section) + "<!-- end -->"
	})
	for _, f := range fields {
		assert.Contains(t, sections, strings.Split(f.Key, ".")[0])
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(page), "%s is not current: run make generate", path)
}
