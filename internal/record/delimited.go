package record

import (
	"bytes"
	"unicode/utf8"
)

// delimited is a Decoder's part that is of CSV and TSV.
type delimited struct {
	// columns are those of a record's fields, in their order; -1-i is that of
	// unknown[i].
	columns []int
	unknown [][]byte
	// separator stands between fields.
	separator byte
	// valid says that the whole body is UTF-8.
	valid bool
	// scratch holds a field whose quotes or escapes were resolved.
	scratch []byte
}

// delimited reports whether records are fields between separators.
func (f InputFormat) delimited() bool { return f >= CSV }

func (f InputFormat) csv() bool { return f == CSV || f == CSVWithoutHeader }

// openDelimited finds out whether the body's quotes close and reads its header.
func (d *Decoder) openDelimited() *BodyError {
	d.src, d.delimited.separator = d.body, '\t'
	if d.format.csv() {
		d.delimited.separator = ','
	}
	if skipSpace(d.body, 0) == len(d.body) {
		return &BodyError{Code: CodeBodyEmpty, Message: "the body is empty"}
	}
	if d.format.csv() {
		if at := openQuote(d.body, d.delimited.separator); at >= 0 {
			return malformedBody("the quote at byte %d does not close", at+1)
		}
	}
	d.delimited.valid = utf8.Valid(d.body)
	if d.format == CSV || d.format == TSV {
		return d.readHeader()
	}
	for i := range d.table.columns {
		if !d.table.fields[i].computed {
			d.delimited.columns = append(d.delimited.columns, i)
		}
	}
	return nil
}

// readHeader reads the first line that is not blank as columns' names.
func (d *Decoder) readHeader() *BodyError {
	for d.at < len(d.body) && lineEnd(d.body, d.at) > d.at {
		d.at = lineEnd(d.body, d.at)
	}
	seen := make([]byte, len(d.carried))
	for more := true; more; {
		var f textField
		f, more = d.nextField()
		name, fault := d.textOf(f.text)
		if fault == nil {
			fault = f.fault
		}
		if fault != nil {
			return malformedBody("the header line: %s", fault.Message)
		}
		if !utf8.Valid(name) {
			return malformedBody("the header line is not valid UTF-8")
		}
		if fault := d.addColumn(name, seen); fault != nil {
			return fault
		}
	}
	return nil
}

// addColumn takes the header's next name.
func (d *Decoder) addColumn(name, seen []byte) *BodyError {
	column, ok := d.table.index[string(name)]
	switch {
	case !ok && (d.options.UnknownFields == DropUnknown || d.options.UnknownFields == CollectUnknown && d.collect >= 0 && d.granted(d.collect)):
		if len(d.delimited.unknown) == maxUnknown {
			return malformedBody("the header line names more than %d fields that table %s has no column for", maxUnknown, quoted(d.table.name))
		}
		d.delimited.unknown = append(d.delimited.unknown, bytes.Clone(name))
		d.delimited.columns = append(d.delimited.columns, -len(d.delimited.unknown))
		return nil
	case !ok:
		return &BodyError{
			Code: CodeUnknownColumn, Column: string(name), Hint: d.nearest(name),
			Message: "the header line names " + quoted(string(name)) + ", and table " + quoted(d.table.name) + " has no such column",
		}
	case !d.granted(column):
		return HeaderNotAllowed(string(name))
	case hasBit(seen, column):
		return &BodyError{Code: CodeDuplicateColumn, Message: "the header line names column " + quoted(string(name)) + " more than once"}
	}
	setBit(seen, column)
	d.delimited.columns = append(d.delimited.columns, column)
	return nil
}

// lineEnd returns the offset after the line break at b[at], or at itself when
// there is none.
func lineEnd(b []byte, at int) int {
	switch {
	case at < len(b) && b[at] == '\n':
		return at + 1
	case at+1 < len(b) && b[at] == '\r' && b[at+1] == '\n':
		return at + 2
	}
	return at
}

// nextRow reads the next record.
func (d *Decoder) nextRow() bool {
	for d.at < len(d.body) {
		// A blank line is no record, unless it is how TSV writes an empty text
		// where there is only one column.
		end := lineEnd(d.body, d.at)
		if end > d.at && (d.format.csv() || len(d.delimited.columns) != 1) {
			d.at = end
			continue
		}
		return d.finish(d.readRow())
	}
	d.done = true
	return false
}

// readRow reads the fields up to the end of their record. A fault does not end
// it early, so that the next record is found.
func (d *Decoder) readRow() *Error {
	start, found := d.at, 0
	var fault *Error
	for more := true; more; found++ {
		var f textField
		f, more = d.nextField()
		if fault == nil {
			fault = f.fault
		}
		if found < len(d.delimited.columns) && f.is != omittedField {
			if column := d.delimited.columns[found]; column >= 0 {
				d.takeField(column, f)
			} else {
				d.takeUnknown(d.delimited.unknown[-column-1], f)
			}
		}
	}
	switch {
	case fault != nil:
		return fault
	case found != len(d.delimited.columns):
		return malformed("expected %d fields and found %d", len(d.delimited.columns), found)
	case !d.delimited.valid && !utf8.Valid(d.body[start:d.at]):
		return malformed("a field is not valid UTF-8")
	}
	return nil
}

// takeField notes the field of a column. One of blanks alone is no value of a
// type that has no use for them, and \N is none of a type without NULL.
func (d *Decoder) takeField(column int, f textField) {
	switch {
	case f.is == nullField && !d.table.fields[column].nullable, f.is == blankField && !d.table.fields[column].keepsSpace:
		return
	}
	if d.admit(column) {
		d.values[column] = f.text
		setBit(d.carried, column)
	}
}

// nullText is how a field says NULL.
const nullText = `\N`

// takeUnknown sets the field of a name aside that is no column.
func (d *Decoder) takeUnknown(name []byte, f textField) {
	if f.is == nullField {
		return // as if it had been left out
	}
	text, fault := d.textOf(f.text)
	if fault != nil {
		d.blame(fault)
		return
	}
	value := bytes.Clone(text)
	if len(text) == 0 || text[0] == '"' || text[0] == '{' || text[0] == '[' || string(text) == "null" || !isJSON(text) {
		value = AppendJSONString(nil, text)
	}
	d.made = append(d.made, value)
	d.aside = append(d.aside, aside{name: name, value: extent{madeHere, len(d.made) - 1}})
}

// textField is one field of a record. It has few enough fields to be kept in
// registers: one more costs a fifth of the speed of CSV.
type textField struct {
	// text is inside of its quotes if it has some, with escapes.
	text  extent
	is    fieldKind
	fault *Error
}

// fieldKind is what a field may be instead of a text.
type fieldKind uint8

const (
	// omittedField is as if the record had none.
	omittedField fieldKind = iota + 1
	// nullField is \N.
	nullField
	// blankField, of CSV, is spaces and tabs without quotes.
	blankField
)

// nextField reads the field at d.at and moves behind its separator or line
// break; more is true after a separator.
func (d *Decoder) nextField() (f textField, more bool) {
	var end int
	if d.format.csv() {
		f, end = csvField(d.body, d.at, d.delimited.separator)
	} else {
		f, end = tsvField(d.body, d.at, d.delimited.separator)
	}
	more = end < len(d.body) && d.body[end] == d.delimited.separator
	d.at = min(end+1, len(d.body))
	return f, more
}

// textOf returns the text of a field, which is valid until the next call.
func (d *Decoder) textOf(s extent) (text []byte, fault *Error) {
	raw := d.body[s.from:s.to]
	if d.format.csv() {
		if !d.isQuoted(s) || bytes.IndexByte(raw, '"') < 0 {
			return raw, nil
		}
		d.delimited.scratch = undouble(d.delimited.scratch[:0], raw)
		return d.delimited.scratch, nil
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, nil
	}
	d.delimited.scratch, fault = appendUnescaped(d.delimited.scratch[:0], raw)
	return d.delimited.scratch, fault
}

// isQuoted reports whether the field of a CSV record stands in quotes.
func (d *Decoder) isQuoted(s extent) bool { return s.from > 0 && d.body[s.from-1] == '"' }

// appendField appends the field that the record has for a column.
func (d *Decoder) appendField(row []byte, column int) ([]byte, *Error) {
	f, s := &d.fields[column], d.values[column]
	if f.nullable && d.isNullField(s) {
		row, _ = f.codec.AppendJSON(row, jsonNull)
		return row, nil
	}
	text, fault := d.textOf(s)
	if fault == nil {
		if d.format.csv() && !f.keepsSpace && !d.isQuoted(s) {
			text = trimBlanks(text)
		}
		if f.composite && !d.format.csv() && !isJSON(text) {
			// In ClickHouse's notation the escapes of TSV are those of its texts:
			// they are resolved once.
			text = d.body[s.from:s.to]
		}
		var err error
		if row, err = f.codec.AppendText(row, text); err == nil {
			return row, nil
		}
		return row, ofColumn(err, d.table, d.table.columns[column].Name)
	}
	return row, ofColumn(fault, d.table, d.table.columns[column].Name)
}

// isNullField reports whether a field is \N, as it stands in the body.
func (d *Decoder) isNullField(s extent) bool {
	return string(d.body[s.from:s.to]) == nullText && (!d.format.csv() || !d.isQuoted(s))
}

// fieldJSON returns the field of a column as a JSON string, or null.
func (d *Decoder) fieldJSON(column int) (raw []byte, ok bool) {
	if d.table.fields[column].nullable && d.isNullField(d.values[column]) {
		return []byte("null"), true
	}
	text, fault := d.textOf(d.values[column])
	if fault != nil {
		return nil, false
	}
	return AppendJSONString(nil, text), true
}
