package strictjson

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/units"
)

// number stores n in a numeric v, exactly or not at all. An int64 with a unit is
// a size.
func (c *decoder) number(n *node, v reflect.Value) {
	if v.Kind() == reflect.Int64 && c.unit() != "" {
		quantity(c, n, v, `a size like "512MiB" or "1GB"`, units.ParseSize, units.SizeOf)
		return
	}
	if !c.want(n, kindNumber) {
		return
	}
	bits := v.Type().Bits()
	switch fraction := strings.ContainsAny(n.text, ".eE"); {
	case v.CanFloat():
		if f, err := strconv.ParseFloat(n.text, bits); err == nil {
			v.SetFloat(f)
			return
		}
	case fraction:
		c.fault(n, "want a whole number, not "+excerpt.Quoted(n.text))
		return
	case v.CanInt():
		if i, err := strconv.ParseInt(n.text, 10, bits); err == nil {
			v.SetInt(i)
			return
		}
	default:
		if u, err := strconv.ParseUint(n.text, 10, bits); err == nil {
			v.SetUint(u)
			return
		}
	}
	c.fault(n, excerpt.Quoted(n.text)+" is out of range")
}

// unit returns that of the value that is read, "" for none.
func (c *decoder) unit() string {
	if c.rules.Unit == nil {
		return ""
	}
	return c.rules.Unit(c.trail.place())
}

// quantity stores an amount: a text with its unit, or a number of the place's
// own.
func quantity[T ~int64](
	c *decoder, n *node, v reflect.Value, example string, parse func(string) (T, error), of func(number, unit string) (T, error),
) {
	var amount T
	var err error
	switch unit := c.unit(); {
	case n.kind == kindString:
		amount, err = parse(n.text)
	case n.kind == kindNumber && (unit != "" || n.text == "0"):
		amount, err = of(n.text, unit)
	case n.kind == kindNumber:
		err = errors.New("a number has no unit here: want " + example)
	case unit != "":
		err = fmt.Errorf("want %s, or a number (in %s), not %s", example, unit, n.kind)
	default:
		err = fmt.Errorf("want %s, not %s", example, n.kind)
	}
	if err != nil {
		c.fault(n, err.Error())
		return
	}
	v.SetInt(int64(amount))
}
