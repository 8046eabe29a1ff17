package record

// Codec reads, renders, slices and compares the values of one ClickHouse type.
// Codecs hold no state and may be used by many goroutines at once.
type Codec interface {
	// AppendJSON judges one JSON value, without surrounding space and
	// syntactically valid, and appends it to dst as RowBinary. An error is an
	// *Error without Column, and dst is then returned unchanged.
	AppendJSON(dst, value []byte) ([]byte, error)
	// AppendText is AppendJSON for the text of a CSV or TSV field, without its
	// quotes and escapes, in valid UTF-8. Arrays, maps and tuples come in the
	// notation of ClickHouse, as in ['a',NULL], {'k':1} and (1,'x'), or as JSON.
	AppendText(dst, field []byte) ([]byte, error)
	// RenderJSON appends the first value of encoded as the JSON that ClickHouse
	// prints for it and returns how many bytes of encoded it took.
	RenderJSON(dst, encoded []byte, o RenderOptions) (out []byte, n int, err error)
	// Skip returns the length of the first value of encoded.
	Skip(encoded []byte) (n int, err error)
	// Compare orders two encoded values as ClickHouse does. It is not ok when
	// the values do not compare (NULL, NaN): such a pair matches no predicate.
	Compare(a, b []byte) (cmp int, ok bool)
	// IsNull reports whether the first value of encoded is NULL.
	IsNull(encoded []byte) bool
}

// RenderOptions vary the JSON of RenderJSON.
type RenderOptions struct {
	// Int64AsString puts integers of 64 bits and more, and decimals, in quotes,
	// for readers that hold numbers as doubles.
	Int64AsString bool
	// denormals names NaN and the infinities in strings instead of null, and leaves
	// names as they are that are not UTF-8, for rows that ClickHouse reads back.
	denormals bool
	// inLine has such names as their numbers: lines are UTF-8.
	inLine bool
}
