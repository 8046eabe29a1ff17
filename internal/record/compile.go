package record

import (
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// NewCodec builds the codec of a type; zone is of times that carry neither an
// offset nor a zone in their type. A type without a codec is an error that
// names it.
func NewCodec(typeText string, zone *time.Location) (Codec, error) {
	t, err := coltype.Parse(typeText)
	if err != nil {
		return nil, err
	}
	return maker{zone: zone}.codec(t)
}

// maker makes codecs.
type maker struct {
	zone *time.Location
	// cut is for codecs that cut digits of a second which their type does not
	// hold.
	cut bool
	// door is for values that arrive: rows that are stored already may hold what
	// is refused there.
	door bool
	// inner: a type without a codec may stand inside of another.
	inner bool
}

// codec builds the codec of a parsed type.
func (m maker) codec(t coltype.Type) (Codec, error) {
	switch t.Kind {
	case coltype.LowCardinality, coltype.SimpleAggregateFunction, coltype.Geo:
		return m.codec(t.Elem())
	case coltype.Nullable, coltype.Array:
		return m.list(t)
	case coltype.Nested:
		elem, err := m.tuple(t)
		if err != nil {
			return nil, err
		}
		return &arrayCodec{plainCodec: plainCodec{name: label(t)}, elem: elem}, nil
	case coltype.Tuple:
		return m.tuple(t)
	case coltype.Map:
		return m.mapping(t)
	case coltype.Variant:
		if codec, err := m.variant(t); err == nil {
			return codec, nil
		}
	}
	if codec := m.scalar(t); codec != nil {
		return codec, nil
	}
	if m.inner {
		return m.raw(t, t.Text), nil
	}
	return nil, noCodec(t)
}

// list builds the codec of Array and Nullable.
func (m maker) list(t coltype.Type) (Codec, error) {
	elem, err := m.codec(t.Elem())
	if err != nil {
		return nil, err
	}
	if t.Kind == coltype.Nullable {
		return &nullableCodec{elem: elem}, nil
	}
	return &arrayCodec{plainCodec: plainCodec{name: label(t)}, elem: elem}, nil
}

// label is a type's text, cut to a length fit for messages.
func label(t coltype.Type) string { return excerpt.Of(t.Text) }

func noCodec(t coltype.Type) error {
	return fmt.Errorf("values of type %s cannot be read here", label(t))
}

// scalar builds the codec of a type that holds no others, nil when there
// is none.
func (m maker) scalar(t coltype.Type) Codec {
	switch t.Kind {
	case coltype.Int, coltype.UInt:
		return newInt(t.Text, t.Bits, t.Kind == coltype.Int)
	case coltype.Interval:
		return newInt(t.Text, t.Bits, true)
	case coltype.Float, coltype.BFloat16:
		return newFloat(t.Text, t.Bits)
	case coltype.Decimal:
		return newDecimal(t.Text, t.Bits, t.Precision, t.Scale)
	case coltype.String:
		return &stringCodec{plainCodec{name: label(t)}}
	case coltype.FixedString:
		return &fixedStringCodec{newFixed(label(t), t.Length)}
	case coltype.Bool:
		return &boolCodec{newFixed(t.Text, 1)}
	case coltype.UUID:
		return &uuidCodec{newFixed(t.Text, 16)}
	case coltype.IPv4:
		return &ipv4Codec{newFixed(t.Text, 4)}
	case coltype.IPv6:
		return &ipv6Codec{newFixed(t.Text, 16)}
	case coltype.Enum:
		return newEnum(t)
	case coltype.Time:
		return newClock(t.Text, 4, 0, m.cut)
	case coltype.Time64:
		return newClock(t.Text, 8, t.Precision, m.cut)
	case coltype.Date, coltype.Date32:
		return newDate(t.Text)
	case coltype.DateTime:
		return newDateTime(t.Text, zoneOf(t, m.zone), m.cut)
	case coltype.DateTime64:
		return newDateTime64(t.Text, t.Precision, zoneOf(t, m.zone), m.cut)
	}
	return nil
}

// zoneOf is the zone of a type's times without an offset: its own or the
// server's, nil when its own is not known on this machine.
func zoneOf(t coltype.Type, server *time.Location) *time.Location {
	if t.Zone == "" {
		return server
	}
	zone, err := time.LoadLocation(t.Zone)
	if err != nil {
		return nil
	}
	return zone
}

func (m maker) tuple(t coltype.Type) (Codec, error) {
	if len(t.Elems) == 0 {
		return nil, noCodec(t)
	}
	elems := make([]Codec, len(t.Elems))
	for i, elem := range t.Elems {
		var err error
		if elems[i], err = m.codec(elem); err != nil {
			return nil, err
		}
	}
	return newTuple(label(t), elems, t.Names), nil
}

// mapping builds a map's codec. Keys that are composite have no JSON form that
// reads back.
func (m maker) mapping(t coltype.Type) (Codec, error) {
	key := m.scalar(unwrap(t.Elems[0]))
	if key == nil {
		return nil, noCodec(t)
	}
	value, err := m.codec(t.Elems[1])
	if err != nil {
		return nil, err
	}
	return &mapCodec{plainCodec: plainCodec{name: label(t)}, key: key, value: value}, nil
}

// unwrap takes LowCardinality away.
func unwrap(t coltype.Type) coltype.Type {
	if t.Kind == coltype.LowCardinality {
		return t.Elem()
	}
	return t
}
