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
	return codecOf(t, zone)
}

// codecOf builds the codec of a parsed type.
func codecOf(t coltype.Type, zone *time.Location) (Codec, error) {
	switch t.Kind {
	case coltype.LowCardinality, coltype.SimpleAggregateFunction, coltype.Geo:
		return codecOf(t.Elem(), zone)
	case coltype.Nullable, coltype.Array:
		return listOf(t, zone)
	case coltype.Nested:
		elem, err := tupleOf(t, zone)
		if err != nil {
			return nil, err
		}
		return &arrayCodec{plainCodec: plainCodec{name: label(t)}, elem: elem}, nil
	case coltype.Tuple:
		return tupleOf(t, zone)
	case coltype.Map:
		return mapOf(t, zone)
	}
	if codec := scalarCodec(t, zone); codec != nil {
		return codec, nil
	}
	return nil, noCodec(t)
}

// listOf builds the codec of Array and Nullable.
func listOf(t coltype.Type, zone *time.Location) (Codec, error) {
	elem, err := codecOf(t.Elem(), zone)
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

// scalarCodec builds the codec of a type that holds no others, nil when there
// is none.
func scalarCodec(t coltype.Type, zone *time.Location) Codec {
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
		return newClock(t.Text, 4, 0)
	case coltype.Time64:
		return newClock(t.Text, 8, t.Precision)
	case coltype.Date, coltype.Date32:
		return newDate(t.Text)
	case coltype.DateTime:
		return newDateTime(t.Text, zoneOf(t, zone))
	case coltype.DateTime64:
		return newDateTime64(t.Text, t.Precision, zoneOf(t, zone))
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

func tupleOf(t coltype.Type, zone *time.Location) (Codec, error) {
	if len(t.Elems) == 0 {
		return nil, noCodec(t)
	}
	elems := make([]Codec, len(t.Elems))
	for i, elem := range t.Elems {
		var err error
		if elems[i], err = codecOf(elem, zone); err != nil {
			return nil, err
		}
	}
	return newTuple(label(t), elems, t.Names), nil
}

// mapOf builds a map's codec. Keys that are composite have no JSON form that
// reads back.
func mapOf(t coltype.Type, zone *time.Location) (Codec, error) {
	key := scalarCodec(unwrap(t.Elems[0]), zone)
	if key == nil {
		return nil, noCodec(t)
	}
	value, err := codecOf(t.Elems[1], zone)
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
