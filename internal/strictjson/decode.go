package strictjson

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/units"
)

// Unmarshaler is implemented, on a pointer, by types that read their own text.
// The error becomes the fault's message. raw is valid JSON without surrounding
// space and must not be kept.
type Unmarshaler interface {
	UnmarshalStrict(raw json.RawMessage) error
}

// Rules say about the values of a document what their types do not. A place is a
// path with "*" for the keys of maps and "[]" for indexes.
type Rules struct {
	// Annotated: the root may have "$schema", a string, and "$comment", a string
	// or a list of strings. They are for editors and people and mean nothing.
	Annotated bool
	// Unit returns the unit of a number where a duration or a size stands. A
	// duration without one is only read from a string, an int64 without one is
	// a plain number. nil is no units.
	Unit func(place string) string
	// Check returns what is wrong with a value that was read, "" for nothing;
	// nil checks nothing.
	Check func(place string, v reflect.Value) string
}

// Decode reads data into what into points to and returns every fault. Fields
// that the document does not name keep their values, so a caller fills in
// defaults first. After a fault the target is filled in as far as it could be.
//
// Keys are those of the `json` struct tags and case matters. Null is a fault
// except for any and json.RawMessage. Numbers in any are json.Number.
func Decode(data []byte, into any) []Fault {
	doc, found := Parse(data)
	return append(found, doc.Decode(into, Rules{})...)
}

// Decode reads the document into what into points to, as the function of that
// name does, without the faults that Parse already reported.
func (d *Document) Decode(into any, rules Rules) []Fault {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		panic("strictjson: Decode needs a pointer")
	}
	if !d.Whole() {
		return nil
	}
	c := &decoder{doc: d, rules: rules, known: map[reflect.Type]map[string]int{}}
	if d.root.kind == kindNull {
		c.fault(d.root, "the document is null; {} is an empty object")
	} else {
		c.value(d.root, target.Elem())
	}
	return c.faults.list
}

type decoder struct {
	doc    *Document
	rules  Rules
	trail  trail // of the value that is read
	faults faults
	// known are the fields of the struct types that were met.
	known map[reflect.Type]map[string]int
}

// value stores n in v.
func (c *decoder) value(n *node, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		c.value(n, v.Elem())
		return
	}
	before := len(c.faults.list)
	if !c.special(n, v) {
		c.byKind(n, v)
	}
	if c.rules.Check == nil || len(c.faults.list) > before {
		return
	}
	if message := c.rules.Check(c.trail.place(), v); message != "" {
		c.fault(n, message)
	}
}

// special reads the types that are not read by their kind.
func (c *decoder) special(n *node, v reflect.Value) bool {
	switch target := v.Addr().Interface().(type) {
	case *json.RawMessage:
		*target = slices.Clone(c.raw(n))
	case *time.Duration:
		quantity(c, n, v, `a duration like "90s", "12h" or "7d"`, units.ParseDuration, units.DurationOf)
	case *json.Number:
		if c.want(n, kindNumber) {
			*target = json.Number(n.text)
		}
	case *any:
		*target = n.plain()
	case Unmarshaler:
		if err := target.UnmarshalStrict(c.raw(n)); err != nil {
			c.fault(n, err.Error())
		}
	default:
		return false
	}
	return true
}

func (c *decoder) byKind(n *node, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		c.object(n, v)
	case reflect.Map:
		c.mapping(n, v)
	case reflect.Slice:
		c.slice(n, v)
	case reflect.String:
		if c.want(n, kindString) {
			v.SetString(n.text)
		}
	case reflect.Bool:
		if c.want(n, kindBool) {
			v.SetBool(n.text == "true")
		}
	default:
		c.number(n, v)
	}
}

// raw returns the text of n, capped so that appending to it cannot reach the
// document.
func (c *decoder) raw(n *node) json.RawMessage {
	return json.RawMessage(c.doc.data[n.start:n.end:n.end])
}

func (c *decoder) object(n *node, v reflect.Value) {
	if !c.want(n, kindObject) {
		return
	}
	known := c.fieldsOf(v.Type())
	for _, f := range n.fields {
		c.trail = append(c.trail, segment{key: f.key})
		if index, ok := known[f.key]; ok {
			c.value(f.value, v.Field(index))
		} else if !c.annotation(f) {
			c.unknown(f, known)
		}
		c.trail = c.trail[:len(c.trail)-1]
	}
}

// annotation reads a key that means nothing, and reports whether it is one.
func (c *decoder) annotation(f field) bool {
	if !c.rules.Annotated || len(c.trail) > 1 {
		return false
	}
	switch f.key {
	case "$schema":
		if f.value.kind != kindString {
			c.fault(f.value, "want a string")
		}
	case "$comment":
		lines := f.value.kind == kindArray && !slices.ContainsFunc(f.value.items, func(n *node) bool { return n.kind != kindString })
		if f.value.kind != kindString && !lines {
			c.fault(f.value, "want a string or a list of strings")
		}
	default:
		return false
	}
	return true
}

func (c *decoder) unknown(f field, known map[string]int) {
	names := slices.Sorted(maps.Keys(known))
	c.faultAt(f.start, "unknown key"+nearest.OneOf(f.key, names))
}

func (c *decoder) mapping(n *node, v reflect.Value) {
	if !c.want(n, kindObject) {
		return
	}
	if v.Type().Key().Kind() != reflect.String {
		panic("strictjson: maps need string keys")
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.fields)))
	for _, f := range n.fields {
		c.trail = append(c.trail, segment{key: f.key, kind: stepName})
		item := reflect.New(v.Type().Elem()).Elem()
		c.value(f.value, item)
		v.SetMapIndex(reflect.ValueOf(f.key).Convert(v.Type().Key()), item)
		c.trail = c.trail[:len(c.trail)-1]
	}
}

func (c *decoder) slice(n *node, v reflect.Value) {
	if !c.want(n, kindArray) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i, item := range n.items {
		c.trail = append(c.trail, segment{kind: stepIndex, index: i})
		c.value(item, v.Index(i))
		c.trail = c.trail[:len(c.trail)-1]
	}
}

// want reports whether n is of the kind that the target takes, and faults when
// it is not.
func (c *decoder) want(n *node, k kind) bool {
	switch n.kind {
	case k:
		return true
	case kindNull:
		c.fault(n, "null is not a value here; leave the key out to get its default")
	default:
		c.fault(n, fmt.Sprintf("want %s, not %s", k, n.kind))
	}
	return false
}

func (c *decoder) fault(n *node, message string) { c.faultAt(n.start, message) }

func (c *decoder) faultAt(offset int, message string) {
	c.faults.add(Fault{
		Path: c.trail.path(), Line: c.doc.lines.at(offset), Message: message,
		holder: c.trail[:max(0, len(c.trail)-1)].path(),
	})
}

// fieldsOf maps the keys of a struct type to its fields.
func (c *decoder) fieldsOf(t reflect.Type) map[string]int {
	if known, ok := c.known[t]; ok {
		return known
	}
	known := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		if name := Key(t.Field(i)); name != "" {
			known[name] = i
		}
	}
	c.known[t] = known
	return known
}

// Key returns the key that a struct's field is read from, "" for none.
func Key(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || !f.IsExported() {
		return ""
	}
	return name
}
