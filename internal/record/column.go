// Package record turns request bodies into typed rows and typed rows back into
// JSON. A value is parsed once, by the codec of its column's ClickHouse type,
// into RowBinary; from then on it is bytes that are copied, skipped, compared
// or rendered, and never parsed as text again.
package record

// DefaultKind says how ClickHouse computes a column that an INSERT leaves out.
type DefaultKind string

// The kinds of system.columns.default_kind.
const (
	DefaultNone         DefaultKind = ""
	DefaultExpression   DefaultKind = "DEFAULT"
	DefaultMaterialized DefaultKind = "MATERIALIZED"
	DefaultAlias        DefaultKind = "ALIAS"
	DefaultEphemeral    DefaultKind = "EPHEMERAL"
)

// Column is one column of a table as ClickHouse describes it.
type Column struct {
	Name string
	// Type is the type's text, for example "LowCardinality(Nullable(String))".
	Type string
	// Position is the column's place in the table, from 1.
	Position          int
	DefaultKind       DefaultKind
	DefaultExpression string
	Comment           string
	// Flag is what the table's engine reads from it, "" for nothing.
	Flag Flag
}

// computed reports whether a value for the column may never be sent.
func (c Column) computed() bool {
	return c.DefaultKind == DefaultMaterialized || c.DefaultKind == DefaultAlias
}

// hasDefault reports whether ClickHouse computes a value for the column when
// an INSERT leaves it out.
func (c Column) hasDefault() bool {
	return c.DefaultKind == DefaultExpression || c.DefaultKind == DefaultEphemeral
}
