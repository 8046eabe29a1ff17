package settings

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/strictjson"
	"github.com/wavehouse/wavehouse/internal/units"
)

// checkBounds holds every value of a decoded document against the min, max and
// enum tags of its field.
func checkBounds(s *source, document any) {
	walk(reflect.ValueOf(document).Elem(), "", "", func(v reflect.Value, path string, tag reflect.StructTag) {
		if message := outOfBounds(v, tag); message != "" {
			s.error(path, message)
		}
	})
}

// walk visits every scalar of a document, with its path and its field's tag.
// Null pointers are not visited.
func walk(v reflect.Value, path string, tag reflect.StructTag, visit func(reflect.Value, string, reflect.StructTag)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), path, tag, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if name := jsonName(f); name != "" {
				walk(v.Field(i), strictjson.Join(path, name), f.Tag, visit)
			}
		}
	case reflect.Map:
		for _, k := range sortedKeys(v) {
			walk(v.MapIndex(k), strictjson.Join(path, k.String()), tag, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), strictjson.Index(path, i), tag, visit)
		}
	default:
		visit(v, path, tag)
	}
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || !f.IsExported() {
		return ""
	}
	return name
}

// outOfBounds says what the value should have been, "" when it is fine.
func outOfBounds(v reflect.Value, tag reflect.StructTag) string {
	if enum := tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), v.String()) {
		return fmt.Sprintf("want one of %s, not %q", strings.ReplaceAll(enum, ",", ", "), v.String())
	}
	if !v.CanInt() {
		return ""
	}
	low, hasLow := bound(v, tag, "min")
	high, hasHigh := bound(v, tag, "max")
	n := v.Int()
	switch {
	case (!hasLow || n >= low) && (!hasHigh || n <= high):
		return ""
	case hasLow && hasHigh:
		return fmt.Sprintf("want %s to %s", tag.Get("min"), tag.Get("max"))
	case hasLow:
		return "want at least " + tag.Get("min")
	}
	return "want at most " + tag.Get("max")
}

// bound reads a bound in the way of its field's values.
func bound(v reflect.Value, tag reflect.StructTag, name string) (n int64, ok bool) {
	text, ok := tag.Lookup(name)
	if !ok {
		return 0, false
	}
	var err error
	var d time.Duration
	switch _, size := tag.Lookup("size"); {
	case v.Type() == reflect.TypeFor[time.Duration]():
		d, err = units.ParseDuration(text)
		n = int64(d)
	case size:
		n, err = units.ParseSize(text)
	default:
		n, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil {
		panic(fmt.Sprintf("settings: tag %s:%q: %v", name, text, err))
	}
	return n, true
}
