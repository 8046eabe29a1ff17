package wavehouse

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// marshal is json.Marshal that refuses what would become another value: text that is
// not UTF-8, whose bytes would be U+FFFD, and a struct that hides all its fields (a
// sync.Map, most errors), which would be {}.
func marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err == nil && (bytes.Contains(text, []byte(`\ufffd`)) || bytes.Contains(text, []byte(`{}`))) {
		err = lossless(reflect.ValueOf(v), "") // the text shows that it may be so
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// lossless is an error that names the first value which JSON would change. What writes
// itself is left alone. It is called for values that have a JSON form, so they end.
func lossless(v reflect.Value, at string) error {
	if !v.IsValid() || writesItself(v) {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return lossless(v.Elem(), at)
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return lossy(at, "text that is not UTF-8")
		}
	case reflect.Struct:
		return losslessFields(v, at)
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			name := fmt.Sprint(entries.Key())
			if !utf8.ValidString(name) {
				return lossy(at, "a map with a key that is not UTF-8")
			}
			if err := lossless(entries.Value(), within(at, name)); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := lossless(v.Index(i), at+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
	}
	return nil
}

func losslessFields(v reflect.Value, at string) error {
	seen := v.NumField() == 0
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name := field.Tag.Get("json")
		switch {
		case !field.IsExported() && !field.Anonymous:
			continue
		case name == "-": // left out on purpose
			seen = true
			continue
		}
		seen = true
		name, _, _ = strings.Cut(name, ",")
		if name == "" {
			name = field.Name
		}
		if err := lossless(v.Field(i), within(at, name)); err != nil {
			return err
		}
	}
	if !seen {
		return lossy(at, "a "+v.Type().String()+", which has no exported field")
	}
	return nil
}

func writesItself(v reflect.Value) bool {
	of := v.Type()
	if v.CanAddr() {
		of = reflect.PointerTo(of)
	}
	return of.Implements(reflect.TypeFor[json.Marshaler]()) || of.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

func within(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func lossy(at, what string) error {
	if at == "" {
		at = "the value"
	}
	return fmt.Errorf("%s is %s: JSON would make another value of it", at, what)
}
