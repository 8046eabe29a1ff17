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
	"github.com/wavehouse/wavehouse/internal/spec/spectest"
)

var update = flag.Bool("update", false, "write the published schemas anew")

const docs = "../../docs"

// schemaName is the published schema of one of the four files.
func schemaName(file string) string { return strings.TrimSuffix(file, ".json") + ".schema.json" }

func schemaID(file string) string {
	return "https://raw.githubusercontent.com/wavehouse/wavehouse/main/docs/schemas/" + schemaName(file)
}

// schemas returns the JSON Schema of each of the four files.
func schemas(t *testing.T) map[string]string {
	t.Helper()
	const title = "WaveHouse "
	return map[string]string{
		fileConfig:   spectest.Schema(t, keys(), schemaID(fileConfig), title+fileConfig),
		filePolicies: spectest.Schema(t, policy.Fields(), schemaID(filePolicies), title+filePolicies),
		filePipes:    spectest.Schema(t, pipes.Fields(), schemaID(filePipes), title+filePipes),
		fileRoles:    spectest.Schema(t, spec.Of[rolesDocument](roleFields), schemaID(fileRoles), title+fileRoles),
	}
}

func TestPublishedSchemasAreCurrent(t *testing.T) {
	for file, want := range schemas(t) {
		spectest.Current(t, filepath.Join(docs, "schemas", schemaName(file)), want, *update)
	}
}

func TestSchemaOfConfigHoldsWhatTheReaderHolds(t *testing.T) {
	var schema map[string]any
	require.NoError(t, json.Unmarshal([]byte(schemas(t)[fileConfig]), &schema))
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
		"description": "The port of the HTTP interface on the same host. 1 to 65535.",
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
	text := schemas(t)[filePolicies]
	for _, key := range []string{"default_role", "admin_role", "allow_columns", "deny_columns", "max_execution_time", "filter", "check"} {
		assert.Contains(t, text, `"`+key+`": {`)
	}
}

func TestEveryKeyHasARowAndEveryRowAKey(t *testing.T) {
	spectest.Rows(t, keys())
	spectest.Rows(t, policy.Fields())
	spectest.Rows(t, pipes.Fields())
	spectest.Rows(t, spec.Of[rolesDocument](roleFields))
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
		return mark + "\n" + keys().Reference(section) + "<!-- end -->"
	})
	for _, f := range fields {
		assert.Contains(t, sections, strings.Split(f.Key, ".")[0])
	}
	spectest.Current(t, path, want, *update)
}
