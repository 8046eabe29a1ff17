package record_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
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
	"&allow_suspicious_low_cardinality_types=1&allow_experimental_bfloat16_type=1&flatten_nested=0"

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

// For every type and a corpus of values, what our codec makes of a value is
// compared with what the real ClickHouse makes of it.
func TestCodecsAgainstClickHouse(t *testing.T) {
	e := newEngine(t)
	unused := unmet()
	for _, c := range corpus {
		t.Run(c.typeText, func(t *testing.T) {
			e := &engine{t: t, client: e.client, target: e.target}
			e.run("CREATE OR REPLACE TABLE v (n UInt16, v "+c.typeText+") ENGINE = Memory", nil, "")
			codec, err := record.NewCodec(c.typeText, time.UTC)
			require.NoError(t, err)
			stored := storedTexts(e, c.values, codec)
			var all []taken
			for i, value := range c.values {
				encoded, err := codec.AppendJSON(nil, []byte(value))
				if err == nil {
					all = append(all, taken{value, encoded})
				}
				theirs, ok := stored[i]
				if ok == (err == nil) && string(theirs) == string(encoded) {
					continue
				}
				entry := differs(c.typeText, value)
				assert.NotEmpty(t, entry, "%s: ClickHouse stores %x (%v), this server %x (%v)", value, theirs, ok, encoded, err)
				delete(unused, entry)
			}
			checkStored(t, e, all)
			checkOrder(t, e, all, codec)
		})
	}
	assert.Empty(t, unused, "these differences are on the list but were not met")
}

// storedTexts inserts each value as text and returns what ClickHouse stores,
// by the value's index. A value that it refuses is absent.
func storedTexts(e *engine, values []string, codec record.Codec) map[int][]byte {
	e.t.Helper()
	for i, value := range values {
		_, _ = e.try("INSERT INTO v FORMAT JSONEachRow", fmt.Appendf(nil, `{"n":%d,"v":%s}`, i, value), "")
	}
	stored := make(map[int][]byte)
	for rows := e.run("SELECT n, v FROM v FORMAT RowBinary", nil, ""); len(rows) > 0; {
		n := int(binary.LittleEndian.Uint16(rows))
		size, err := codec.Skip(rows[2:])
		require.NoError(e.t, err)
		stored[n], rows = rows[2:2+size], rows[2+size:]
	}
	return stored
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
