package strictjson

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/nearest"
)

// Unmarshaler is implemented, on a pointer, by types that read their own text.
// The error becomes the fault's message. raw is valid JSON without surrounding
// space and must not be kept.
type Unmarshaler interface {
	UnmarshalStrict(raw json.RawMessage) error
}

// Decode reads data into what into points to and returns every fault. Fields
// that the document does not name keep their values, so a caller fills in
// defaults first. After a fault the target may be filled in part and must not
// be used.
//
// Keys are those of the `json` struct tags and case matters. A time.Duration
// needs a tag `unit:"s"` (any unit of package units, for a JSON number; a
// string carries its own) or `unit:"text"` (a string, or the number 0); an
// int64 that is a size takes `size:"MiB"` or `size:"text"` likewise. Null is a
// fault except for any and json.RawMessage. Numbers in any are json.Number.
func Decode(data []byte, into any) []Fault {
	doc, found := Parse(data)
	return append(found, doc.Decode(into)...)
}

// Decode reads the document into what into points to, as the function of that
// name does, without the faults that Parse already reported. Keys of the root
// object listed in ignore are skipped.
func (d *Document) Decode(into any, ignore ...string) []Fault {
	if d.broken || d.root == nil {
		return nil
	}
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		panic("strictjson: Decode needs a pointer")
	}
	c := &decoder{doc: d, ignore: ignore}
	if d.root.kind == kindNull {
		c.fault(d.root, "", "the document is null; {} is an empty object")
		return c.faults.list
	}
	c.value(d.root, target.Elem(), "", "")
	return c.faults.list
}

type decoder struct {
	doc    *Document
	ignore []string
	faults faults
	// known are the fields of the struct types that were met.
	known map[reflect.Type]map[string]int
}

func (c *decoder) fieldsOf(t reflect.Type) map[string]int {
	known, ok := c.known[t]
	if !ok {
		if c.known == nil {
			c.known = make(map[reflect.Type]map[string]int, 4)
		}
		known = fieldsOf(t)
		c.known[t] = known
	}
	return known
}

// value stores n in v. tag is the struct tag of the field that v is, "" when it
// is none.
func (c *decoder) value(n *node, v reflect.Value, path string, tag reflect.StructTag) {
	if c.special(n, v, path, tag) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		c.object(n, v, path)
	case reflect.Map:
		c.mapping(n, v, path, tag)
	case reflect.Slice:
		c.slice(n, v, path, tag)
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		c.value(n, fresh.Elem(), path, tag)
		v.Set(fresh)
	case reflect.String:
		if c.want(n, kindString, path) {
			v.SetString(n.text)
		}
	case reflect.Bool:
		if c.want(n, kindBool, path) {
			v.SetBool(n.truth)
		}
	default:
		c.number(n, v, path)
	}
}

// special handles the types that are not read by their kind.
func (c *decoder) special(n *node, v reflect.Value, path string, tag reflect.StructTag) bool {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes(slices.Clone(c.raw(n)))
		return true
	case time.Duration:
		c.duration(n, v, path, tag)
		return true
	case json.Number:
		if c.want(n, kindNumber, path) {
			v.SetString(n.text)
		}
		return true
	}
	if v.Kind() == reflect.Interface && v.NumMethod() == 0 {
		if x := plainValue(n); x != nil {
			v.Set(reflect.ValueOf(x))
		} else {
			v.SetZero()
		}
		return true
	}
	if u, ok := v.Addr().Interface().(Unmarshaler); ok {
		if err := u.UnmarshalStrict(c.raw(n)); err != nil {
			c.fault(n, path, err.Error())
		}
		return true
	}
	if _, ok := tag.Lookup("size"); ok && v.Kind() == reflect.Int64 {
		c.size(n, v, path, tag)
		return true
	}
	return false
}

// raw returns the text of n, capped so that appending to it cannot reach the
// document.
func (c *decoder) raw(n *node) json.RawMessage {
	return json.RawMessage(c.doc.data[n.start:n.end:n.end])
}

func (c *decoder) object(n *node, v reflect.Value, path string) {
	if !c.want(n, kindObject, path) {
		return
	}
	known := c.fieldsOf(v.Type())
	for _, f := range n.fields {
		index, ok := known[f.key]
		switch {
		case ok:
			c.value(f.value, v.Field(index), Join(path, f.key), v.Type().Field(index).Tag)
		case path == "" && slices.Contains(c.ignore, f.key):
		default:
			c.unknown(f, path, known)
		}
	}
}

func (c *decoder) unknown(f field, path string, known map[string]int) {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	message := "unknown key"
	if name, ok := nearest.Name(f.key, names); ok {
		message = fmt.Sprintf("unknown key; did you mean %q?", name)
	}
	c.faults.add(Fault{Path: Join(path, f.key), Line: c.doc.lines.at(f.start), Message: message})
}

func (c *decoder) mapping(n *node, v reflect.Value, path string, tag reflect.StructTag) {
	if !c.want(n, kindObject, path) {
		return
	}
	if v.Type().Key().Kind() != reflect.String {
		panic("strictjson: maps need string keys")
	}
	made := reflect.MakeMapWithSize(v.Type(), len(n.fields))
	for _, f := range n.fields {
		item := reflect.New(v.Type().Elem()).Elem()
		c.value(f.value, item, Join(path, f.key), tag)
		made.SetMapIndex(reflect.ValueOf(f.key).Convert(v.Type().Key()), item)
	}
	v.Set(made)
}

func (c *decoder) slice(n *node, v reflect.Value, path string, tag reflect.StructTag) {
	if !c.want(n, kindArray, path) {
		return
	}
	made := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		c.value(item, made.Index(i), Index(path, i), tag)
	}
	v.Set(made)
}

// want reports whether n is of the kind that the target takes, and faults when
// it is not.
func (c *decoder) want(n *node, k kind, path string) bool {
	if n.kind == k {
		return true
	}
	if n.kind == kindNull {
		c.fault(n, path, "null is not a value here; leave the key out to get its default")
		return false
	}
	c.fault(n, path, fmt.Sprintf("want %s, not %s", k, n.kind))
	return false
}

func (c *decoder) fault(n *node, path, message string) {
	c.faults.add(Fault{Path: path, Line: c.doc.lines.at(n.start), Message: message})
}

// fieldsOf maps the keys of a struct type to its fields.
func fieldsOf(t reflect.Type) map[string]int {
	known := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" && t.Field(i).IsExported() {
			known[name] = i
		}
	}
	return known
}

// plainValue turns a tree into maps, slices, strings, booleans, nil and
// json.Number.
func plainValue(n *node) any {
	switch n.kind {
	case kindObject:
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.key] = plainValue(f.value)
		}
		return m
	case kindArray:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = plainValue(item)
		}
		return list
	case kindString:
		return n.text
	case kindNumber:
		return json.Number(n.text)
	case kindBool:
		return n.truth
	}
	return nil
}

// DecodeAt reads the value at path into what into points to. It panics when the
// document has no such value: ask Has first.
func (d *Document) DecodeAt(path string, into any) []Fault {
	n, _, all := d.root.descend(path)
	if !all {
		panic("strictjson: no value at " + path)
	}
	c := &decoder{doc: d}
	c.value(n, reflect.ValueOf(into).Elem(), path, "")
	return c.faults.list
}
