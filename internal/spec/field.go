// Package spec declares the keys of a configuration once. A table of fields
// says for each key what its Go type does not: unit, default, bounds, meaning.
// From the table and the struct that it describes the keys are read, strictly,
// held to their bounds, shown, described to editors and documented.
package spec

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Field is one key. What is a quantity is written with its unit in all of it:
// "30s", "64MiB".
type Field struct {
	// Key is the path of `json` tags that leads to the value, like
	// "clickhouse.tls.enabled", with "*" for the keys of a map and "[]" for the
	// indexes of a list.
	Key string
	// Env is the variable that sets a boot key.
	Env string
	// Default is the type's zero when it is empty. A list's entries are
	// separated by commas.
	Default string
	// Min and Max are inclusive; "" is no bound. They bound a text in bytes, a
	// list or a map in entries.
	Min, Max string
	// Unit is that of a number without one in JSON, where the value is a
	// duration ("s") or a size ("GB"). A duration without it is only written
	// with its unit; an int64 without it is no size but a number.
	Unit string
	// OneOf lists what a text, or each entry of a list, may be.
	OneOf []string
	// Object: a document of its own is read later and must be a JSON object.
	Object bool
	// Doc says what the key does, in sentences of Markdown.
	Doc string
	// Unset says what no value means, where there is no default to show.
	Unset string

	overrides bool // for one table
}

// Of is the table of the fields of a struct type.
type Of[T any] []Field

// tables is between a section and what it says about one table.
const tables = ".tables.*."

// Lookup finds the field of a key. A key of one table that has no row of its own
// overrides the section's key of that name and is held to its bounds.
func (o Of[T]) Lookup(key string) (Field, bool) {
	for _, f := range o {
		if f.Key == key {
			return f, true
		}
	}
	section, name, ok := strings.Cut(key, tables)
	if !ok {
		return Field{Key: key}, false
	}
	f, ok := o.Lookup(section + "." + name)
	f.Key, f.Default, f.Unset, f.overrides = key, "", "inherited", true
	return f, ok
}

// Fill sets every field that has a default, and makes maps that are empty.
func (o Of[T]) Fill(into *T) {
	makeMaps(reflect.ValueOf(into).Elem())
	o.Each(into, func(f Field, v reflect.Value) {
		if f.Default == "" {
			return
		}
		if err := f.parse(v, f.Default); err != nil {
			panic(fmt.Sprintf("spec: the default of %s: %v", f.Key, err))
		}
	})
}

// Separate gives values that were copied maps and slices of their own: the maps are
// empty, as Fill makes them.
func Separate[T any](values *T) {
	v := reflect.ValueOf(values).Elem()
	makeMaps(v)
	cloneSlices(v)
}

func cloneSlices(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			cloneSlices(v.Field(i))
		}
	case v.Kind() == reflect.Slice && !v.IsNil() && v.CanSet():
		clone := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(clone, v)
		v.Set(clone)
	}
}

func makeMaps(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			makeMaps(v.Field(i))
		}
	case v.Kind() == reflect.Map && v.CanSet():
		v.Set(reflect.MakeMap(v.Type()))
	}
}

// Each visits every key that holds a value, in the order of the struct. Below
// maps and pointers that are nil it visits what they would hold.
func (o Of[T]) Each(values *T, visit func(Field, reflect.Value)) {
	o.each(reflect.ValueOf(values).Elem(), "", visit)
}

func (o Of[T]) each(v reflect.Value, key string, visit func(Field, reflect.Value)) {
	switch inner := inside(v.Type()); {
	case inner.Kind() != reflect.Struct:
		f, _ := o.Lookup(key)
		visit(f, v)
	case v.Kind() == reflect.Map:
		o.each(reflect.New(inner).Elem(), strictjson.Join(key, "*"), visit)
	case v.Kind() == reflect.Pointer:
		o.each(reflect.New(inner).Elem(), key, visit)
	default:
		for i := range v.NumField() {
			if name := strictjson.Key(v.Type().Field(i)); name != "" {
				o.each(v.Field(i), strictjson.Join(key, name), visit)
			}
		}
	}
}

// inside is the type that a map or a pointer leads to, or the type itself.
func inside(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Map || t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
