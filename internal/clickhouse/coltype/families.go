package coltype

import "math"

// plain are the types without arguments.
var plain = map[string]Type{
	"Int8": {Kind: Int, Bits: 8}, "Int16": {Kind: Int, Bits: 16}, "Int32": {Kind: Int, Bits: 32},
	"Int64": {Kind: Int, Bits: 64}, "Int128": {Kind: Int, Bits: 128}, "Int256": {Kind: Int, Bits: 256},
	"UInt8": {Kind: UInt, Bits: 8}, "UInt16": {Kind: UInt, Bits: 16}, "UInt32": {Kind: UInt, Bits: 32},
	"UInt64": {Kind: UInt, Bits: 64}, "UInt128": {Kind: UInt, Bits: 128}, "UInt256": {Kind: UInt, Bits: 256},
	"Float32": {Kind: Float, Bits: 32}, "Float64": {Kind: Float, Bits: 64}, "BFloat16": {Kind: BFloat16, Bits: 16},
	"String": {Kind: String}, "Bool": {Kind: Bool}, "UUID": {Kind: UUID}, "IPv4": {Kind: IPv4}, "IPv6": {Kind: IPv6},
	"Date": {Kind: Date}, "Date32": {Kind: Date32}, "Time": {Kind: Time}, "Nothing": {Kind: Nothing},
}

// geo are the geometric types and what they are made of.
var geo = map[string]string{
	"Point":           "Tuple(Float64, Float64)",
	"Ring":            "Array(Point)",
	"LineString":      "Array(Point)",
	"MultiLineString": "Array(LineString)",
	"Polygon":         "Array(Ring)",
	"MultiPolygon":    "Array(Polygon)",
}

// intervals are the units after "Interval".
var intervals = map[string]bool{
	"Nanosecond": true, "Microsecond": true, "Millisecond": true, "Second": true, "Minute": true,
	"Hour": true, "Day": true, "Week": true, "Month": true, "Quarter": true, "Year": true,
}

// family takes the arguments of one family of types.
type family func(p *parser) (Type, error)

// withArguments returns the family of that name, nil when there is none.
func withArguments(name string) family {
	switch name {
	case "Nullable":
		return elems(Nullable, 1, 1)
	case "LowCardinality":
		return elems(LowCardinality, 1, 1)
	case "Array":
		return elems(Array, 1, 1)
	case "Map":
		return elems(Map, 2, 2)
	case "Variant":
		return elems(Variant, 1, math.MaxInt)
	case "Tuple":
		return (*parser).tuple
	case "Nested":
		return (*parser).nested
	case "SimpleAggregateFunction":
		return func(p *parser) (Type, error) { return p.aggregate(SimpleAggregateFunction) }
	case "AggregateFunction":
		return func(p *parser) (Type, error) { return p.aggregate(AggregateFunction) }
	case "JSON":
		return func(p *parser) (Type, error) { return p.raw(JSON) }
	case "Dynamic":
		return func(p *parser) (Type, error) { return p.raw(Dynamic) }
	}
	return withSize(name)
}

// withSize is withArguments for the types that take numbers, zones or names.
func withSize(name string) family {
	switch name {
	case "Decimal":
		return (*parser).decimal
	case "Decimal32":
		return sizedDecimal(9)
	case "Decimal64":
		return sizedDecimal(18)
	case "Decimal128":
		return sizedDecimal(38)
	case "Decimal256":
		return sizedDecimal(76)
	case "FixedString":
		return (*parser).fixedString
	case "DateTime":
		return (*parser).dateTime
	case "DateTime64":
		return (*parser).dateTime64
	case "Time64":
		return (*parser).time64
	case "Enum8":
		return func(p *parser) (Type, error) { return p.enum(8) }
	case "Enum16":
		return func(p *parser) (Type, error) { return p.enum(16) }
	}
	return nil
}

// elems takes "(T, …)" with at least low and at most high types.
func elems(kind Kind, low, high int) family {
	return func(p *parser) (Type, error) { return p.types(kind, low, high) }
}
