package record_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/record"
)

// generatedTypes are those that ClickHouse can fill with random values. Enum
// has names that need every kind of quoting.
var generatedTypes = []string{
	"Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Int128", "UInt128", "Int256", "UInt256", "Float32", "Float64",
	"Decimal(9, 2)", "Decimal(18, 4)", "Decimal(38, 20)", "Decimal(76, 30)", "String", "LowCardinality(String)", "Nullable(String)", "Bool", "UUID", "IPv4", "IPv6",
	"Date", "Date32", "DateTime('UTC')", "DateTime('Europe/Berlin')", "DateTime64(3, 'UTC')", "DateTime64(9, 'Asia/Tokyo')", `Enum8('a b' = -5, '"q"' = 0, 'it\'s, \\x' = 7)`,
	"Array(String)", "Array(Nullable(Int64))", "Array(Array(Float64))", "Array(DateTime64(3, 'UTC'))", "Array(UUID)", "Array(Date)", "Array(Bool)",
	"Map(String, Float64)", "Map(UInt8, Array(String))", "Tuple(Int8, String)", "Tuple(a Nullable(Float64), b Array(String), c Tuple(Int8, Decimal(9, 2)))",
	"Array(Tuple(UInt8, String, Array(DateTime('UTC'))))", "Map(String, Tuple(x Int8, y Map(String, String)))", "Point", "Ring", "Polygon", "MultiPolygon",
}

const generatedRows = 300

// Rows of random values, as ClickHouse itself writes them in each format, are
// read back into the same rows.
func TestGeneratedRowsFromClickHouse(t *testing.T) {
	e := newEngine(t)
	var columns []record.Column
	var list []string
	for i, typeText := range generatedTypes {
		name := fmt.Sprintf("c%02d", i)
		columns = append(columns, record.Column{Name: name, Type: typeText, Position: i + 1})
		list = append(list, name+" "+typeText)
	}
	structure := strings.Join(list, ", ")
	e.run("CREATE OR REPLACE TABLE g ("+structure+") ENGINE = Memory", nil, "")
	quoted := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(structure) + "'"
	e.run(fmt.Sprintf("INSERT INTO g SELECT * FROM generateRandom(%s, 7, 12, 3) LIMIT %d", quoted, generatedRows), nil, "")
	// Random strings are printable: the others are made of them.
	e.run("INSERT INTO g (c18, c20, c32) SELECT concat(c18, '\\t\\n\\r\\\\\"\\'é😀\\0,', c18, ' '), concat(' \\\\N', c20, '\\\\'), [concat(c18, '\\'\\'\\\\'), '', '\\t'] FROM g", nil, "")

	want := splitRows(t, columns, e.run("SELECT * FROM g FORMAT RowBinary", nil, "&max_threads=1"))
	for _, f := range []struct {
		name  string
		input record.InputFormat
	}{{"JSONEachRow", record.NDJSON}, {"CSVWithNames", record.CSV}, {"TSVWithNames", record.TSV}} {
		for _, times := range []string{"iso", "simple"} {
			body := e.run("SELECT * FROM g FORMAT "+f.name, nil, "&max_threads=1&date_time_output_format="+times+"&output_format_json_quote_denormals=1"+
				"&output_format_csv_serialize_tuple_into_separate_columns=0&output_format_csv_header_serialize_tuple_into_separate_columns=0")
			d := record.Compile("g", columns, time.UTC).NewDecoder(f.input, body, record.DecodeOptions{})
			for i := 0; d.Next(); i++ {
				require.Nil(t, d.Record().Err, "%s, row %d: %v", f.name, i, d.Record().Err)
				require.Less(t, i, len(want))
				want := want[i]
				if string(d.Record().Row) != want { // but for the bits of NaN
					assert.Equal(t, compact(t, d.Record(), []byte(want)), compact(t, d.Record(), d.Record().Row), "%s, %s, row %d", f.name, times, i)
				}
			}
			require.NoError(t, d.Err())
			assert.Equal(t, len(want), d.Record().Index, f.name)
		}
	}
}

// compact renders a row as text in which every NaN is the same.
func compact(t *testing.T, r record.Record, row []byte) string {
	layout, err := record.ParseLayout(r.Set.Header(), time.UTC)
	require.NoError(t, err)
	text, err := layout.AppendCompact(nil, row)
	require.NoError(t, err)
	return string(text)
}

// splitRows cuts RowBinary into rows.
func splitRows(t *testing.T, columns []record.Column, body []byte) []string {
	var codecs []record.Codec
	for _, c := range columns {
		codec, err := record.NewCodec(c.Type, time.UTC)
		require.NoError(t, err)
		codecs = append(codecs, codec)
	}
	var rows []string
	for len(body) > 0 {
		at := 0
		for _, codec := range codecs {
			n, err := codec.Skip(body[at:])
			require.NoError(t, err)
			at += n
		}
		rows, body = append(rows, string(body[:at])), body[at:]
	}
	return rows
}
