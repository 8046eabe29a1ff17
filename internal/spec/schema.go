package spec

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Patterns of durations and sizes, for editors; package units decides.
const (
	durationPattern = `^(0|([0-9]*\.?[0-9]+(ns|us|µs|ms|s|m|h|d|w))+)$`
	sizePattern     = `^(0|[0-9]*\.?[0-9]+([KMGT]i?B|kB|B))$`
)

// schema is JSON Schema.
type schema = map[string]any

// Schema returns the JSON Schema of the documents that Decode reads. It tells
// defaults when the table has some.
func (o Of[T]) Schema(id, title string) ([]byte, error) {
	var values T
	o.Fill(&values)
	root := o.schema(reflect.ValueOf(values), "")
	root["$schema"], root["$id"], root["title"] = "https://json-schema.org/draft/2020-12/schema", id, title
	text := schema{"type": "string"}
	if properties, ok := root["properties"].(schema); ok {
		properties["$schema"] = text
		properties["$comment"] = schema{"anyOf": []any{text, schema{"type": "array", "items": text}}}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(root)
	return b.Bytes(), err
}

// schema describes what may stand at a key, where v is what holds when the key
// is left out.
func (o Of[T]) schema(v reflect.Value, key string) schema {
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		s := o.schema(reflect.Zero(t.Elem()), key)
		delete(s, "default")
		return s
	}
	f, known := o.Lookup(key)
	s := f.typed(t)
	switch {
	case t.Kind() == reflect.Struct:
		s["additionalProperties"], s["properties"] = false, o.properties(v, key)
	case t.Kind() == reflect.Map:
		s["additionalProperties"] = o.schema(reflect.Zero(t.Elem()), below(key, "*"))
	case s["type"] == "array":
		s["items"] = o.schema(reflect.Zero(t.Elem()), key+"[]")
	}
	if known {
		s["description"] = f.description(t)
	}
	if leaf := t.Kind() != reflect.Struct && t.Kind() != reflect.Map && !f.Object; known && leaf && f.Unset == "" && o.hasDefaults() {
		s["default"] = f.shown(v)
	}
	return s
}

func (o Of[T]) properties(v reflect.Value, key string) schema {
	properties := schema{}
	for i := range v.NumField() {
		if name := strictjson.Key(v.Type().Field(i)); name != "" {
			properties[name] = o.schema(v.Field(i), below(key, name))
		}
	}
	return properties
}

func (o Of[T]) hasDefaults() bool {
	return slices.ContainsFunc(o, func(f Field) bool { return f.Default != "" })
}

// typed says what values of the type there are.
func (f Field) typed(t reflect.Type) schema {
	switch {
	case f.Object:
		return schema{"type": "object", "minProperties": 1}
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return schema{}
	case t == reflect.TypeFor[time.Duration]():
		return f.quantity(durationPattern)
	case t.Kind() == reflect.Int64 && f.Unit != "":
		return f.quantity(sizePattern)
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
func (f Field) quantity(pattern string) schema {
	s := schema{"type": []string{"number", "string"}, "minimum": 0, "pattern": pattern}
	if f.Unit == "" {
		s["maximum"] = 0
	}
	return s
}

// description is what editors show: they know the bounds of a plain number.
func (f Field) description(t reflect.Type) string {
	text := f.Doc
	if t.Kind() == reflect.Int64 {
		text += f.quantities()
	}
	return strings.ReplaceAll(text, "`", "")
}
