package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Reference returns a table in Markdown of the keys below a section, "" for all:
// key, variable where there are some, default and meaning.
func (o Of[T]) Reference(section string) string {
	var values T
	o.Fill(&values)
	var b strings.Builder
	o.Each(&values, func(f Field, v reflect.Value) {
		if section != "" && !strings.HasPrefix(f.Key, section+".") {
			return
		}
		meaning := f.Meaning(v.Type())
		if f.overrides {
			meaning = "For one table."
		}
		variable := ""
		if f.Env != "" {
			variable = " `" + f.Env + "` |"
		}
		fmt.Fprintf(&b, "| `%s` |%s %s | %s |\n", strings.ReplaceAll(f.Key, "*", "<table>"), variable, o.defaultCell(f, v), meaning)
	})
	if len(o) > 0 && o[0].Env != "" {
		return "| key | variable | default | meaning |\n| --- | --- | --- | --- |\n" + b.String()
	}
	return "| key | default | meaning |\n| --- | --- | --- |\n" + b.String()
}

// defaultCell writes a default as it is set: in JSON, or as text where a variable
// can set it.
func (o Of[T]) defaultCell(f Field, v reflect.Value) string {
	switch {
	case f.Unset != "":
		return f.Unset
	case v.Kind() == reflect.Pointer:
		return "none"
	}
	text := f.text(v)
	if f.Env == "" {
		inJSON, _ := json.Marshal(o.tree(v, f.Key)) // a default never fails
		text = string(inJSON)
	}
	if text == "" {
		return "empty"
	}
	return "`" + text + "`"
}

// Meaning is what the key does and what its value, of type t, may be.
func (f Field) Meaning(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	text := f.Doc
	switch choices := "`" + strings.Join(f.OneOf, "`, `") + "`."; {
	case f.OneOf == nil:
	case t.Kind() == reflect.Slice:
		text += " Of " + choices
	default:
		text += " One of " + choices
	}
	if f.Unit != "" {
		text += " A number is " + cmp.Or(unitNames[f.Unit], f.Unit) + "."
	}
	if bounds := f.bounds(); bounds != "" && (t.Kind() != reflect.String || f.Max != "") {
		text += " " + strings.ToUpper(bounds[:1]) + bounds[1:] + lengthUnit(t.Kind()) + "."
	}
	if t == reflect.TypeFor[Secret]() {
		text += " A secret: also `" + f.Env + "_FILE`."
	}
	return text
}

var unitNames = map[string]string{"s": "seconds", "m": "minutes", "B": "bytes"}
