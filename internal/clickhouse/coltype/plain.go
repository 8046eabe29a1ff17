package coltype

// Plain takes the wrappers off a type that do not change what a value is:
// Nullable, LowCardinality and SimpleAggregateFunction.
func (t Type) Plain() Type {
	for {
		switch t.Kind {
		case Nullable, LowCardinality, SimpleAggregateFunction:
			t = t.Elem()
		default:
			return t
		}
	}
}

// Ordered reports whether values of a plain type compare with a constant of
// the same type, for equality and for order.
func (t Type) Ordered() bool {
	switch t.Kind {
	case Int, UInt, Float, Decimal, String, FixedString, Bool, UUID, IPv4, IPv6, Enum,
		Date, Date32, DateTime, DateTime64, Time, Time64:
		return true
	}
	return false
}

// Aggregates reports whether merges of ClickHouse change stored values of the
// type, so that what was sent need not be what is read.
func (t Type) Aggregates() bool {
	switch t.Kind {
	case SimpleAggregateFunction, AggregateFunction:
		return true
	}
	for _, elem := range t.Elems {
		if elem.Aggregates() {
			return true
		}
	}
	return false
}
