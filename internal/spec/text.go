package spec

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/units"
)

// Set reads a value as a person writes it in a variable, a flag or YAML, and
// holds it to its bounds. The key must be one of the struct's.
func (o Of[T]) Set(into *T, key, text string) error {
	f, v := o.value(into, key)
	fresh := reflect.New(v.Type()).Elem()
	if err := f.parse(fresh, text); err != nil {
		return err
	}
	if message := f.Check(fresh); message != "" {
		return errors.New(message)
	}
	v.Set(fresh)
	return nil
}

// Text writes a key's value as Set reads it, a secret as its mask.
func (o Of[T]) Text(values *T, key string) string {
	f, v := o.value(values, key)
	return f.text(v)
}

func (f Field) text(v reflect.Value) string {
	switch x := f.Shown(v).(type) {
	case Secret:
		return x.String()
	case []string:
		return strings.Join(x, ",")
	default:
		return fmt.Sprint(x)
	}
}

// Type returns the type of a key's value.
func (o Of[T]) Type(key string) reflect.Type {
	_, v := o.value(new(T), key)
	return v.Type()
}

func (o Of[T]) value(values *T, key string) (field Field, value reflect.Value) {
	o.Each(values, func(f Field, v reflect.Value) {
		if f.Key == key {
			field, value = f, v
		}
	})
	if !value.IsValid() {
		panic("spec: there is no key " + key)
	}
	return field, value
}

// parse sets v from text.
func (f Field) parse(v reflect.Value, text string) (err error) {
	switch target := v.Addr().Interface().(type) {
	case *time.Duration:
		*target, err = units.ParseDuration(text)
	case *[]string:
		*target = list(text)
	case *bool:
		*target = text == "true"
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case *int:
		if *target, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
	case *float64:
		if *target, err = strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
	case *int64:
		*target, err = f.size(text)
	default:
		v.SetString(text)
	}
	return err
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// size takes a size with a unit, or a number of the field's own.
func (f Field) size(text string) (int64, error) {
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		return units.SizeOf(text, f.Unit)
	}
	return units.ParseSize(text)
}

// Shown is a value as it is written: durations and sizes with their unit.
func (f Field) Shown(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		return units.FormatDuration(x)
	case int64:
		if f.Unit != "" {
			return units.FormatSize(x)
		}
	}
	if v.Kind() == reflect.Slice && v.IsNil() {
		return []string{}
	}
	return v.Interface()
}
