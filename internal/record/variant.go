package record

import (
	"bytes"
	"slices"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// variant judges values for a Variant with a type that has no codec. ClickHouse tries its types by an order of
// its own and reads them loosely, so what it could take for another value than
// the one that was sent is refused.
type variant struct {
	name   string
	types  []coltype.Type
	codecs []Codec
}

// variantOf returns nil when a type has no codec.
func (m maker) variantOf(t coltype.Type) judge {
	j := &variant{name: label(t)}
	for _, elem := range t.Elems {
		codec, err := m.codec(elem)
		if err != nil {
			return nil
		}
		j.types, j.codecs = append(j.types, elem.Plain()), append(j.codecs, codec)
	}
	return j
}

func (j *variant) append(dst, value []byte) ([]byte, error) {
	if isNull(value) {
		return append(dst, value...), nil
	}
	text := value[0] == '"' && j.has(coltype.String)
	for i, t := range j.types {
		if !takes(t.Kind, value) || text && t.Kind == coltype.Bool {
			continue
		}
		if out, err := appendRendered(j.codecs[i], dst, value); err == nil {
			if text && slices.Contains(numeric, t.Kind) {
				return dst, j.refuse(value)
			}
			if value[0] != '[' && value[0] != '{' {
				out = append(out[:len(dst)], value...)
			}
			return out, nil
		}
	}
	if !j.has(coltype.String) || !j.isText(value) {
		return dst, j.refuse(value)
	}
	return append(dst, value...), nil
}

func (j *variant) refuse(value []byte) *Error {
	return mismatchf("%s is no value of %s, or ClickHouse would take it for another", excerpt.Of(value), j.name)
}

func (j *variant) has(kinds ...coltype.Kind) bool {
	return slices.ContainsFunc(j.types, func(t coltype.Type) bool { return slices.Contains(kinds, t.Kind) })
}

// takes reports whether a kind of type is for a kind of JSON.
func takes(kind coltype.Kind, value []byte) bool {
	switch c := value[0]; {
	case c == 't' || c == 'f':
		return kind == coltype.Bool
	case c == '-' || c-'0' <= 9:
		return slices.Contains(numeric, kind)
	}
	return kind != coltype.String
}

var (
	numeric = []coltype.Kind{coltype.Int, coltype.UInt, coltype.Float, coltype.BFloat16, coltype.Decimal}
	times   = []coltype.Kind{coltype.Date, coltype.Date32, coltype.DateTime, coltype.DateTime64, coltype.Time, coltype.Time64}
)

// isText reports whether a value that no other type takes is one of String: an
// empty text is 0 to ClickHouse where there are numbers, and one with digits may
// be a time.
func (j *variant) isText(value []byte) bool {
	if value[0] != '"' {
		return value[0] != '[' && value[0] != '{' && !j.has(numeric...) && !j.has(times...)
	}
	text := unquote(value)
	return (len(text) > 0 || !j.has(numeric...) && !j.has(times...)) && (!j.has(times...) || !bytes.ContainsAny(text, "0123456789"))
}
