package record

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Check is a rule that every record of a request must meet, beside those of
// the column's type.
type Check struct {
	// Column is the column that the rule is about.
	Column int
	// Allowed are the values that a record may carry in it, encoded by the
	// column's codec. None refuses every record.
	Allowed [][]byte
	// Stamp gives the first of Allowed to a record that leaves the column out,
	// whether or not DecodeOptions.Allow lets it be sent. Without it such a
	// record is refused.
	Stamp bool
}

// stamp gives the record the columns that checks provide, and refuses a
// record that lacks one which they require.
func (d *Decoder) stamp() *Error {
	for i := range d.options.Checks {
		c := &d.options.Checks[i]
		switch {
		case hasBit(d.carried, c.Column):
		case !c.Stamp:
			return d.checkFailed(c.Column, "is required by the policy of this role")
		case hasBit(d.sent, c.Column):
			return d.checkFailed(c.Column, "may not be null by the policy of this role")
		case len(c.Allowed) == 0:
			return d.checkFailed(c.Column, "has no value that the policy of this role allows")
		default:
			setBit(d.carried, c.Column)
		}
	}
	return nil
}

// stamped returns the value of a column that the record carries and its sender
// did not send.
func (d *Decoder) stamped(column int) []byte {
	for i := range d.options.Checks {
		if c := &d.options.Checks[i]; c.Column == column && c.Stamp {
			return c.Allowed[0]
		}
	}
	return nil
}

// verify holds an encoded value against the checks of its column, and notes it
// where records are told apart by what was checked.
func (d *Decoder) verify(column int, encoded []byte) *Error {
	checked := false
	for i := range d.options.Checks {
		c := &d.options.Checks[i]
		if c.Column != column {
			continue
		}
		if !c.allows(d.table.fields[column].codec, encoded) {
			return d.checkFailed(column, "has a value that the policy of this role does not allow")
		}
		checked = true
	}
	if checked && d.id >= 0 {
		d.checked = appendText(appendText(d.checked, []byte(d.table.columns[column].Name)), encoded)
	}
	return nil
}

func (c *Check) allows(codec Codec, encoded []byte) bool {
	for _, allowed := range c.Allowed {
		if bytes.Equal(allowed, encoded) {
			return true
		}
		if cmp, ok := codec.Compare(allowed, encoded); ok && cmp == 0 {
			return true
		}
	}
	return false
}

// AppendChecks appends what tells the checks of this request from those of
// others: the names of their columns and the values that they allow.
func (d *Decoder) AppendChecks(b []byte) []byte {
	for i := range d.options.Checks {
		c := &d.options.Checks[i]
		b = appendText(b, []byte(d.table.columns[c.Column].Name))
		b = binary.AppendUvarint(b, uint64(len(c.Allowed)))
		for _, allowed := range slices.SortedFunc(slices.Values(c.Allowed), bytes.Compare) {
			b = appendText(b, allowed)
		}
	}
	return b
}

// appendText appends a text that ends where it says.
func appendText(b, text []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func (d *Decoder) checkFailed(column int, message string) *Error {
	name := d.table.columns[column].Name
	return &Error{Code: CodeCheckFailed, Column: name, Message: subject(name) + " " + message}
}
