package strictjson

import (
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
		c.size(n, v)
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

func (c *decoder) duration(n *node, v reflect.Value) {
	unit := c.unit()
	switch {
	case n.kind == kindString:
		d, err := units.ParseDuration(n.text)
		c.quantity(n, v, int64(d), err)
	case n.kind == kindNumber && (unit != "" || n.text == "0"):
		d, err := units.DurationOf(n.text, unit)
		c.quantity(n, v, int64(d), err)
	default:
		c.noQuantity(n, `a duration like "90s", "12h" or "7d"`, unit)
	}
}

func (c *decoder) size(n *node, v reflect.Value) {
	switch n.kind {
	case kindString:
		size, err := units.ParseSize(n.text)
		c.quantity(n, v, size, err)
	case kindNumber:
		size, err := units.SizeOf(n.text, c.unit())
		c.quantity(n, v, size, err)
	default:
		c.noQuantity(n, `a size like "512MiB" or "1GB"`, c.unit())
	}
}

// quantity stores what was read, unless it failed.
func (c *decoder) quantity(n *node, v reflect.Value, amount int64, err error) {
	if err != nil {
		c.fault(n, err.Error())
		return
	}
	v.SetInt(amount)
}

func (c *decoder) noQuantity(n *node, example, unit string) {
	switch {
	case n.kind == kindNumber:
		c.fault(n, "a number has no unit here: want "+example)
	case unit != "":
		c.fault(n, fmt.Sprintf("want %s, or a number (in %s), not %s", example, unit, n.kind))
	default:
		c.fault(n, fmt.Sprintf("want %s, not %s", example, n.kind))
	}
}
