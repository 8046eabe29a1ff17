package spectest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/spec"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Patterns of durations and sizes, for editors; package units decides.
const (
	durationPattern = `^(0|([0-9]*\.?[0-9]+(ns|us|µs|ms|s|m|h|d|w))+)$`
	sizePattern     = `^(0|[0-9]*\.?[0-9]+([KMGT]i?B|kB|B))$`
)

// schema is JSON Schema.
type schema = map[string]any

// Schema returns the JSON Schema of the documents that a table reads. It tells
// defaults when the table has some.
func Schema[T any](t testing.TB, table spec.Of[T], id, title string) string {
	t.Helper()
	var values T
	table.Fill(&values)
	w := writer[T]{table, slices.ContainsFunc(table, func(f spec.Field) bool { return f.Default != "" })}
	root := w.schema(reflect.ValueOf(values), "")
	root["$schema"], root["$id"], root["title"] = "https://json-schema.org/draft/2020-12/schema", id, title
	text := schema{"type": "string"}
	properties, _ := root["properties"].(schema)
	properties["$schema"] = text
	properties["$comment"] = schema{"anyOf": []any{text, schema{"type": "array", "items": text}}}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(root))
	return b.String()
}

type writer[T any] struct {
	table    spec.Of[T]
	defaults bool
}

// schema describes what may stand at a key, where v is what holds when the key
// is left out.
func (w writer[T]) schema(v reflect.Value, key string) schema {
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		s := w.schema(reflect.Zero(t.Elem()), key)
		delete(s, "default")
		return s
	}
	f, known := w.table.Lookup(key)
	s := typed(f, t)
	if known {
		s["description"] = strings.ReplaceAll(f.Meaning(t), "`", "")
	}
	switch {
	case t.Kind() == reflect.Struct:
		s["additionalProperties"], s["properties"] = false, w.properties(v, key)
	case t.Kind() == reflect.Map:
		s["additionalProperties"] = w.schema(reflect.Zero(t.Elem()), strictjson.Join(key, "*"))
	default:
		if s["type"] == "array" {
			s["items"] = w.schema(reflect.Zero(t.Elem()), key+"[]")
		}
		if known && w.defaults && f.Unset == "" && !f.Object {
			s["default"] = f.Shown(v)
		}
	}
	return s
}

func (w writer[T]) properties(v reflect.Value, key string) schema {
	properties := schema{}
	for i := range v.NumField() {
		if name := strictjson.Key(v.Type().Field(i)); name != "" {
			properties[name] = w.schema(v.Field(i), strictjson.Join(key, name))
		}
	}
	return properties
}

// typed says what values of the type there are.
func typed(f spec.Field, t reflect.Type) schema {
	if own, ok := reflect.Zero(t).Interface().(interface{ JSONSchema() map[string]any }); ok {
		return own.JSONSchema()
	}
	switch {
	case f.Object:
		return schema{"type": "object", "minProperties": 1}
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return schema{}
	case t == reflect.TypeFor[time.Duration]():
		return quantity(f, durationPattern)
	case t.Kind() == reflect.Int64 && f.Unit != "":
		return quantity(f, sizePattern)
	}
	name, low, high := "integer", "minimum", "maximum"
	switch t.Kind() {
	case reflect.Bool:
		name = "boolean"
	case reflect.Float64:
		name = "number"
	case reflect.String:
		name, low, high = "string", "minLength", "maxLength"
	case reflect.Slice:
		name, low, high = "array", "minItems", "maxItems"
	case reflect.Map, reflect.Struct:
		name, low, high = "object", "minProperties", "maxProperties"
	}
	s := schema{"type": name}
	if f.OneOf != nil {
		s["enum"] = f.OneOf
	}
	if f.Min != "" {
		s[low] = json.Number(f.Min)
	}
	if f.Max != "" {
		s[high] = json.Number(f.Max)
	}
	return s
}

// quantity is a string with a unit, or a number when the field has a unit for
// it.
func quantity(f spec.Field, pattern string) schema {
	s := schema{"type": []string{"number", "string"}, "minimum": 0, "pattern": pattern}
	if f.Unit == "" {
		s["maximum"] = 0
	}
	return s
}
