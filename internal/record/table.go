package record

import (
	"slices"
	"sync"
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
	// nested are the Nested columns by their names, nil for none.
	nested map[string]*nested
	zone   *time.Location
	// cut are the fields whose codecs cut times, made when first asked for.
	cut func() []field
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
	// required columns may not be left out, needed ones not unless their whole
	// Nested is.
	required, needed bool
	// nested is the Nested that the column is of, nil for none.
	nested *nested
}

// Compile builds a Table; zone is the server's. It never fails: the value of a
// column whose type has no codec is passed on as JSON, for ClickHouse to judge.
func Compile(name string, columns []Column, zone *time.Location) *Table {
	t := &Table{
		name: name, columns: columns,
		fields: make([]field, len(columns)),
		index:  make(map[string]int, len(columns)),
		sets:   setTable{known: make(map[string]*ColumnSet)},
		zone:   zone,
	}
	for i, column := range columns {
		t.fields[i] = newField(column, maker{zone: zone, door: true})
		t.index[column.Name] = i
		t.addNested(i)
	}
	for i := range t.fields {
		f := &t.fields[i]
		// The arrays of a Nested that a record says nothing of are empty.
		f.needed, f.required = f.required, f.required && f.nested == nil
	}
	t.cut = sync.OnceValue(t.cutting)
	return t
}

// fieldsFor returns the fields, or those whose codecs cut times.
func (t *Table) fieldsFor(cutTimes bool) []field {
	if cutTimes {
		return t.cut()
	}
	return t.fields
}

func (t *Table) cutting() []field {
	all := slices.Clone(t.fields)
	for i := range all {
		all[i].codec = newField(t.columns[i], maker{zone: t.zone, cut: true, door: true}).codec
	}
	return all
}

func newField(column Column, m maker) field {
	f := field{key: AppendJSONString(nil, column.Name), computed: column.computed()}
	t, err := coltype.Parse(column.Type)
	if err == nil {
		f.codec, err = m.codec(t)
	}
	if column.Flag != "" && err == nil {
		f.codec = flagCodec{f.codec, column.Flag}
	}
	acceptsNull := t.AcceptsNull()
	if err != nil {
		f.codec = m.raw(t, column.Type)
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
	case *nullableCodec, *variantCodec:
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
	switch codec := t.fields[index].codec.(type) {
	case *rawCodec:
		return nil
	case flagCodec:
		return codec.Codec // what a value is compared with need not be one that the engine takes
	default:
		return codec
	}
}
