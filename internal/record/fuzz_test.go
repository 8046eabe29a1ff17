package record

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fuzzTable has a column of every kind of codec.
func fuzzTable() *Table {
	return Compile("f", columns(
		"i8 Nullable(Int8)", "u64 Nullable(UInt64)", "i256 Nullable(Int256)", "u128 Nullable(UInt128)", "d9 Nullable(Decimal(9, 2))", "d76 Nullable(Decimal(76, 30))",
		"f32 Nullable(Float32)", "f64 Nullable(Float64)", "bf Nullable(BFloat16)", "s Nullable(String)", "fs Nullable(FixedString(5))", "b Nullable(Bool)", "id Nullable(UUID)",
		"ip4 Nullable(IPv4)", "ip6 Nullable(IPv6)", "day Nullable(Date)", "day32 Nullable(Date32)", "t Nullable(DateTime('Asia/Tokyo'))", "t3 Nullable(DateTime64(3))", "t9 Nullable(DateTime64(9))",
		"e Nullable(Enum8('a'=1,'b'=-2))", "arr Array(Nullable(Int32)) DEFAULT []", "m Map(String, Array(Float64)) DEFAULT map()", "mi Map(Int32, String) DEFAULT map()",
		"tup Tuple(x UInt8, y Nullable(String)) DEFAULT (0,'')", "pair Tuple(UInt8, Array(String)) DEFAULT (0, [])",
		"clock Nullable(Time64(3))", "any Dynamic", "j JSON DEFAULT '{}'",
	), time.UTC)
}

// Any body is judged without a panic; a row that is taken can be cut into
// fields, is rendered as valid JSON, and that JSON is taken again as the same
// row.
func FuzzDecoder(f *testing.F) {
	for _, body := range []string{
		`{"i8":1,"u64":"18446744073709551615","i256":-5,"d9":1.5,"d76":1e-3,"f32":0.1,"f64":1e300,"s":"\ud83d\ude00","fs":"a","b":true}`,
		`[{"id":"61f0c404-5cb3-11e7-907b-a6006ad3dba0","ip4":"1.2.3.4","ip6":"::1"},{"day":"2026-01-01","day32":"1950-01-01"}]`,
		`{"t":"2026-01-01 00:00","t3":1769904000250,"t9":-1.5,"e":"a"}` + "\n" + `{"arr":[1,null],"m":{"a":[1]},"mi":{"1":"x"},"tup":{"x":1},"pair":[1,["a"]]}`,
		`[{"a":[}]`, "\xEF\xBB\xBF{}", `{"s":"` + "\xff" + `"}`, `{"t3":"2026-03-08T02:30:00.123+05:30"}`,
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	table := fuzzTable()
	f.Fuzz(func(t *testing.T, body []byte, lines bool) {
		format := JSON
		if lines {
			format = NDJSON
		}
		d := table.NewDecoder(format, body, DecodeOptions{})
		for n := 1; d.Next(); n++ {
			require.Equal(t, n, d.Record().Index)
			if d.Record().Err == nil {
				checkStable(t, table, d.Record())
			}
		}
	})
}

// FuzzDelimited is FuzzDecoder for CSV and TSV. A header line fixes the columns,
// so that most bodies get as far as values.
func FuzzDelimited(f *testing.F) {
	for _, body := range []string{
		"1,2,3,x\n", "1,\"a \"\"b\"\"\ny\",[1],\"{'a':[1]}\"\r\n,,,\n", "1\t\\x41\\n\t['a',NULL]\t(1,'x')\n\\N\t\t\t\n", " 5 , \"a\" ,\"(1,['it''s','\\\\'])\",true\n", "\"", "\xEF\xBB\xBF1,2,3,4",
	} {
		for format := range uint8(4) {
			f.Add([]byte(body), format, uint8(3))
		}
	}
	table := fuzzTable()
	f.Fuzz(func(t *testing.T, body []byte, format, from uint8) {
		chosen := CSV + InputFormat(format%4)
		var header []byte
		if chosen == CSV || chosen == TSV {
			for i := range 4 {
				if i > 0 {
					header = append(header, map[InputFormat]byte{CSV: ',', TSV: '\t'}[chosen])
				}
				header = append(header, table.columns[(int(from)+i)%len(table.columns)].Name...)
			}
			header = append(header, '\n')
		}
		d := table.NewDecoder(chosen, append(header, body...), DecodeOptions{})
		for n := 1; d.Next(); n++ {
			require.Equal(t, n, d.Record().Index)
			if d.Record().Err == nil {
				checkStable(t, table, d.Record())
			}
			for column := range table.columns {
				if value, ok := d.Value(column); ok {
					require.True(t, json.Valid(value), "%q", value)
				}
			}
		}
	})
}

func checkStable(t *testing.T, table *Table, r Record) {
	layout, row := readRow(t, r)
	ends, err := layout.Ends(nil, row, 1)
	require.NoError(t, err)
	require.Equal(t, []int{len(row)}, ends)
	shown, err := layout.AppendObject(nil, row, nil, RenderOptions{})
	require.NoError(t, err)
	require.True(t, json.Valid(shown), "%s", shown)

	again := table.NewDecoder(JSON, shown, DecodeOptions{})
	require.True(t, again.Next(), "%s", shown)
	if again.Record().Err != nil {
		// The one thing that does not read back is a value that JSON lacks.
		require.Contains(t, string(shown), "null", "%s: %v", shown, again.Record().Err)
		return
	}
	_, back := readRow(t, again.Record())
	back = append([]byte(nil), back...)
	twice, err := layout.AppendObject(nil, back, nil, RenderOptions{})
	require.NoError(t, err)
	require.Equal(t, string(shown), string(twice))
}

// Bytes that are no rows are refused without a panic.
func FuzzLayout(f *testing.F) {
	f.Add([]byte{1, 0, 0}, 1)
	f.Add([]byte{0, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 2)
	table := fuzzTable()
	all := make([]byte, (len(table.columns)+7)/8)
	for i := range table.columns {
		setBit(all, i)
	}
	lines, err := ParseLines(table.setOf(all).Header(), time.UTC)
	require.NoError(f, err)
	layout := lines.Layout()
	f.Fuzz(func(t *testing.T, body []byte, rows int) {
		_, _ = lines.AppendRows(nil, body, max(0, min(rows, 100)))
		ends, err := layout.Ends(nil, body, max(0, min(rows, 100)))
		if err != nil {
			return
		}
		start := 0
		for _, end := range ends {
			_, err := layout.FieldEnds(nil, body[start:end])
			require.NoError(t, err)
			_, _ = layout.AppendObject(nil, body[start:end], nil, RenderOptions{Int64AsString: true})
			_, _ = layout.AppendCompact(nil, body[start:end])
			start = end
		}
	})
}
