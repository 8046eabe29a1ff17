package record

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rebuilt takes one record of the table from through to the table to, and
// returns the row as JSON, or the code of the verdict.
func rebuilt(t *testing.T, from, to *Table, body string, o DecodeOptions) string {
	t.Helper()
	all := decodeAll(t, from, JSON, body, DecodeOptions{MissingAsZero: true})
	require.Nil(t, all[0].Err)
	set, row := all[0].Set, all[0].Row
	layout := layoutOf(t, set.Header())
	if set.Format() == formatLines {
		lines, err := ParseLines(set.Header(), time.UTC)
		require.NoError(t, err)
		layout = lines.Layout()
		row, err = lines.AppendRows(nil, row, 1)
		require.NoError(t, err)
	}
	set, row, err := to.NewRebuild(layout, o).Row(row)
	if err != nil {
		var fault *Error
		require.True(t, errors.As(err, &fault), err)
		return fault.Code + " " + fault.Column
	}
	if set.Format() == formatLines {
		return string(row)
	}
	out, err := layoutOf(t, set.Header()).AppendCompact(nil, row)
	require.NoError(t, err)
	return string(out)
}

func layoutOf(t *testing.T, header string) *Layout {
	t.Helper()
	if l, err := ParseLayout(header, time.UTC); err == nil {
		return l
	}
	return nil
}

func TestRebuildForATableThatHasChanged(t *testing.T) {
	from := Compile("t", columns("id UInt64", "s String", "f Float64", "n Nullable(Int32)", "d DateTime64(3, 'UTC')"), time.UTC)
	const body = `{"id":300,"s":"7","f":"nan","n":null,"d":"2026-03-04T05:06:07.089Z"}`
	for name, c := range map[string]struct {
		to   []Column
		o    DecodeOptions
		want string
	}{
		"unchanged":              {to: from.Columns(), want: `[300,"7","nan",null,"2026-03-04T05:06:07.089Z"]`},
		"another order":          {to: columns("n Nullable(Int32)", "d DateTime64(3, 'UTC')", "f Float64", "s String", "id UInt64"), want: `[null,"2026-03-04T05:06:07.089Z","nan","7",300]`},
		"a column added":         {to: columns("id UInt64", "s String", "f Float64", "n Nullable(Int32)", "d DateTime64(3, 'UTC')", "x Nullable(Int8)"), want: `[300,"7","nan",null,"2026-03-04T05:06:07.089Z"]`},
		"a column required":      {to: columns("id UInt64", "s String", "f Float64", "n Nullable(Int32)", "d DateTime64(3, 'UTC')", "x Int8"), want: "record.missing_column x"},
		"missing as zero":        {to: columns("id UInt64", "s String", "f Float64", "n Nullable(Int32)", "d DateTime64(3, 'UTC')", "x Int8"), o: DecodeOptions{MissingAsZero: true}, want: `[300,"7","nan",null,"2026-03-04T05:06:07.089Z"]`},
		"a column removed":       {to: columns("id UInt64", "s String", "n Nullable(Int32)", "d DateTime64(3, 'UTC')"), want: "record.unknown_column f"},
		"a column computed":      {to: columns("id UInt64", "s String", "f Float64 MATERIALIZED 1", "n Nullable(Int32)", "d DateTime64(3, 'UTC')"), want: "record.column_computed f"},
		"types that fit":         {to: columns("id UInt16", "s UInt8", "f Float32", "n Int32 DEFAULT 5", "d DateTime64(6, 'UTC')"), want: `[300,7,"nan","2026-03-04T05:06:07.089000Z"]`},
		"out of range":           {to: columns("id UInt8", "s String", "f Float64", "n Nullable(Int32)", "d DateTime64(3, 'UTC')"), want: "record.out_of_range id"},
		"null no longer allowed": {to: columns("id UInt64", "s String", "f Float64", "n Int32", "d DateTime64(3, 'UTC')"), want: "record.null_not_allowed n"},
		"a finer time is not":    {to: columns("id UInt64", "s String", "f Float64", "n Nullable(Int32)", "d DateTime('UTC')"), want: "record.type_mismatch d"},
		"a finer time is cut": {
			to: columns("id UInt64", "s String", "f Float64", "n Nullable(Int32)", "d DateTime('UTC')"), o: DecodeOptions{CutTimes: true},
			want: `[300,"7","nan",null,"2026-03-04T05:06:07Z"]`,
		},
		"without a codec": {to: columns("id Dynamic", "s String", "f Float64", "n Nullable(Int32)", "d DateTime64(3, 'UTC')"), want: `[300,"7","nan",null,"2026-03-04T05:06:07.089Z"]` + "\n"},
		"too large":       {to: from.Columns(), o: DecodeOptions{MaxRecordBytes: 10}, want: "record.too_large "},
	} {
		assert.Equal(t, c.want, rebuilt(t, from, Compile("t", c.to, time.UTC), body, c.o), name)
	}
}

func TestRebuildOfRowsThatAreLines(t *testing.T) {
	from := Compile("t", columns("id UInt64", "d Dynamic", "f Float64"), time.UTC)
	const body = `{"id":1,"d":{"a":[1,"x"]},"f":"-inf"}`
	assert.Equal(t, `[1,{"a":[1,"x"]},"-inf"]`+"\n", rebuilt(t, from, from, body, DecodeOptions{}))
	assert.Equal(t, "record.type_mismatch d", rebuilt(t, from, Compile("t", columns("id UInt64", "d String", "f Float64"), time.UTC), body, DecodeOptions{}))
	assert.Equal(t, `[1,["5"],"-inf"]`, rebuilt(t, from, Compile("t", columns("id UInt64", "d Array(String)", "f Float64"), time.UTC), `{"id":1,"d":["5"],"f":"-inf"}`, DecodeOptions{}))
}

func TestRebuildOfBytesThatAreNoRow(t *testing.T) {
	table := Compile("t", columns("s String"), time.UTC)
	r := table.NewRebuild(layoutOf(t, `[{"name":"s","type":"String"}]`), DecodeOptions{})
	for _, row := range []string{"", "\x05abc", "\x01ab"} {
		_, _, err := r.Row([]byte(row))
		var fault *Error
		require.ErrorAs(t, err, &fault)
		assert.Equal(t, CodeMalformed, fault.Code)
	}
	// Bytes that JSON could not carry are copied.
	_, row, err := r.Row([]byte("\x02\xff\x00"))
	require.NoError(t, err)
	assert.Equal(t, "\x02\xff\x00", string(row))
}
