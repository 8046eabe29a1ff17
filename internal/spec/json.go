package spec

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Decode reads a document into what into points to and holds every value to its
// field. The faults do not hold those of the document's form.
func (o Of[T]) Decode(doc *strictjson.Document, into *T) []strictjson.Fault {
	return doc.Decode(into, strictjson.Rules{
		Annotated: true,
		Unit: func(place string) string {
			f, _ := o.Lookup(place)
			return f.Unit
		},
		Check: func(place string, v reflect.Value) string {
			f, _ := o.Lookup(place)
			return f.Check(v)
		},
	})
}

// Show writes values as indented JSON that Decode reads back to the same,
// except for secrets, which are masked. Null pointers are left out.
func (o Of[T]) Show(values *T) ([]byte, error) {
	text, err := json.MarshalIndent(o.tree(reflect.ValueOf(values).Elem(), ""), "", "  ")
	return append(text, '\n'), err
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members one after the other.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		key, _ := json.Marshal(m.key) // a string never fails
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}

// tree is a value with its members in the order of the struct.
func (o Of[T]) tree(v reflect.Value, key string) any {
	var tree object
	switch v.Kind() {
	case reflect.Pointer:
		return o.tree(v.Elem(), key)
	case reflect.Struct:
		for i := range v.NumField() {
			name, value := strictjson.Key(v.Type().Field(i)), v.Field(i)
			if name != "" && (value.Kind() != reflect.Pointer || !value.IsNil()) {
				tree = append(tree, member{name, o.tree(value, below(key, name))})
			}
		}
		return tree
	case reflect.Map:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			tree = append(tree, member{name.String(), o.tree(v.MapIndex(name), below(key, "*"))})
		}
		return tree
	}
	f, _ := o.Lookup(key)
	return f.shown(v)
}
