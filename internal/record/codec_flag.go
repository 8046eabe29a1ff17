package record

import "github.com/wavehouse/wavehouse/internal/excerpt"

// Flag is what the engine of a table reads from a column: one of few values, any
// other of which it refuses with all rows of an INSERT.
type Flag string

// Flags by what engines call them.
const (
	FlagSign    Flag = "sign"       // 1 or -1, of a CollapsingMergeTree
	FlagDeleted Flag = "is_deleted" // 0 or 1, of a ReplacingMergeTree
)

// flagCodec judges the values of a flag, a number of one byte.
type flagCodec struct {
	Codec
	flag Flag
}

func (c flagCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	out, err := c.Codec.AppendJSON(dst, value)
	return c.judged(dst, out, value, err)
}

func (c flagCodec) AppendText(dst, field []byte) ([]byte, error) {
	out, err := c.Codec.AppendText(dst, field)
	return c.judged(dst, out, field, err)
}

// judged returns out, which is dst and a value, unless the engine refuses it.
func (c flagCodec) judged(dst, out, shown []byte, err error) ([]byte, error) {
	if err != nil || len(out) != len(dst)+1 {
		return out, err
	}
	value := int8(out[len(dst)]) //nolint:gosec // the bits of an Int8, or of 0 and 1
	switch {
	case c.flag == FlagSign && value != 1 && value != -1:
		return dst, outOfRangef("%s is not a sign: the table's engine takes 1 and -1", excerpt.Of(shown))
	case c.flag == FlagDeleted && value != 0 && value != 1:
		return dst, outOfRangef("%s does not say whether the row is deleted: the table's engine takes 0 and 1", excerpt.Of(shown))
	}
	return out, nil
}
