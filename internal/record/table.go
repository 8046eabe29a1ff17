package record

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
)

// Table is a table's columns compiled for reading records. It is safe for use
// by many goroutines at once.
type Table struct {
	name    string
	columns []Column
	fields  []field
	index   map[string]int
	sets    setTable
}

// field is what the decoder knows about one column.
type field struct {
	// codec is a rawCodec when the type has none of its own.
	codec Codec
	// keepsSpace: white space around the text of a field is part of the value.
	keepsSpace bool
	// nullable: a field of \N is NULL.
	nullable bool
	// composite is for arrays, maps and tuples.
	composite bool
	// key is the name as a JSON string, as most clients write it.
	key []byte
	// computed columns may never be sent.
	computed bool
	// nullOmits: an explicit null is as if the column had been left out.
	nullOmits bool
	// required columns may not be left out.
	required bool
}

// Compile builds a Table; zone is the server's. It never fails: the value of a
// column whose type has no codec is passed on as JSON, for ClickHouse to judge.
func Compile(name string, columns []Column, zone *time.Location) *Table {
	t := &Table{
		name: name, columns: columns,
		fields: make([]field, len(columns)),
		index:  make(map[string]int, len(columns)),
		sets:   setTable{known: make(map[string]*ColumnSet)},
	}
	for i, column := range columns {
		t.fields[i] = newField(column, zone)
		t.index[column.Name] = i
	}
	return t
}

func newField(column Column, zone *time.Location) field {
	f := field{key: AppendJSONString(nil, column.Name), computed: column.computed()}
	t, err := coltype.Parse(column.Type)
	if err == nil {
		f.codec, err = codecOf(t, zone)
	}
	acceptsNull := t.AcceptsNull()
	if err != nil {
		f.codec = newRaw(t, column.Type)
		// Left out is NULL too, and there are types whose null does not read.
		f.nullOmits = acceptsNull && !column.hasDefault()
	}
	switch t.Plain().Kind {
	case coltype.String, coltype.FixedString:
		f.keepsSpace = true
	}
	switch f.codec.(type) {
	case *arrayCodec, *mapCodec, *tupleCodec:
		f.composite = true
	case *nullableCodec:
		f.nullable = true
	}
	f.nullOmits = f.nullOmits || column.hasDefault() && !acceptsNull
	f.required = column.DefaultKind == DefaultNone && !acceptsNull && !emptyByNature(t)
	return f
}

// emptyByNature tells types whose zero is nothing rather than a wrong value:
// the state of an aggregate over no rows. What a type unknown here makes of an
// omission is for ClickHouse to say.
func emptyByNature(t coltype.Type) bool {
	return t.Kind == coltype.AggregateFunction || t.Kind == coltype.Other
}

// Name returns the table's name.
func (t *Table) Name() string { return t.name }

// Columns returns the columns as they were given to Compile. It is shared: do
// not change it.
func (t *Table) Columns() []Column { return t.columns }

// Lookup finds a column by its exact name.
func (t *Table) Lookup(name string) (index int, ok bool) {
	index, ok = t.index[name]
	return index, ok
}

// Required reports whether a record may not leave the column out.
func (t *Table) Required(index int) bool { return t.fields[index].required }

// Computed reports whether a record may not carry the column.
func (t *Table) Computed(index int) bool { return t.fields[index].computed }

// Codec returns the codec of a column, nil when its type has none.
func (t *Table) Codec(index int) Codec {
	if _, raw := t.fields[index].codec.(*rawCodec); raw {
		return nil
	}
	return t.fields[index].codec
}
