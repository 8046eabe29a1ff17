package settings

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// schemaBase is where the schemas are published.
const schemaBase = "https://raw.githubusercontent.com/wavehouse/wavehouse/main/docs/schemas/"

// Patterns of durations and sizes, for editors; package units decides.
const (
	durationPattern = `^(0|([0-9]*\.?[0-9]+(ns|us|µs|ms|s|m|h|d|w))+)$`
	sizePattern     = `^(0|[0-9]*\.?[0-9]+([KMGT]i?B|kB|B))$`
)

// SchemaName returns the name of the published schema of one of the four files:
// config.schema.json for config.json.
func SchemaName(file string) string {
	return strings.TrimSuffix(file, ".json") + ".schema.json"
}

func schemaID(file string) string { return schemaBase + SchemaName(file) }

// Schemas returns the JSON Schema of each of the four files by the name under
// which it is published.
func Schemas() (map[string][]byte, error) {
	defaults := DefaultConfig()
	schemas := map[string][]byte{}
	for file, document := range map[string]any{
		fileConfig: defaults, filePolicies: policy.Document{}, filePipes: pipes.Document{}, fileRoles: rolesDocument{},
	} {
		g := schemaWriter{}
		if file == fileConfig {
			g.descriptions, g.defaults = descriptions(), true
		}
		root := g.schema(reflect.TypeOf(document), reflect.ValueOf(document), "", "")
		root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
		root["$id"] = schemaID(file)
		root["title"] = "WaveHouse " + file
		addRootKeys(root)
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(root); err != nil {
			return nil, err
		}
		schemas[SchemaName(file)] = b.Bytes()
	}
	return schemas, nil
}

func addRootKeys(root map[string]any) {
	properties, _ := root["properties"].(map[string]any)
	text := map[string]any{"type": "string"}
	properties[keySchema] = text
	properties[keyComment] = map[string]any{"anyOf": []any{text, map[string]any{"type": "array", "items": text}}}
}

// schemaWriter turns a document's type to its schema.
type schemaWriter struct {
	descriptions map[string]string
	defaults     bool
}

// schema describes t. v is a value with the defaults, the zero Value below a
// map or a list.
func (g schemaWriter) schema(t reflect.Type, v reflect.Value, path string, tag reflect.StructTag) map[string]any {
	if t.Kind() == reflect.Pointer {
		return g.schema(t.Elem(), reflect.Value{}, path, tag)
	}
	s := g.typed(t, v, path, tag)
	if text := g.descriptions[path]; text != "" {
		s["description"] = text
	}
	scalar := t.Kind() != reflect.Struct && t.Kind() != reflect.Map
	if g.defaults && v.IsValid() && scalar {
		s["default"] = shownValue(v, tag)
	}
	return s
}

func (g schemaWriter) typed(t reflect.Type, v reflect.Value, path string, tag reflect.StructTag) map[string]any {
	_, size := tag.Lookup("size")
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return quantity(tag.Get("unit"), durationPattern)
	case size && t.Kind() == reflect.Int64:
		return quantity(tag.Get("size"), sizePattern)
	case tag.Get("form") == "object":
		return map[string]any{"type": "object", "minProperties": 1}
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return map[string]any{}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[strictjson.Unmarshaler]()):
		return map[string]any{"type": []string{"number", "string"}, "minimum": 0}
	}
	switch t.Kind() {
	case reflect.Struct:
		return g.object(t, v, path)
	case reflect.Map:
		below := strictjson.Join(path, AllTables)
		return map[string]any{"type": "object", "additionalProperties": g.schema(t.Elem(), reflect.Value{}, below, "")}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": g.schema(t.Elem(), reflect.Value{}, path+"[]", "")}
	}
	return scalarSchema(t, tag)
}

func (g schemaWriter) object(t reflect.Type, v reflect.Value, path string) map[string]any {
	properties := map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		name := jsonName(f)
		if name == "" {
			continue
		}
		var value reflect.Value
		if v.IsValid() {
			value = v.Field(i)
		}
		properties[name] = g.schema(f.Type, value, strictjson.Join(path, name), f.Tag)
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

// quantity is a string with a unit, or a number when the field has a unit for
// it.
func quantity(unit, pattern string) map[string]any {
	s := map[string]any{"type": []string{"number", "string"}, "minimum": 0, "pattern": pattern}
	if unit == "text" {
		s["maximum"] = 0
	}
	return s
}

func scalarSchema(t reflect.Type, tag reflect.StructTag) map[string]any {
	s := map[string]any{}
	switch t.Kind() {
	case reflect.String:
		s["type"] = "string"
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Float64:
		s["type"] = "number"
	default:
		s["type"] = "integer"
	}
	if enum := tag.Get("enum"); enum != "" {
		s["enum"] = strings.Split(enum, ",")
	}
	if n, err := strconv.ParseInt(tag.Get("min"), 10, 64); err == nil {
		s["minimum"] = n
	}
	if n, err := strconv.ParseInt(tag.Get("max"), 10, 64); err == nil {
		s["maximum"] = n
	}
	return s
}
