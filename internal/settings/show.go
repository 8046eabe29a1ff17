package settings

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"

	"github.com/wavehouse/wavehouse/internal/units"
)

// hidden stands for the value of a header, which may be a secret.
const hidden = "********"

// Show renders the adopted config.json, defaults included, as JSON that would
// be read back to the same settings, except that the values of
// clickhouse.headers are hidden.
func (c *Config) Show() ([]byte, error) {
	shown := *c
	shown.ClickHouse.Headers = map[string]string{}
	for name := range c.ClickHouse.Headers {
		shown.ClickHouse.Headers[name] = hidden
	}
	var compact, indented bytes.Buffer
	if err := show(&compact, reflect.ValueOf(shown), ""); err != nil {
		return nil, err
	}
	if err := json.Indent(&indented, compact.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// show writes a value with its fields in the order of the type; null pointers
// are left out.
func show(b *bytes.Buffer, v reflect.Value, tag reflect.StructTag) error {
	switch v.Kind() {
	case reflect.Struct:
		return showStruct(b, v)
	case reflect.Pointer:
		return show(b, v.Elem(), tag)
	case reflect.Map:
		return showMap(b, v, tag)
	}
	text, err := json.Marshal(shownValue(v, tag))
	b.Write(text)
	return err
}

func showStruct(b *bytes.Buffer, v reflect.Value) error {
	separator := "{"
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := jsonName(f)
		if name == "" || v.Field(i).Kind() == reflect.Pointer && v.Field(i).IsNil() {
			continue
		}
		b.WriteString(separator + `"` + name + `":`)
		separator = ","
		if err := show(b, v.Field(i), f.Tag); err != nil {
			return err
		}
	}
	if separator == "{" {
		b.WriteString("{")
	}
	b.WriteString("}")
	return nil
}

func showMap(b *bytes.Buffer, v reflect.Value, tag reflect.StructTag) error {
	b.WriteString("{")
	for i, k := range sortedKeys(v) {
		if i > 0 {
			b.WriteString(",")
		}
		name, err := json.Marshal(k.String())
		if err != nil {
			return err
		}
		b.Write(append(name, ':'))
		if err := show(b, v.MapIndex(k), tag); err != nil {
			return err
		}
	}
	b.WriteString("}")
	return nil
}

// shownValue writes durations and sizes with their unit.
func shownValue(v reflect.Value, tag reflect.StructTag) any {
	if d, ok := v.Interface().(time.Duration); ok {
		return units.FormatDuration(d)
	}
	if _, size := tag.Lookup("size"); size {
		return units.FormatSize(v.Int())
	}
	if v.Kind() == reflect.Slice && v.IsNil() {
		return []string{}
	}
	return v.Interface()
}
