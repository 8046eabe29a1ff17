package spec

import (
	"encoding/json"
	"reflect"

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

// tree is a value with the names of its keys.
func (o Of[T]) tree(v reflect.Value, key string) any {
	tree := map[string]any{}
	switch v.Kind() {
	case reflect.Pointer:
		return o.tree(v.Elem(), key)
	case reflect.Struct:
		for i := range v.NumField() {
			name, value := strictjson.Key(v.Type().Field(i)), v.Field(i)
			if name != "" && (value.Kind() != reflect.Pointer || !value.IsNil()) {
				tree[name] = o.tree(value, strictjson.Join(key, name))
			}
		}
		return tree
	case reflect.Map:
		for _, name := range v.MapKeys() {
			tree[name.String()] = o.tree(v.MapIndex(name), strictjson.Join(key, "*"))
		}
		return tree
	}
	f, _ := o.Lookup(key)
	return f.Shown(v)
}
