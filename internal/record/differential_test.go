package record_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/record"
)

// settings are those that inserts of text and results are pinned to, and those
// that let a table have every type.
const settings = "date_time_output_format=iso&output_format_json_escape_forward_slashes=0" +
	"&output_format_json_quote_denormals=0&date_time_input_format=best_effort&input_format_null_as_default=0" +
	"&allow_suspicious_low_cardinality_types=1&allow_experimental_bfloat16_type=1&flatten_nested=0&input_format_csv_deserialize_separate_columns_into_tuple=0&enable_time_time64_type=1"

// engine is the real ClickHouse, asked over HTTP.
type engine struct {
	t      *testing.T
	client *http.Client
	target string
}

func newEngine(t *testing.T) *engine {
	s := clickhousetest.Start(t)
	return &engine{t: t, client: &http.Client{Timeout: time.Minute}, target: "http://" + s.HTTPAddr() + "/?database=" + s.Database + "&" + settings}
}

// try runs a statement with data and further settings and returns the answer;
// failed is true when ClickHouse refused.
func (e *engine) try(sql string, data []byte, more string) (answer []byte, failed bool) {
	e.t.Helper()
	resp, err := e.client.Post(e.target+more+"&query="+url.QueryEscape(sql), "text/plain", bytes.NewReader(data))
	require.NoError(e.t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	require.NoError(e.t, err)
	return answer, resp.StatusCode != http.StatusOK || resp.Header.Get("X-ClickHouse-Exception-Code") != ""
}

func (e *engine) run(sql string, data []byte, more string) []byte {
	e.t.Helper()
	answer, failed := e.try(sql, data, more)
	require.False(e.t, failed, "%s: %s", sql, answer)
	return answer
}

// taken is a value that our codec takes, and its encoding.
type taken struct {
	value   string
	encoded []byte
}

// outcome is what became of one value: its encoding, or a refusal.
type outcome struct {
	stored bool
	value  []byte
	// code is of our own refusal.
	code string
}

// For every type, format and a corpus of values, what this server makes of a
// value is compared with what the real ClickHouse makes of it.
func TestValuesAgainstClickHouse(t *testing.T) {
	e := newEngine(t)
	unused := unmet()
	triples := 0
	var met []meeting
	for _, c := range corpus {
		t.Run(c.typeText, func(t *testing.T) {
			e := &engine{t: t, client: e.client, target: e.target}
			e.run("CREATE OR REPLACE TABLE v (n UInt32, v "+c.typeText+") ENGINE = Memory", nil, "")
			codec, err := record.NewCodec(c.typeText, time.UTC)
			require.NoError(t, err)
			for _, format := range formats {
				values := format.values(c.typeText, c.values)
				triples += len(values)
				ours := judge(t, format, c.typeText, values)
				theirs := storedTexts(e, format, values, codec)
				retry(e, format, values, ours, theirs, codec)
				var all []taken
				for i, v := range values {
					if ours[i].stored && format.name == "JSON" {
						all = append(all, taken{v.text, ours[i].value})
					}
					if ours[i].stored == theirs[i].stored && string(ours[i].value) == string(theirs[i].value) {
						continue
					}
					d, listed := differs(format.name, c.typeText, v)
					if assert.NotNil(t, d, "%s %s: ClickHouse stores %x (%v), this server %x (%v %s)", format.name, v.text, theirs[i].value, theirs[i].stored, ours[i].value, ours[i].stored, ours[i].code) {
						delete(unused, d.why+": "+listed)
						met = append(met, meeting{d, format.name, c.typeText, v.text, show(codec, ours[i]), show(codec, theirs[i])})
					}
				}
				if format.name == "JSON" {
					checkStored(t, e, all)
					checkOrder(t, e, all, codec)
				}
			}
		})
	}
	assert.Empty(t, unused, "these differences are on the list but were not met")
	assert.GreaterOrEqual(t, triples, 1500)
	t.Logf("%d triples of type, format and value", triples)
	if !t.Failed() {
		checkManual(t, e, met)
	}
}

// judge returns what this server makes of each value.
func judge(t *testing.T, f format, typeText string, values []value) []outcome {
	t.Helper()
	table := record.Compile("v", []record.Column{{Name: "n", Type: "UInt32"}, {Name: "v", Type: typeText}}, time.UTC)
	all := make([]outcome, len(values))
	for i, v := range values {
		d := table.NewDecoder(f.input, f.line(i, v.text), record.DecodeOptions{MaxRecordBytes: 1 << 30})
		if !d.Next() {
			all[i].code = d.Err().Error()
			continue
		}
		r := d.Record()
		switch {
		case r.Err != nil:
			all[i].code = r.Err.Code
		case len(r.Set.Columns()) == 1: // left out, and so NULL
			all[i] = outcome{stored: true, value: []byte{1}}
		default:
			all[i] = outcome{stored: true, value: append([]byte(nil), r.Row[4:]...)}
		}
		assert.False(t, r.Err == nil && d.Next(), "%s is more than one record", v.text)
	}
	return all
}

// storedTexts inserts the values as text and returns what ClickHouse stores.
func storedTexts(e *engine, f format, values []value, codec record.Codec) []outcome {
	e.t.Helper()
	e.run("TRUNCATE TABLE v", nil, "")
	// Rows that do not parse are passed over. Other refusals end the INSERT: the
	// rows are then sent one by one.
	var body []byte
	for i, v := range values {
		body = append(body, f.line(i, v.text)...)
	}
	insert := "INSERT INTO v FORMAT " + f.theirs
	if _, failed := e.try(insert, body, "&input_format_allow_errors_num=1000000&input_format_parallel_parsing=0"); failed {
		e.run("TRUNCATE TABLE v", nil, "")
		for i, v := range values {
			_, _ = e.try(insert, f.line(i, v.text), "&input_format_parallel_parsing=0")
		}
	}
	return readStored(e, len(values), codec)
}

// retry sends those values one by one that ClickHouse refused and we took: the
// row before may have hidden them from it.
func retry(e *engine, f format, values []value, ours, theirs []outcome, codec record.Codec) {
	e.t.Helper()
	e.run("TRUNCATE TABLE v", nil, "")
	for i, v := range values {
		if ours[i].stored && !theirs[i].stored {
			_, _ = e.try("INSERT INTO v FORMAT "+f.theirs, f.line(i, v.text), "&input_format_parallel_parsing=0")
		}
	}
	for i, o := range readStored(e, len(values), codec) {
		if o.stored {
			theirs[i] = o
		}
	}
}

// readStored returns the stored values by their number.
func readStored(e *engine, count int, codec record.Codec) []outcome {
	e.t.Helper()
	all := make([]outcome, count)
	for rows := e.run("SELECT n, v FROM v FORMAT RowBinary", nil, ""); len(rows) > 0; {
		n := int(binary.LittleEndian.Uint32(rows))
		size, err := codec.Skip(rows[4:])
		require.NoError(e.t, err)
		require.Less(e.t, n, count)
		all[n], rows = outcome{stored: true, value: rows[4 : 4+size]}, rows[4+size:]
	}
	return all
}

// checkStored inserts the values as RowBinary, and again as the lines of
// AppendCompact, and compares how ClickHouse prints them.
func checkStored(t *testing.T, e *engine, all []taken) {
	t.Helper()
	table := record.Compile("v", []record.Column{{Name: "v", Type: columnType(e)}}, time.UTC)
	var rows, lines, plain, quoted []byte
	var layout *record.Layout
	for _, v := range all {
		d := table.NewDecoder(record.NDJSON, []byte(`{"v":`+v.value+`}`), record.DecodeOptions{MaxRecordBytes: 1 << 30})
		require.True(t, d.Next())
		require.Nil(t, d.Record().Err)
		if layout == nil {
			var err error
			layout, err = record.ParseLayout(d.Record().Set.Header(), time.UTC)
			require.NoError(t, err)
			rows = layout.AppendNamesAndTypes(rows)
		}
		rows = append(rows, v.encoded...)
		var err error
		lines, err = layout.AppendCompact(lines, v.encoded)
		require.NoError(t, err)
		plain, err = layout.AppendObject(plain, v.encoded, nil, record.RenderOptions{})
		require.NoError(t, err)
		quoted, err = layout.AppendObject(quoted, v.encoded, nil, record.RenderOptions{Int64AsString: true})
		require.NoError(t, err)
		lines, plain, quoted = append(lines, '\n'), append(plain, '\n'), append(quoted, '\n')
	}
	if layout == nil {
		return
	}
	e.run("TRUNCATE TABLE v", nil, "")
	e.run("INSERT INTO v (v) FORMAT RowBinaryWithNamesAndTypes", rows, "&input_format_skip_unknown_fields=0")
	assert.Equal(t, string(plain), string(e.run("SELECT v FROM v FORMAT JSONEachRow", nil, "&output_format_json_quote_64bit_integers=0&output_format_json_quote_decimals=0")))
	assert.Equal(t, string(quoted), string(e.run("SELECT v FROM v FORMAT JSONEachRow", nil, "&output_format_json_quote_64bit_integers=1&output_format_json_quote_decimals=1")))
	assert.Equal(t, string(rows[len(layout.AppendNamesAndTypes(nil)):]), string(e.run("SELECT v FROM v FORMAT RowBinary", nil, "")))
	e.run("TRUNCATE TABLE v", nil, "")
	e.run("INSERT INTO v (v) FORMAT JSONCompactEachRow", lines, "")
	assert.Equal(t, string(plain), string(e.run("SELECT v FROM v FORMAT JSONEachRow", nil, "&output_format_json_quote_64bit_integers=0&output_format_json_quote_decimals=0")), "after AppendCompact")
}

// checkOrder compares each pair of values with the operators of ClickHouse.
func checkOrder(t *testing.T, e *engine, all []taken, codec record.Codec) {
	t.Helper()
	var rows []byte
	comparable := false
	for i, v := range all {
		rows = append(append(rows, byte(i)), v.encoded...)
		_, ok := codec.Compare(v.encoded, v.encoded)
		comparable = comparable || ok
	}
	if !comparable {
		return
	}
	e.run("CREATE OR REPLACE TABLE o (n UInt8, v "+columnType(e)+") ENGINE = Memory", nil, "")
	e.run("INSERT INTO o FORMAT RowBinary", rows, "")
	answer := e.run("SELECT a.n, b.n, a.v < b.v, a.v = b.v FROM o AS a, o AS b ORDER BY 1, 2 FORMAT TSV", nil, "")
	for _, line := range strings.Split(strings.TrimSpace(string(answer)), "\n") {
		var a, b int
		var less, equal string
		_, err := fmt.Sscan(line, &a, &b, &less, &equal)
		require.NoError(t, err, line)
		cmp, ok := codec.Compare(all[a].encoded, all[b].encoded)
		if ok {
			assert.Equal(t, fmt.Sprint(less == "1", equal == "1"), fmt.Sprint(cmp < 0, cmp == 0), "%s against %s", all[a].value, all[b].value)
		}
	}
}

// columnType is the type of v as ClickHouse names it.
func columnType(e *engine) string {
	return strings.TrimSpace(string(e.run("SELECT type FROM system.columns WHERE database = currentDatabase() AND table = 'v' AND name = 'v' FORMAT TSVRaw", nil, "")))
}

// Values of any bits are printed as ClickHouse prints them.
func TestRenderingOfAnyBitsAgainstClickHouse(t *testing.T) {
	const rows = 2000
	e := newEngine(t)
	random := rand.New(rand.NewPCG(1, 2))
	for typeText, size := range map[string]int{
		"Float64": 8, "Float32": 4, "BFloat16": 2, "Int128": 16, "UInt256": 32, "Int256": 32, "Decimal(76, 40)": 32, "Decimal(38, 37)": 16, "Decimal(9, 9)": 4, "Decimal(18, 1)": 8,
		"UUID": 16, "IPv6": 16, "IPv4": 4, "DateTime": 4, "Date": 2, "FixedString(9)": 9, "Bool": 0, "DateTime64(9)": 8, "DateTime64(6)": 7,
	} {
		var body, want []byte
		codec, err := record.NewCodec(typeText, time.UTC)
		require.NoError(t, err)
		for range rows {
			at := len(body)
			body = appendRandom(body, random, size)
			want = append(want, `{"v":`...)
			want, _, err = codec.RenderJSON(want, body[at:], record.RenderOptions{})
			require.NoError(t, err)
			want = append(want, "}\n"...)
		}
		e.run("CREATE OR REPLACE TABLE v (v "+typeText+") ENGINE = Memory", nil, "")
		e.run("INSERT INTO v FORMAT RowBinary", body, "")
		got := e.run("SELECT v FROM v FORMAT JSONEachRow", nil, "&output_format_json_quote_64bit_integers=0")
		assert.Equal(t, strings.Split(string(got), "\n"), strings.Split(string(want), "\n"), typeText)
	}
}

// The floats of few bits lie half way between two of the shortest texts that read
// back as them; ClickHouse takes the even one.
func TestFloatsBetweenTwoTextsAgainstClickHouse(t *testing.T) {
	e := newEngine(t)
	for typeText, lowest := range map[string]int{"Float32": -126, "BFloat16": -126, "Float64": -1022} {
		codec, err := record.NewCodec(typeText, time.UTC)
		require.NoError(t, err)
		var body, want []byte
		for exponent := lowest; exponent <= 126; exponent++ {
			for _, mantissa := range []float64{1, -1.5, 1.25, 1.375, 1.0625, -1.9375, 1.5078125} {
				at := len(body)
				body, err = codec.AppendJSON(body, strconv.AppendFloat(nil, math.Ldexp(mantissa, exponent), 'g', -1, 64))
				require.NoError(t, err)
				want = append(want, `{"v":`...)
				want, _, err = codec.RenderJSON(want, body[at:], record.RenderOptions{})
				require.NoError(t, err)
				want = append(want, "}\n"...)
			}
		}
		e.run("CREATE OR REPLACE TABLE v (v "+typeText+") ENGINE = Memory", nil, "")
		e.run("INSERT INTO v FORMAT RowBinary", body, "")
		got := e.run("SELECT v FROM v FORMAT JSONEachRow", nil, "")
		assert.Equal(t, strings.Split(string(got), "\n"), strings.Split(string(want), "\n"), typeText)
	}
}

// appendRandom appends size random bytes, some of them zero; of size 0 is a
// random boolean, of 7 an integer of eight bytes that is small.
func appendRandom(dst []byte, random *rand.Rand, size int) []byte {
	switch size {
	case 0:
		return append(dst, byte(random.IntN(2)))
	case 7:
		return binary.LittleEndian.AppendUint64(dst, uint64(random.Int64N(12e15)-2e15))
	}
	zeros := random.IntN(size)
	for i := range size {
		b := byte(random.UintN(256))
		if i < zeros && random.IntN(4) == 0 {
			b = 0
		}
		dst = append(dst, b)
	}
	return dst
}
