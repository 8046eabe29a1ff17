package settings

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		assert.Equal(t, string(want), string(got), "%s is not current: run go test ./internal/settings -update", path)
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

// configPaths returns every key of config.json, with "*" for a table's name.
func configPaths() []string {
	var paths []string
	var visit func(t reflect.Type, path string)
	visit = func(t reflect.Type, path string) {
		switch t.Kind() {
		case reflect.Pointer:
			visit(t.Elem(), path)
		case reflect.Map:
			if t.Elem().Kind() == reflect.Struct {
				visit(t.Elem(), path+".*")
			}
		case reflect.Struct:
			for i := range t.NumField() {
				name := strings.TrimPrefix(path+"."+jsonName(t.Field(i)), ".")
				paths = append(paths, name)
				visit(t.Field(i).Type, name)
			}
		}
	}
	visit(reflect.TypeFor[Config](), "")
	return paths
}

func TestEveryKeyIsDescribed(t *testing.T) {
	described := descriptions()
	for _, path := range configPaths() {
		assert.NotEmpty(t, described[path], path)
		delete(described, path)
	}
	assert.Empty(t, described, "descriptions of keys that do not exist")
}

// TestThePageNamesEveryKeyAndDefault holds docs/settings.md against the types.
func TestThePageNamesEveryKeyAndDefault(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docs, "settings.md"))
	require.NoError(t, err)
	schemas, err := Schemas()
	require.NoError(t, err)
	var root map[string]any
	require.NoError(t, json.Unmarshal(schemas[SchemaName(fileConfig)], &root))
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\|")
	cells := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		cells[m[1]] = strings.TrimSpace(m[2])
	}
	for _, path := range configPaths() {
		node, leaf := schemaNode(root, path)
		if !leaf {
			continue
		}
		cell, there := cells[strings.Replace(path, ".*.", ".<table>.", 1)]
		assert.True(t, there, "no row for %s", path)
		if want, ok := node["default"]; ok {
			text, err := json.Marshal(want)
			require.NoError(t, err)
			assert.Equal(t, "`"+string(text)+"`", cell, path)
		}
	}
}

// schemaNode finds a key in the schema, and whether it has no keys below.
func schemaNode(root map[string]any, path string) (map[string]any, bool) {
	node := root
	for part := range strings.SplitSeq(path, ".") {
		if part == "*" {
			node, _ = node["additionalProperties"].(map[string]any)
			continue
		}
		properties, _ := node["properties"].(map[string]any)
		node, _ = properties[part].(map[string]any)
	}
	_, inner := node["properties"]
	_, tables := node["additionalProperties"].(map[string]any)
	return node, !inner && (!tables || strings.HasSuffix(path, "headers"))
}
