package spec

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/nearest"
)

// Check returns what is wrong with a value of the field, "" for nothing.
func (f Field) Check(v reflect.Value) string {
	if message := f.oneOf(v); message != "" {
		return message
	}
	if v.Kind() == reflect.Map && v.MapIndex(reflect.ValueOf("")).IsValid() {
		return "a name in it is empty"
	}
	low := f.Min == "" || f.order(v, f.Min) >= 0
	high := f.Max == "" || f.order(v, f.Max) <= 0
	switch {
	case low && high:
		return ""
	case !low && v.Kind() == reflect.String:
		return "must not be empty; leave the key out for its default"
	case lengthUnit(v.Kind()) != "":
		return fmt.Sprintf("want at most %s%s, not %d", f.Max, lengthUnit(v.Kind()), v.Len())
	}
	return "want " + f.bounds()
}

// bounds is what a value may be, in words; "" for anything.
func (f Field) bounds() string {
	switch {
	case f.Min != "" && f.Max != "":
		return f.Min + " to " + f.Max
	case f.Min != "":
		return "at least " + f.Min
	case f.Max != "":
		return "at most " + f.Max
	}
	return ""
}

// lengthUnit is what the bounds of a kind count, "" when they are values.
func lengthUnit(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return " bytes"
	case reflect.Slice, reflect.Map:
		return " entries"
	}
	return ""
}

// order compares a value with a bound.
func (f Field) order(v reflect.Value, text string) int {
	if lengthUnit(v.Kind()) != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(fmt.Sprintf("spec: a bound of %s: %v", f.Key, err))
		}
		return cmp.Compare(v.Len(), n)
	}
	bound := reflect.New(v.Type()).Elem()
	if err := f.parse(bound, text); err != nil {
		panic(fmt.Sprintf("spec: a bound of %s: %v", f.Key, err))
	}
	if v.CanFloat() {
		return cmp.Compare(v.Float(), bound.Float())
	}
	return cmp.Compare(v.Int(), bound.Int())
}

// oneOf holds a text, or the entries of a list, against what they may be.
func (f Field) oneOf(v reflect.Value) string {
	if f.OneOf == nil {
		return ""
	}
	texts := []string{v.String()}
	if list, ok := v.Interface().([]string); ok {
		texts = list
	}
	for i, text := range texts {
		if slices.Contains(texts[:i], text) {
			return fmt.Sprintf("%q is named twice", text)
		}
		if slices.Contains(f.OneOf, text) {
			continue
		}
		return fmt.Sprintf("%q is not one of %s", text, strings.Join(f.OneOf, ", ")) + nearest.Hint(text, f.OneOf)
	}
	return ""
}
