// Package spectest writes the files that are generated from tables of fields,
// and holds those in the repository to what they should be.
package spectest

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/spec"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Current fails when a generated file is not what it should be, or writes it
// anew.
func Current(t testing.TB, path, want string, update bool) {
	t.Helper()
	if update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, want, string(got), "%s is not current: run make generate", path)
}

// Sample returns a YAML file of every key with its default, commented out, so
// that it changes nothing until a line is uncommented.
func Sample[T any](table spec.Of[T], head string) string {
	var b strings.Builder
	b.WriteString(head)
	var open []string // the sections that the last key stood in
	var defaults T
	table.Fill(&defaults)
	table.Each(&defaults, func(f spec.Field, v reflect.Value) {
		parts := strings.Split(f.Key, ".")
		open = writeSections(&b, open, parts[:len(parts)-1])
		indent := strings.Repeat("  ", len(open))
		fmt.Fprintf(&b, "%s# %s (%s)\n", indent, strings.ReplaceAll(f.Meaning(v.Type()), "`", ""), f.Env)
		text := table.Text(&defaults, f.Key)
		switch {
		case v.Kind() == reflect.Slice:
			text = "[" + strings.ReplaceAll(text, ",", ", ") + "]"
		case text == "":
			text = `""`
		}
		fmt.Fprintf(&b, "%s#%s: %s\n", indent, parts[len(parts)-1], text)
	})
	return b.String()
}

func writeSections(b *strings.Builder, open, want []string) []string {
	shared := 0
	for shared < len(open) && shared < len(want) && open[shared] == want[shared] {
		shared++
	}
	if len(want) == 0 || shared < len(want) {
		b.WriteString("\n")
	}
	for i := shared; i < len(want); i++ {
		fmt.Fprintf(b, "%s%s:\n", strings.Repeat("  ", i), want[i])
	}
	return want
}

// Rows fails when a row of the table has no value in the struct, or the other
// way round.
func Rows[T any](t testing.TB, table spec.Of[T]) {
	t.Helper()
	rows := map[string]bool{}
	for _, f := range table {
		assert.False(t, rows[f.Key], "%s is there twice", f.Key)
		rows[f.Key] = true
	}
	w := writer[T]{table: table}
	var values T
	var visit func(node schema, key string)
	visit = func(node schema, key string) {
		f, known := table.Lookup(key)
		if key != "" && !strings.HasSuffix(key, "*") && !strings.HasSuffix(key, "[]") {
			assert.True(t, known && f.Doc != "", "%s has no row that says what it is", key)
		}
		delete(rows, key)
		properties, _ := node["properties"].(schema)
		for name := range properties {
			inner, _ := properties[name].(schema)
			visit(inner, strictjson.Join(key, name))
		}
		if inner, ok := node["additionalProperties"].(schema); ok {
			visit(inner, strictjson.Join(key, "*"))
		}
		if inner, ok := node["items"].(schema); ok {
			visit(inner, key+"[]")
		}
	}
	visit(w.schema(reflect.ValueOf(values), ""), "")
	assert.Empty(t, rows, "rows of keys that do not exist")
}
