package insert_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// loose has columns of types without a codec here.
func loose() *schema.Table {
	columns := []record.Column{
		{Name: "id", Type: "UInt64"}, {Name: "j", Type: "JSON", DefaultKind: record.DefaultExpression}, {Name: "d", Type: "Dynamic"},
		{Name: "v", Type: "Variant(UInt64, String)"}, {Name: "s", Type: "AggregateFunction(count)"},
		{Name: "at", Type: "DateTime64(3, 'UTC')", DefaultKind: record.DefaultExpression},
		{Name: "tup", Type: "Tuple(a Int64, b Array(String))", DefaultKind: record.DefaultExpression},
		{Name: "dec", Type: "Decimal(38, 18)", DefaultKind: record.DefaultExpression}, {Name: "f", Type: "Float64", DefaultKind: record.DefaultExpression},
	}
	return &schema.Table{Name: "loose", Columns: columns, Record: record.Compile("loose", columns, time.UTC)}
}

const createLoose = `CREATE TABLE loose (id UInt64, j JSON DEFAULT '{"z":0}', d Dynamic, v Variant(UInt64, String), s AggregateFunction(count),
	at DateTime64(3, 'UTC') DEFAULT 0, tup Tuple(a Int64, b Array(String)) DEFAULT (0, []), dec Decimal(38, 18) DEFAULT 0, f Float64 DEFAULT 0) ENGINE = MergeTree ORDER BY id`

// Values of types without a codec are ClickHouse's to judge; those beside them
// are stored as they were judged here.
func TestRealTypesWithoutACodec(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createLoose)
	r := newRig(t).open()
	r.send(ingesttest.Request(loose(), record.NDJSON, strings.Join([]string{
		`{"id":1,"j":{"a":{"b":[1,2]}},"at":"2026-03-04T07:06:07.089+02:00","tup":{"b":["x\n"],"a":"-9007199254740993"},"dec":271828.182845904523536028,"f":"nan"}`,
		`{"id":2,"d":[1,2],"v":"text"}`, `{"id":3,"d":null,"v":7}`, `{"id":4,"s":"\u0005"}`,
		`{"id":6,"j":{"ok":true}}`, `{"id":7}`, `{"id":8,"s":"no state at all"}`,
	}, "\n")))
	r.start(c.use)
	r.settled(birch)
	assert.Equal(t, [][]string{
		{"1", `{"a":{"b":[1,2]}}`, "none", "none", "0", "2026-03-04 05:06:07.089", "(-9007199254740993,['x\\n'])", "271828.182845904523536028", "nan"},
		{"2", `{"z":0}`, "[1,2]", "text", "0", "1970-01-01 00:00:00.000", "(0,[])", "0", "0"},
		{"3", `{"z":0}`, "none", "7", "0", "1970-01-01 00:00:00.000", "(0,[])", "0", "0"},
		{"4", `{"z":0}`, "none", "none", "5", "1970-01-01 00:00:00.000", "(0,[])", "0", "0"},
		{"6", `{"ok":true}`, "none", "none", "0", "1970-01-01 00:00:00.000", "(0,[])", "0", "0"},
		{"7", `{"z":0}`, "none", "none", "0", "1970-01-01 00:00:00.000", "(0,[])", "0", "0"},
	}, c.Rows(t, "SELECT id, toJSONString(j), ifNull(d::Nullable(String), 'none'), ifNull(v::Nullable(String), 'none'), finalizeAggregation(s), at, tup, dec, f FROM loose ORDER BY id"))
	letters := r.letters(birch, "loose")
	require.Len(t, letters, 1)
	for _, l := range letters {
		assert.Equal(t, mq.FormatJSONCompactEachRow, l.Format)
		lines, err := record.ParseLines(l.Columns, time.UTC)
		require.NoError(t, err)
		_, err = lines.AppendRows(nil, l.Row, 1)
		require.NoError(t, err)
	}
}

// One bad line among many does not keep the others out.
func TestRealBadLineAmongMany(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createLoose)
	r := newRig(t).open()
	body := strings.Repeat(`{"id":1,"s":"\u0005"}`+"\n", 700) + `{"id":2,"s":"no state at all"}` + "\n" + strings.Repeat(`{"id":3,"s":"\u0006"}`+"\n", 1500)
	r.send(ingesttest.Request(loose(), record.NDJSON, body))
	r.start(c.use)
	r.settled(birch)
	assert.Equal(t, [][]string{{"1", "700"}, {"3", "1500"}}, c.Rows(t, "SELECT id, count() FROM loose GROUP BY id ORDER BY id"))
	letters := r.letters(birch, "loose")
	require.Len(t, letters, 1)
	assert.Equal(t, `[2,"no state at all"]`+"\n", string(letters[0].Row))
}

// The same rows come out whatever the format they came in.
func TestRealFormatsStoreTheSame(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+pagesEngine)
	r := newRig(t).start(c.use)
	r.send(ingesttest.Request(ingesttest.Pages(), record.TSV, "event_id\tpage\tn\r\ng1\t/a\t5\r\n"))
	r.send(ingesttest.Request(ingesttest.Pages(), record.CSV, "event_id,page,org\nh1,\"two\nlines\",\"a \"\"q\"\", b\"\nh2,/b,z"))
	r.send(ingesttest.Request(ingesttest.Pages(), record.CSVWithoutHeader, "i1,/c,,,7,2026-03-04T05:06:07.089Z\n"))
	r.settled(birch)
	assert.Equal(t, [][]string{
		{"g1", "2F61", "", "5"}, {"h1", "74776F0A6C696E6573", `a "q", b`, "0"}, {"h2", "2F62", "z", "0"}, {"i1", "2F63", "", "7"},
	}, c.Rows(t, "SELECT event_id, hex(page), org, n FROM pages ORDER BY event_id"))
	assert.Equal(t, "2026-03-04 05:06:07.089", c.Value(t, "SELECT ts FROM pages WHERE event_id = 'i1'"))
}

// Lines of text name their types as well: a column beside one without a codec is
// judged like any other when its type has changed.
func TestRealTypeChangedBesideAColumnWithoutACodec(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createLoose)
	r := newRig(t).open()
	r.send(ingesttest.Request(loose(), record.NDJSON, `{"id":300,"j":{"a":1}}`+"\n"+`{"id":2,"j":{"a":2}}`))
	c.Exec(t, "DROP TABLE loose SYNC", strings.Replace(createLoose, "id UInt64", "id UInt8", 1))
	r.start(c.use)
	r.settled(birch)
	assert.Equal(t, [][]string{{"2", `{"a":2}`}}, c.Rows(t, "SELECT id, toJSONString(j) FROM loose"))
	letters := r.letters(birch, "loose")
	require.Len(t, letters, 1)
	assert.Equal(t, `column id: 300 is out of the range of UInt8`, letters[0].Error)
}
