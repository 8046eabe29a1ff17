package integration

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/strictjson"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// What the manual says that a document is answered is what it is answered: every
// document with an answer behind it, in the sections that make their table.
func TestTheManualsQueriesAreAnsweredAsItSays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(harness.Root(t), "docs", "query.md"))
	require.NoError(t, err)
	asked := []any{}
	for section := range strings.SplitSeq(string(page), "\n### ") {
		_, rest, made := strings.Cut(section, "```sql\n")
		if !made {
			continue
		}
		setup, rest, _ := strings.Cut(rest, "```\n")
		statements := strings.Split(strings.TrimSuffix(strings.TrimSpace(setup), ";"), ";\n")
		table := regexp.MustCompile(`CREATE TABLE (\w+)`).FindStringSubmatch(statements[0])[1]
		asked = append(asked, answeredAsShown(t, start(t, options{}, statements...), table, rest)...)
	}
	shown := map[string]bool{}
	keysIn(asked, shown)
	for kind, keys := range documentKeys() {
		for _, key := range keys {
			assert.True(t, shown[key], "no document with %q (%s) is answered in the manual", key, kind)
		}
	}
}

// Whoever reads the contract, or writes with an SDK, finds every key of a document.
func TestEveryKeyOfADocumentIsInTheContractAndTheSDKs(t *testing.T) {
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{harness.Root(t)}, path...)...))
		require.NoError(t, err)
		return string(text)
	}
	contract := readContract(t, read("internal", "api", "openapi.json"))
	typescript, golang := read("sdk", "typescript", "src", "document.ts"), read("sdk", "go", "query.go")
	between := func(text, begin string) string {
		_, text, found := strings.Cut(text, begin)
		require.True(t, found, begin)
		text, _, _ = strings.Cut(text, "\n}")
		return text
	}
	keys := documentKeys()
	for _, c := range []struct{ kind, schema, typescript, golang string }{
		{"Document", "Query", "QueryDocument", "Document"},
		{"Aggregation", "Aggregation", "Aggregation", "Aggregation"},
		{"Filter", "Filter", "Condition", "Filter"},
		{"Order", "Query/properties/order_by/items", "OrderBy", "OrderBy"},
		{"TimeRange", "Query/properties/time_range", "TimeRange", "TimeRange"},
		{"TimeBucket", "Query/properties/time_bucket", "TimeBucket", "TimeBucket"},
	} {
		schema, found := contract.value(append([]string{"components", "schemas"}, strings.Split(c.schema, "/")...))
		require.True(t, found, c.schema)
		var described []string
		branches, _ := schema["oneOf"].([]any)
		for _, branch := range append(branches, schema) {
			properties, _ := branch.(map[string]any)["properties"].(map[string]any)
			described = slices.AppendSeq(described, maps.Keys(properties))
		}
		assert.ElementsMatch(t, keys[c.kind], described, "%s in the OpenAPI document", c.schema)

		inTypeScript, inGo := between(typescript, "export interface "+c.typescript), between(golang, "type "+c.golang+" struct {")
		if c.kind == "Filter" {
			_, groups, _ := strings.Cut(typescript, "export type Filter<")
			groups, _, _ = strings.Cut(groups, ";\n\n")
			inTypeScript += groups
		}
		for _, key := range keys[c.kind] {
			assert.Regexp(t, `\b`+key+`\??: `, inTypeScript, "%s of the TypeScript SDK", c.typescript)
			if key != "totals" && key != "int64" { // QueryTotals asks for the first, and Go needs no other digits
				assert.Contains(t, inGo, `json:"`+key, "%s of the Go SDK", c.golang)
			}
		}
	}
	assert.Len(t, keys, 6)
}

// documentKeys are the keys of each kind of object in a query document.
func documentKeys() map[string][]string {
	all := map[string][]string{}
	for _, of := range []any{query.Document{}, query.Aggregation{}, query.Filter{}, query.Order{}, query.TimeRange{}, query.TimeBucket{}} {
		kind := reflect.TypeOf(of)
		for i := range kind.NumField() {
			all[kind.Name()] = append(all[kind.Name()], strictjson.Key(kind.Field(i)))
		}
	}
	return all
}

// keysIn adds the keys of all objects in a value.
func keysIn(value any, keys map[string]bool) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			keysIn(item, keys)
		}
	case map[string]any:
		for key, item := range value {
			keys[key] = true
			keysIn(item, keys)
		}
	}
}

// answeredAsShown asks the documents of a section and returns them.
func answeredAsShown(t *testing.T, s *server, table, section string) (asked []any) {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```json\n(.*?)\n```").FindAllStringSubmatch(section, -1)
	for i := 0; i+1 < len(blocks); i++ {
		document, answer := blocks[i][1], blocks[i+1][1]
		if !strings.HasPrefix(document, "{") || !strings.HasPrefix(answer, "[") && !strings.HasPrefix(answer, `{"rows"`) {
			continue
		}
		var keys any
		require.NoError(t, json.Unmarshal([]byte(document), &keys))
		asked = append(asked, keys)
		a := s.query(table, document)
		if assert.Equal(t, http.StatusOK, a.status, "%s\n%s", document, a.body) {
			assert.Equal(t, compact(t, json.RawMessage(answer)), compact(t, json.RawMessage(a.body)), document)
		}
	}
	return asked
}
