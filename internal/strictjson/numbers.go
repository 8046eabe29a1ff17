package strictjson

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/units"
)

// number stores n in a numeric v, exactly or not at all.
func (c *decoder) number(n *node, v reflect.Value, path string) {
	if !c.want(n, kindNumber, path) {
		return
	}
	switch {
	case v.CanFloat():
		f, err := strconv.ParseFloat(n.text, v.Type().Bits())
		if err != nil {
			c.fault(n, path, excerpt.Quoted(n.text)+" is out of range")
			return
		}
		v.SetFloat(f)
	case strings.ContainsAny(n.text, ".eE"):
		c.fault(n, path, "want a whole number, not "+excerpt.Quoted(n.text))
	case v.CanInt():
		i, err := strconv.ParseInt(n.text, 10, v.Type().Bits())
		if err != nil {
			c.fault(n, path, excerpt.Quoted(n.text)+" is out of range")
			return
		}
		v.SetInt(i)
	case v.CanUint():
		u, err := strconv.ParseUint(n.text, 10, v.Type().Bits())
		if err != nil {
			c.fault(n, path, excerpt.Quoted(n.text)+" is out of range")
			return
		}
		v.SetUint(u)
	default:
		panic("strictjson: no reading for " + v.Type().String())
	}
}

// duration stores a duration: a string with its own unit, or a number of the
// field's unit.
func (c *decoder) duration(n *node, v reflect.Value, path string, tag reflect.StructTag) {
	unit := tag.Get("unit")
	scale, ok := units.DurationUnit(unit)
	if !ok && unit != textOnly {
		panic("strictjson: a time.Duration needs a unit tag, at " + path)
	}
	example := `a duration like "90s", "12h" or "7d"`
	c.quantity(n, path, ok, unit, example, func(text string) error {
		d, err := units.ParseDuration(text)
		v.SetInt(int64(d))
		return err
	}, func(number string) error {
		d, err := units.DurationOf(number, max(scale, time.Nanosecond))
		v.SetInt(int64(d))
		return err
	})
}

// size stores a size in bytes, as duration does.
func (c *decoder) size(n *node, v reflect.Value, path string, tag reflect.StructTag) {
	unit := tag.Get("size")
	scale, ok := units.SizeUnit(unit)
	if !ok && unit != textOnly {
		panic("strictjson: unknown size unit at " + path)
	}
	c.quantity(n, path, ok, unit, `a size like "512MiB" or "1GB"`, func(text string) error {
		b, err := units.ParseSize(text)
		v.SetInt(b)
		return err
	}, func(number string) error {
		b, err := units.SizeOf(number, max(scale, 1))
		v.SetInt(b)
		return err
	})
}

// textOnly is the unit of a field whose numbers have none.
const textOnly = "text"

func (c *decoder) quantity(n *node, path string, bare bool, unit, example string, text, number func(string) error) {
	var err error
	switch {
	case n.kind == kindString:
		err = text(n.text)
	case n.kind == kindNumber && (bare || n.text == "0"):
		err = number(n.text)
	case n.kind == kindNumber:
		err = fmt.Errorf("a number has no unit here: want %s", example)
	case bare:
		err = fmt.Errorf("want %s, or a number (in %s), not %s", example, unit, n.kind)
	default:
		err = fmt.Errorf("want %s, not %s", example, n.kind)
	}
	if err != nil {
		c.fault(n, path, err.Error())
	}
}
