package record

import "github.com/wavehouse/wavehouse/internal/excerpt"

// Rebuild turns rows that were written for some columns, which the table had at
// the time, into rows of the table as it is now. A value whose column has the
// same type is copied; another is rendered and judged by the type it has now,
// as if it had just been sent. It is for one goroutine.
type Rebuild struct {
	table   *Table
	fields  []field
	from    *Layout
	options DecodeOptions
	// source holds, per column of the table, the field of a row it comes from,
	// -1 for none; same says that it is copied.
	source []int
	same   []bool
	// refusal is the verdict on every row.
	refusal *Error

	ends    []int
	carried []byte
	row     []byte
	value   []byte
	line    []byte
}

// NewRebuild prepares for rows of a layout. Of the options MissingAsZero, CutTimes
// and MaxRecordBytes count.
func (t *Table) NewRebuild(from *Layout, o DecodeOptions) *Rebuild {
	if o.MaxRecordBytes == 0 {
		o.MaxRecordBytes = defaultMaxRecordBytes
	}
	r := &Rebuild{
		table: t, fields: t.fieldsFor(o.CutTimes), from: from, options: o,
		source: make([]int, len(t.columns)), same: make([]bool, len(t.columns)),
		carried: make([]byte, (len(t.columns)+7)/8),
	}
	for column := range r.source {
		r.source[column] = -1
	}
	for field, name := range from.names {
		column, ok := t.index[name]
		switch {
		case !ok:
			r.refuse(CodeUnknownColumn, name, "table "+quoted(t.name)+" has no "+subject(name))
		case t.fields[column].computed:
			r.refuse(CodeColumnComputed, name, subject(name)+" is computed by ClickHouse and cannot be sent")
		default:
			r.source[column] = field
			r.same[column] = from.types[field] == t.columns[column].Type
		}
	}
	return r
}

func (r *Rebuild) refuse(code, column, message string) {
	if r.refusal == nil {
		r.refusal = &Error{Code: code, Column: excerpt.Of(column), Message: message}
	}
}

// Row rebuilds one row. What it returns is valid until the next call; the error
// is an *Error when the row does not fit the table.
func (r *Rebuild) Row(row []byte) (set *ColumnSet, rebuilt []byte, err error) {
	if r.refusal != nil {
		return nil, nil, r.refusal
	}
	if r.ends, err = r.from.FieldEnds(r.ends[:0], row); err != nil {
		return nil, nil, malformed("the row does not pair with its columns: %s", err)
	}
	clear(r.carried)
	r.row = r.row[:0]
	for column := range r.source {
		if err := r.appendColumn(column, row); err != nil {
			return nil, nil, err
		}
	}
	if len(r.row) > r.options.MaxRecordBytes {
		return nil, nil, tooLarge(r.options.MaxRecordBytes)
	}
	set = r.table.setOf(r.carried)
	switch {
	case set.missing >= 0 && !r.options.MissingAsZero:
		return nil, nil, missingColumn(r.table, r.table.columns[set.missing].Name)
	case len(set.columns) == 0:
		return nil, nil, &Error{Code: CodeMissingColumn, Message: "the record carries no column"}
	case set.lines != nil:
		return r.renderLine(set)
	}
	return set, r.row, nil
}

func (r *Rebuild) appendColumn(column int, row []byte) error {
	field := r.source[column]
	if field < 0 {
		return nil
	}
	start := 0
	if field > 0 {
		start = r.ends[field-1]
	}
	encoded := row[start:r.ends[field]]
	if r.same[column] {
		r.row = append(r.row, encoded...)
		setBit(r.carried, column)
		return nil
	}
	return r.judge(column, r.from.codecs[field], encoded)
}

// judge reads a value of another type as if it had been sent.
func (r *Rebuild) judge(column int, codec Codec, encoded []byte) (err error) {
	if r.value, _, err = codec.RenderJSON(r.value[:0], encoded, RenderOptions{denormals: true}); err != nil {
		return malformed("column %s: %s", quoted(r.table.columns[column].Name), err)
	}
	f := &r.fields[column]
	if f.nullOmits && isNull(r.value) {
		return nil
	}
	if r.row, err = f.codec.AppendJSON(r.row, r.value); err != nil {
		return ofColumn(err, r.table, r.table.columns[column].Name)
	}
	setBit(r.carried, column)
	return nil
}

func (r *Rebuild) renderLine(set *ColumnSet) (*ColumnSet, []byte, error) {
	line, err := set.lines.AppendCompact(r.line[:0], r.row)
	if err != nil {
		return nil, nil, notInLine(err)
	}
	r.line = append(line, '\n')
	if len(r.line) > r.options.MaxRecordBytes {
		return nil, nil, tooLarge(r.options.MaxRecordBytes)
	}
	return set, r.line, nil
}
