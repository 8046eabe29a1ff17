package record

import "bytes"

// InputFormat is a request body's format.
type InputFormat uint8

// The formats a Decoder reads.
const (
	// JSON is one object or one array of objects.
	JSON InputFormat = iota
	// NDJSON is one object a line.
	NDJSON
	// CSV and TSV name the columns in their first line; without that, the
	// fields are all columns that may be sent, in the table's order.
	CSV
	CSVWithoutHeader
	TSV
	TSVWithoutHeader
)

// DecodeOptions are the request's part of a record's verdict.
type DecodeOptions struct {
	// Allow says whether a column may be sent; nil allows all.
	Allow func(column int) bool
	// MissingAsZero accepts records that leave out a column which has neither
	// a default nor Nullable; ClickHouse then stores the type's zero.
	MissingAsZero bool
	// MaxRecordBytes bounds an encoded row; 0 means 512 KiB.
	MaxRecordBytes int
	// Checks are rules about columns that hold for every record.
	Checks []Check
	// IDField names the column whose value is a record's ID; "" is none.
	IDField string
	// RequireID refuses records without an ID.
	RequireID bool
	// UnknownFields says what becomes of fields that the table has no column for,
	// and CollectInto is the column that takes them: a Map(String, String) or JSON
	// one. They are refused where it cannot.
	UnknownFields UnknownFields
	CollectInto   string
	// EventData, when not empty, says that the records are CloudEvents: it is the
	// column that their data is for, or MergeEventData.
	EventData string
	// CutTimes cuts digits of a second that the column does not hold, toward the
	// past, instead of refusing them.
	CutTimes bool
	// Refuse, when not nil, is the verdict on every record that is otherwise
	// well formed: the request's own rules cannot be applied.
	Refuse *Error
}

// defaultMaxRecordBytes is DecodeOptions.MaxRecordBytes when that is 0.
const defaultMaxRecordBytes = 512 << 10

// firstRowBytes is the room that a Decoder starts with for rows.
const firstRowBytes = 1 << 10

// Record is one record of a body: a row, or the reason it is refused.
type Record struct {
	// Index counts records from 1.
	Index int
	// Set and Row are nil when Err is not. Row is RowBinary of Set's columns.
	Set *ColumnSet
	Row []byte
	Err *Error
	// ID is the value of the column IDField as it is stored: two spellings of
	// one value are one ID. It is nil when the record sent none, or null, or an
	// empty text.
	ID []byte
	// Checked are the names and the values, as they are stored, of the columns
	// that DecodeOptions.Checks are about. It is empty without an ID, and without
	// checks.
	Checked []byte
}

// Decoder reads the records of one body. Whether the body as a whole is at
// fault is known, by Err, before the first Next. It is for one goroutine.
type Decoder struct {
	table *Table
	// fields are the table's, or those that cut times.
	fields  []field
	body    []byte
	format  InputFormat
	options DecodeOptions
	err     error
	single  bool
	record  Record

	// at is the first byte not read yet; done is set when there is none.
	at   int
	done bool

	// What follows is of the current record.
	fault *Error
	// src is the bytes that values point into.
	src []byte
	// values are those by column; those with a bit in sent are valid.
	values []extent
	// sent has the bits of the columns that stand in the record, carried of
	// those that are part of its row.
	sent, carried []byte
	row           []byte

	// aside is what the record has beside columns, unknown its fields that are
	// none (unknowns counts all), and made the values that were made of them.
	aside    []aside
	unknown  []Unknown
	unknowns int
	made     [][]byte
	// within is set while the data of an event is read.
	within bool
	// lengths are those of arrays that belong together.
	lengths []length

	// What follows is learnt from the records before.

	// order is the column of the nth key in the record before.
	order []int
	// access is what the request may do to a column, as far as it was asked.
	access []access
	set    *ColumnSet

	delimited delimited
	// line is the last row of a set whose rows are lines of text.
	line []byte
	// id is the column of IDField, negative for none.
	id int
	// collect is the column of CollectInto, negative for none.
	collect     int
	collectJSON bool
	// hints counts the names that were looked for among the columns.
	hints int
	// checked becomes Record.Checked.
	checked []byte
}

// extent is a stretch of the body.
type extent struct{ from, to int }

// access is a column's verdict for this request.
type access uint8

const (
	accessUnknown access = iota
	accessGranted
	accessRefused
)

// NewDecoder starts reading a body. The body must not change while records are
// read, and values refer to it.
func (t *Table) NewDecoder(f InputFormat, body []byte, o DecodeOptions) *Decoder {
	if o.MaxRecordBytes == 0 {
		o.MaxRecordBytes = defaultMaxRecordBytes
	}
	columns := len(t.columns)
	bits := make([]byte, 2*((columns+7)/8))
	d := &Decoder{
		table: t, fields: t.fieldsFor(o.CutTimes), body: bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF")), format: f, options: o,
		values: make([]extent, columns), order: make([]int, 0, columns), access: make([]access, columns),
		sent: bits[:len(bits)/2], carried: bits[len(bits)/2:],
		row: make([]byte, 0, min(len(body), firstRowBytes)), id: t.idColumn(o.IDField),
	}
	if d.collect = noColumn; o.UnknownFields == CollectUnknown {
		d.collect, d.collectJSON = t.collector(o.CollectInto)
	}
	if o.EventData != "" {
		d.order = nil // no guess may pass by the event's data
	}
	if fault := d.open(); fault != nil {
		d.err, d.done = fault, true
	}
	return d
}

// Next reads the next record. It is false at the end, and at once when the
// body as a whole is at fault.
func (d *Decoder) Next() bool {
	if d.done {
		return false
	}
	clear(d.sent)
	clear(d.carried)
	d.fault, d.row = nil, d.row[:0]
	if d.unknowns > 0 || len(d.made) > 0 || len(d.aside) > 0 {
		d.aside, d.unknown, d.made, d.unknowns = d.aside[:0], d.unknown[:0], d.made[:0], 0
	}
	switch {
	case d.format == NDJSON:
		return d.nextLine()
	case d.format.delimited():
		return d.nextRow()
	}
	return d.nextElement()
}

// Record returns the current record. It is valid until the next Next.
func (d *Decoder) Record() Record { return d.record }

// Unknown returns the fields of the current record that the table has no column
// for, at most 256, whether or not the record was refused for them. They are
// valid until the next Next.
func (d *Decoder) Unknown() []Unknown { return d.unknown }

// Value returns the JSON of a column as the current record sent it, null
// included; the field of a CSV or TSV record is returned as a JSON string.
func (d *Decoder) Value(column int) (raw []byte, ok bool) {
	if d.record.Index == 0 || !hasBit(d.sent, column) {
		return nil, false
	}
	s := d.values[column]
	if d.format.delimited() && s.from != madeHere {
		return d.fieldJSON(column)
	}
	return d.text(s), true
}

// text is the JSON of a value.
func (d *Decoder) text(s extent) []byte {
	if s.from == madeHere {
		return d.made[s.to]
	}
	return d.src[s.from:s.to]
}

// Single reports whether the format is JSON and the body is one object.
func (d *Decoder) Single() bool { return d.single }

// Err returns a *BodyError when the body as a whole is at fault, else nil.
func (d *Decoder) Err() error { return d.err }

// finish judges the record that was just read: its syntax, and then its
// columns and values.
func (d *Decoder) finish(malformed *Error) bool {
	d.record = Record{Index: d.record.Index + 1}
	if (len(d.aside) > 0 || d.collect >= 0) && malformed == nil {
		d.settle()
	}
	if malformed == nil {
		malformed = d.fault
	}
	if malformed == nil {
		malformed = d.encode()
	}
	if malformed != nil {
		d.record.Err, d.record.Set, d.record.ID = malformed, nil, nil
		return true
	}
	d.record.Row = d.row
	return true
}

// encode turns the values into a row.
func (d *Decoder) encode() *Error {
	t := d.table
	if d.options.Refuse != nil {
		return d.options.Refuse
	}
	if fault := d.stamp(); fault != nil {
		return fault
	}
	if d.set == nil || !bytes.Equal(d.set.carried, d.carried) {
		d.set = t.setOf(d.carried)
	}
	set := d.set
	if fault := d.requireID(); fault != nil {
		return fault
	}
	switch {
	case set.missing >= 0 && !d.options.MissingAsZero:
		return missingColumn(t, t.columns[set.missing].Name)
	case len(set.columns) == 0:
		return &Error{Code: CodeMissingColumn, Message: "the record carries no column"}
	}
	row := d.row
	d.checked = d.checked[:0]
	if set.nested {
		d.lengths = d.lengths[:0]
	}
	for _, column := range set.columns {
		start := len(row)
		var fault *Error
		if row, fault = d.appendValue(row, column); fault == nil {
			fault = d.verify(column, row[start:])
		}
		if set.nested && fault == nil {
			fault = d.pair(column, row[start:])
		}
		if fault != nil {
			return fault
		}
		if column == d.id && d.sendsID() {
			d.record.ID = d.idOf(row[start:])
		}
		if len(row) > d.options.MaxRecordBytes {
			return tooLarge(d.options.MaxRecordBytes)
		}
	}
	d.row, d.record.Set = row, set
	if d.record.ID != nil {
		d.record.Checked = bytes.Clone(d.checked)
	}
	if set.lines != nil {
		return d.renderLine()
	}
	return nil
}

// appendValue appends the value that the record has in a column.
func (d *Decoder) appendValue(row []byte, column int) ([]byte, *Error) {
	if !hasBit(d.sent, column) {
		return append(row, d.stamped(column)...), nil
	}
	if d.format.delimited() && d.values[column].from != madeHere {
		return d.appendField(row, column)
	}
	row, err := d.fields[column].codec.AppendJSON(row, d.text(d.values[column]))
	if err != nil {
		return row, ofColumn(err, d.table, d.table.columns[column].Name)
	}
	return row, nil
}
