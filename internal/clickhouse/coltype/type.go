// Package coltype parses the names of ClickHouse column types, such as
// "Map(LowCardinality(String), Array(Nullable(DateTime64(3, 'UTC'))))", into a
// tree. It knows the grammar of every type; what a type can do is for others.
package coltype

// Kind is a family of types.
type Kind uint8

// The kinds. Other is a type that this package has no name for: a newer
// server's, or an experimental one; its arguments are kept as text.
const (
	Other Kind = iota
	Int
	UInt
	Float
	BFloat16
	Decimal
	String
	FixedString
	Bool
	UUID
	IPv4
	IPv6
	Date
	Date32
	DateTime
	DateTime64
	Time
	Time64
	Interval
	Enum
	Nothing
	Nullable
	LowCardinality
	SimpleAggregateFunction
	AggregateFunction
	Array
	Map
	Tuple
	Nested
	Variant
	Dynamic
	JSON
	Geo
)

// Type is one parsed type. Only the fields of its Kind are set.
type Type struct {
	Kind Kind
	// Name is the family as written: "Int64", "Decimal32", "IntervalDay", "Ring".
	Name string
	// Text is the whole type as it was written.
	Text string
	// Bits is the width of Int, UInt, Float, Decimal and Enum.
	Bits int
	// Precision and Scale are Decimal's; Precision is also the number of
	// fractional digits of DateTime64 and Time64.
	Precision, Scale int
	// Length is FixedString's, in bytes.
	Length int
	// Zone is the time zone of DateTime and DateTime64, "" for the server's.
	Zone string
	// Elems are the types inside: one of a wrapper or Array, key and value of
	// Map, the members of Tuple and Nested, the alternatives of Variant, the
	// arguments of an aggregate function, what a Geo type is made of.
	Elems []Type
	// Names are the members' names of Nested and of a named Tuple, else nil.
	Names []string
	// Values are Enum's, in the order written.
	Values []EnumValue
	// Function is an aggregate function with its parameters: "quantiles(0.5)".
	Function string
	// Args is the text between the parentheses of JSON, Dynamic and Other.
	Args string
}

// EnumValue is one name of an Enum and its number.
type EnumValue struct {
	Name  string
	Value int16
}

// Elem is the first type inside; it is for the kinds that have one.
func (t Type) Elem() Type { return t.Elems[0] }

// String returns the type as it was written.
func (t Type) String() string { return t.Text }

// AcceptsNull reports whether a value of the type may be NULL.
func (t Type) AcceptsNull() bool {
	switch t.Kind {
	case Nullable, Variant, Dynamic, Nothing:
		return true
	case LowCardinality, SimpleAggregateFunction:
		return t.Elem().AcceptsNull()
	}
	return false
}
