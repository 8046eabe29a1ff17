package record

import (
	"bytes"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// idColumn finds the column of ids, negative for none.
func (t *Table) idColumn(name string) int {
	if column, ok := t.index[name]; ok {
		return column
	}
	return -1
}

// requireID refuses a record without an id where one is required.
func (d *Decoder) requireID() *Error {
	if !d.options.RequireID || d.sendsID() {
		return nil
	}
	name := excerpt.Of(d.options.IDField)
	fault := &Error{
		Code: CodeMissingID, Column: name, Message: subject(name) + " is missing, null or empty, and holds the id that every record of this table needs",
		Hint: "send an id in it, or set dedupe.tables." + d.table.name + ".require_id to false",
	}
	if d.id < 0 {
		fault.Message = subject(name) + " holds the id that every record needs, and table " + quoted(d.table.name) + " has no such column"
		fault.Hint = "add the column, or name the one of ids in dedupe.tables." + d.table.name + ".id_field"
	}
	return fault
}

// sendsID reports whether the record itself sends an id: not null, and not an
// empty text, which is how clients that have none fill the column.
func (d *Decoder) sendsID() bool {
	if d.id < 0 || !hasBit(d.sent, d.id) || !hasBit(d.carried, d.id) {
		return false
	}
	s := d.values[d.id]
	if d.format.delimited() && s.from != madeHere {
		return s.to > s.from && !d.isNullField(s)
	}
	text := d.text(s)
	return !isNull(text) && string(text) != `""`
}

// idOf is the id in an encoded value, copied: that of T and of Nullable(T) is
// one.
func (d *Decoder) idOf(encoded []byte) []byte {
	if _, ok := d.table.fields[d.id].codec.(*nullableCodec); ok {
		encoded = encoded[1:]
	}
	return bytes.Clone(encoded)
}
