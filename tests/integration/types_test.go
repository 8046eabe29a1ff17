package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// columnsOf splits a row into the text of its cells.
func columnsOf(t testing.TB, row json.RawMessage) map[string]string {
	t.Helper()
	var cells map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(row, &cells), string(row))
	text := make(map[string]string, len(cells))
	for name, raw := range cells {
		text[name] = string(raw)
	}
	return text
}

// byID keys rows by their id.
func byID(t testing.TB, rows []json.RawMessage) map[string]map[string]string {
	t.Helper()
	found := make(map[string]map[string]string, len(rows))
	for _, row := range rows {
		cells := columnsOf(t, row)
		require.NotContains(t, found, cells["id"], "stored twice")
		found[cells["id"]] = cells
	}
	return found
}

// agree ingests records into a table with a column id, waits until the good
// ones are in every answer, and holds the structured query, the ops query and the
// stream to one rendering of every value. It returns that by id and column,
// with the verdict on each record.
func (s *server) agree(table string, records ...string) (batch, map[string]map[string]string) {
	s.t.Helper()
	l := s.listen(table, "")
	before := s.ch.Count(s.t, table)
	inserted := s.wait(table, "&results=all", strings.Join(records, "\n"), ndjsonType)
	require.Equal(s.t, http.StatusOK, inserted.status, inserted.body)
	b := decode[batch](s.t, inserted)
	require.Equal(s.t, before+b.Succeeded, s.ch.Count(s.t, table))
	streamed := byID(s.t, l.rows(b.Succeeded))
	queried := byID(s.t, s.rows(table, `{"select_all":true}`))
	a := s.opsSQL("SELECT * FROM " + table)
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	raw := byID(s.t, decode[[]json.RawMessage](s.t, a))
	require.Equal(s.t, raw, queried, "the ops query and the structured query differ")
	for id, cells := range streamed {
		for column, value := range cells {
			require.Equal(s.t, queried[id][column], value, "the stream differs in %s of %s", column, id)
		}
	}
	require.Zero(s.t, s.parked(), "what was accepted is not parked")
	return b, queried
}

// verdicts are the codes of a batch's records, "" for those that were taken.
func verdicts(b batch) []string {
	codes := make([]string, 0, len(b.Results))
	for _, r := range b.Results {
		codes = append(codes, r.Code)
	}
	return codes
}

// values are one column's values by id.
func values(rows map[string]map[string]string, column string) map[string]string {
	found := map[string]string{}
	for id, cells := range rows {
		found[strings.Trim(id, `"`)] = cells[column]
	}
	return found
}

// typed is a server with one table t(id String, v <type>).
func typed(t *testing.T, columnType string) *server {
	t.Helper()
	return start(t, options{}, "CREATE TABLE t (id String, v "+columnType+") ENGINE = MergeTree ORDER BY id")
}

// numbered makes records of values, with the ids 1, 2, 3…
func numbered(values ...string) []string {
	records := make([]string, len(values))
	for i, v := range values {
		records[i] = fmt.Sprintf(`{"id":"%d","v":%s}`, i+1, v)
	}
	return records
}

const (
	outOfRange   = "record.out_of_range"
	typeMismatch = "record.type_mismatch"
)

func TestIntegersKeepEveryDigit(t *testing.T) {
	t.Parallel()
	s := typed(t, "UInt64")
	_, rows := s.agree("t", numbered("18446744073709551615", "9007199254740993", `"18446744073709551615"`, `"9007199254740993"`)...)
	want := map[string]string{"1": "18446744073709551615", "2": "9007199254740993", "3": "18446744073709551615", "4": "9007199254740993"}
	assert.Equal(t, want, values(rows, "v"))
	assert.Equal(t, [][]string{{"9007199254740993"}, {"18446744073709551615"}}, s.ch.Rows(t, "SELECT DISTINCT v FROM t ORDER BY v"))
	asText := s.rows("t", `{"columns":["v"],"filters":[{"column":"id","op":"eq","value":"2"}],"int64":"string"}`)
	assert.JSONEq(t, `{"v":"9007199254740993"}`, string(asText[0]))
}

func TestIntegersOutOfRange(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE t (id String, a UInt8 DEFAULT 0, b Int32 DEFAULT 0, c UInt64 DEFAULT 0) ENGINE = MergeTree ORDER BY id`)
	b := s.ingestLines("t", strings.Join([]string{
		`{"id":"1","a":300}`, `{"id":"2","a":"256"}`, `{"id":"3","a":-1}`, `{"id":"4","b":2147483648}`, `{"id":"5","b":-2147483649}`,
		`{"id":"6","c":18446744073709551616}`, `{"id":"7","c":"18446744073709551616"}`, `{"id":"8","c":-1}`, `{"id":"9","a":1.5}`,
	}, "\n"))
	assert.Equal(t, 9, b.Failed)
	for i, column := range []string{"a", "a", "a", "b", "b", "c", "c", "c", "a"} {
		assert.Equal(t, column, b.Results[i].Column)
		assert.Contains(t, []string{outOfRange, typeMismatch}, b.Results[i].Code)
	}
	s.agree("t", `{"id":"ok","a":255,"b":-2147483648,"c":0}`)
	assert.Equal(t, 1, s.ch.Count(t, "t"))
}

func TestDecimalsSentAsNumbers(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE t (id String, a Decimal(38,18), b Decimal(18,2), c Decimal(18,4)) ENGINE = MergeTree ORDER BY id`)
	_, rows := s.agree("t", `{"id":"1","a":271828.182845904523536028,"b":40817.29,"c":1e-3}`)
	assert.Equal(t, map[string]string{"id": `"1"`, "a": "271828.182845904523536028", "b": "40817.29", "c": "0.001"}, rows[`"1"`])
	assert.Equal(t, [][]string{{"271828.182845904523536028", "40817.29", "0.001"}}, s.ch.Rows(t, "SELECT a, b, c FROM t"))
}

func TestMoreDigitsThanTheDecimalHolds(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE t (id String, a Decimal(18,2) DEFAULT 0, b Decimal(4,2) DEFAULT 0) ENGINE = MergeTree ORDER BY id`)
	b, rows := s.agree("t", `{"id":"1","a":"16.409"}`, `{"id":"2","b":12345.67}`, `{"id":"3","a":"16.400"}`)
	require.Equal(t, 2, b.Failed)
	assert.Equal(t, "a", b.Results[0].Column)
	assert.Equal(t, "b", b.Results[1].Column)
	assert.Equal(t, outOfRange, b.Results[1].Code)
	assert.Equal(t, map[string]string{"3": "16.4"}, values(rows, "a"))
}

func TestEpochNumbersTellTheirUnit(t *testing.T) {
	t.Parallel()
	s := typed(t, "DateTime64(3,'UTC')")
	_, rows := s.agree("t", numbered("1769904000250", "1769904000", `"1769904000250"`, "1769904000250000", "1769904000.25")...)
	assert.Equal(t, map[string]string{
		"1": `"2026-02-01T00:00:00.250Z"`, "2": `"2026-02-01T00:00:00.000Z"`, "3": `"2026-02-01T00:00:00.250Z"`,
		"4": `"2026-02-01T00:00:00.250Z"`, "5": `"2026-02-01T00:00:00.250Z"`,
	}, values(rows, "v"))
	assert.Equal(t, "2026-02-01 00:00:00.250", s.ch.Value(t, "SELECT v FROM t WHERE id = '1'"))
}

func TestTheProductsOwnTimesFedBack(t *testing.T) {
	t.Parallel()
	s := typed(t, "DateTime64(3,'UTC')")
	_, rows := s.agree("t", `{"id":"1","v":"2026-03-04T05:06:07.089Z"}`)
	read := rows[`"1"`]["v"]
	assert.Equal(t, `"2026-03-04T05:06:07.089Z"`, read)
	b, rows := s.agree("t", `{"id":"2","v":`+read+`}`, `{"id":"3","v":"2026-03-04T05:06:07.089000+02:00"}`, `{"id":"4","v":"2026-03-04T05:06:07.0899+02:00"}`)
	assert.Equal(t, map[string]string{"1": read, "2": read, "3": `"2026-03-04T03:06:07.089Z"`}, values(rows, "v"))
	// A fraction finer than the column's is refused rather than cut.
	require.Equal(t, 1, b.Failed)
	assert.Equal(t, "v", b.Results[2].Column)
	assert.Equal(t, "1", s.ch.Value(t, "SELECT uniqExact(v) FROM t WHERE id IN ('1','2')"))
}

func TestInstantsTheColumnCannotHold(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE t (id String, a DateTime('UTC') DEFAULT 0, b DateTime64(9,'UTC') DEFAULT 0, c Date DEFAULT 0) ENGINE = MergeTree ORDER BY id`)
	b, rows := s.agree("t",
		`{"id":"1","a":"2200-01-01T00:00:00Z"}`, `{"id":"2","a":-1}`, `{"id":"3","b":"2300-01-01T00:00:00Z"}`, `{"id":"4","c":"2200-01-01"}`,
		`{"id":"5","a":"2106-02-07T06:28:15Z","b":"2262-04-11T23:47:16.854775807Z","c":"2149-06-06"}`)
	assert.Equal(t, []string{outOfRange, outOfRange, outOfRange, outOfRange, ""}, verdicts(b))
	require.Len(t, rows, 1)
	assert.Equal(t, map[string]string{
		"id": `"5"`, "a": `"2106-02-07T06:28:15Z"`, "b": `"2262-04-11T23:47:16.854775807Z"`, "c": `"2149-06-06"`,
	}, rows[`"5"`])
}

func TestNullForAnEnum(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE t (id String, v Enum8('a'=1,'b'=2)) ENGINE = MergeTree ORDER BY id`,
		`CREATE TABLE dflt (id String, v Enum8('a'=1,'b'=2) DEFAULT 'b') ENGINE = MergeTree ORDER BY id`)
	b, rows := s.agree("t", `{"id":"1","v":"a"}`, `{"id":"2","v":null}`, `{"id":"3"}`)
	assert.Equal(t, []string{"", "record.null_not_allowed", "record.missing_column"}, verdicts(b))
	assert.Equal(t, map[string]string{"1": `"a"`}, values(rows, "v"))
	_, rows = s.agree("dflt", `{"id":"1","v":null}`, `{"id":"2"}`)
	assert.Equal(t, map[string]string{"1": `"b"`, "2": `"b"`}, values(rows, "v"))
}

func TestEnumMembers(t *testing.T) {
	t.Parallel()
	s := typed(t, "Enum8('a'=1,'b'=2)")
	b, rows := s.agree("t", numbered(`"c"`, "7", "2", `"a"`)...)
	assert.Equal(t, 2, b.Failed)
	assert.Equal(t, []string{"v", "v"}, []string{b.Results[0].Column, b.Results[1].Column})
	assert.Equal(t, map[string]string{"3": `"b"`, "4": `"a"`}, values(rows, "v"))
}

// ClickHouse holds any bytes, in names of Enums too.
func TestEnumsWithNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE t (id UInt8, v Enum8('a\xFFb' = -1, 'c' = 2), w Enum16('\xFE' = 300) DEFAULT 300) ENGINE = MergeTree ORDER BY id`)
	s.accept("t", `{"id":1,"v":-1}`+"\n"+`{"id":2,"v":"c"}`)
	s.stored("t", 2)
	assert.Equal(t, [][]string{{"61FF62", "FE"}, {"63", "FE"}}, s.ch.Rows(t, "SELECT hex(toString(v)), hex(toString(w)) FROM t ORDER BY id"))
	for filter, want := range map[string]int{
		`{"column":"v","op":"eq","value":-1}`: 1, `{"column":"v","op":"in","value":[-1,"c"]}`: 2, `{"column":"w","op":"eq","value":300}`: 2,
	} {
		assert.Len(t, s.rows("t", `{"columns":["id"],"filters":[`+filter+`]}`), want, filter)
	}
	assert.JSONEq(t, `{"id":1,"v":"a�b","w":"�"}`, string(s.rows("t", `{"select_all":true,"order_by":[{"column":"id"}]}`)[0]))

	// Beside a type that only ClickHouse knows, rows are lines of text.
	s.ch.Exec(t, `CREATE TABLE lines (id UInt8, v Enum8('a\xFFb' = -1, 'c' = 2), w Array(Enum16('\xFE' = 300)), j JSON) ENGINE = MergeTree ORDER BY id`)
	s.accept("lines", `{"id":1,"v":-1,"w":[300],"j":{"a":1}}`+"\n"+`{"id":2,"v":"c","w":[],"j":{}}`)
	s.stored("lines", 2)
	assert.Equal(t, [][]string{{"61FF62", "FE"}, {"63", ""}}, s.ch.Rows(t, "SELECT hex(toString(v)), hex(arrayStringConcat(arrayMap(x -> toString(x), w))) FROM lines ORDER BY id"))
}

func TestNullInsideAnArray(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE t (id String, v Array(UInt8), w Array(Nullable(UInt8))) ENGINE = MergeTree ORDER BY id`)
	b, rows := s.agree("t", `{"id":"1","v":[1,null],"w":[]}`, `{"id":"2","v":[1,300],"w":[]}`, `{"id":"3","v":[],"w":[1,null]}`)
	assert.Equal(t, 2, b.Failed)
	assert.Equal(t, []string{"v", "v"}, []string{b.Results[0].Column, b.Results[1].Column})
	assert.Equal(t, "[1,null]", rows[`"3"`]["w"])
	assert.Equal(t, "[1,NULL]", s.ch.Value(t, "SELECT toString(w) FROM t"))
}

func TestWhatABoolTakes(t *testing.T) {
	t.Parallel()
	s := typed(t, "Bool")
	b, rows := s.agree("t", numbered(`"true"`, "2", "1", "true", "0", `"false"`, `"yes"`, `""`)...)
	assert.Equal(t, []string{"", "bad", "", "", "", "", "bad", "bad"}, badWhenSet(verdicts(b)))
	assert.Equal(t, map[string]string{"1": "true", "3": "true", "4": "true", "5": "false", "6": "false"}, values(rows, "v"))
}

func badWhenSet(codes []string) []string {
	out := slices.Clone(codes)
	for i, code := range out {
		if code == outOfRange || code == typeMismatch {
			out[i] = "bad"
		}
	}
	return out
}

func TestNotANumberAndInfinity(t *testing.T) {
	t.Parallel()
	s := typed(t, "Float64")
	for _, bare := range []string{"NaN", "Infinity", "-Infinity", "nan"} {
		a := s.ingest("t", `{"id":"0","v":`+bare+`}`)
		assert.Equal(t, http.StatusBadRequest, a.status, a.body)
	}
	refused(t, s.ingest("t", `{"id":"0","v":1e400}`), http.StatusBadRequest, outOfRange)
	_, rows := s.agree("t", numbered(`"NaN"`, `"Infinity"`, `"-Infinity"`, "1.5")...)
	assert.Equal(t, map[string]string{"1": "null", "2": "null", "3": "null", "4": "1.5"}, values(rows, "v"))
	assert.Equal(t, "1", s.ch.Value(t, "SELECT countIf(isNaN(v)) FROM t"))
	assert.Equal(t, "2", s.ch.Value(t, "SELECT countIf(isInfinite(v)) FROM t"))
}

func TestOmittedAndNull(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE t (id String, v Nullable(UInt8) DEFAULT 7, w UInt8 DEFAULT 9) ENGINE = MergeTree ORDER BY id`)
	_, rows := s.agree("t", `{"id":"1"}`, `{"id":"2","v":null,"w":null}`, `{"id":"3","v":1,"w":2}`)
	assert.Equal(t, map[string]string{"1": "7", "2": "null", "3": "1"}, values(rows, "v"))
	assert.Equal(t, map[string]string{"1": "9", "2": "9", "3": "2"}, values(rows, "w"))
}

func TestWhatAStringTakes(t *testing.T) {
	t.Parallel()
	s := typed(t, "String")
	b, rows := s.agree("t", numbered(`{"a":1}`, `[1,2]`, "123", "1.50", "true", `"x"`)...)
	assert.Equal(t, []string{typeMismatch, typeMismatch, "", "", "", ""}, verdicts(b))
	assert.Equal(t, map[string]string{"3": `"123"`, "4": `"1.50"`, "5": `"true"`, "6": `"x"`}, values(rows, "v"))
	assert.Equal(t, "1.50", s.ch.Value(t, "SELECT v FROM t WHERE id = '4'"))
}

// rendered are types with values of them; what is streamed must be what a
// query returns, byte for byte.
var rendered = []struct{ columnType, value string }{
	{"UInt8", "255"}, {"Int8", "-128"}, {"UInt16", "65535"}, {"Int16", "-32768"}, {"UInt32", "4294967295"}, {"Int32", "-2147483648"},
	{"UInt64", "18446744073709551615"}, {"Int64", "-9223372036854775808"},
	{"UInt128", "340282366920938463463374607431768211455"}, {"Int128", "-170141183460469231731687303715884105728"},
	{"UInt256", "115792089237316195423570985008687907853269984665640564039457584007913129639935"}, {"Int256", "-1"},
	{"Float32", "0.1"}, {"Float32", "16777217"}, {"Float64", "0.1"}, {"Float64", "1e300"}, {"Float64", "1e21"}, {"Float64", "1e-7"},
	{"Float64", "-0.0"}, {"Float64", "123456789012345680"}, {"Float64", `"NaN"`}, {"Float64", "5e-324"},
	{"Decimal(9,4)", "1.5"}, {"Decimal(18,2)", "1.10"}, {"Decimal(38,18)", "-0.000000000000000001"}, {"Decimal(76,10)", "12345678901234567890.5"},
	{"String", `"a\u0000\u001f\"\\/é\u2028\u2029😀\b\f\n\r\t\u007f"`}, {"String", `""`}, {"FixedString(5)", `"abc"`},
	{"Bool", "true"}, {"Bool", "false"}, {"UUID", `"6BA7B810-9DAD-11D1-80B4-00C04FD430C8"`},
	{"Date", `"2026-02-28"`}, {"Date", `"1970-01-01"`}, {"Date32", `"1900-01-01"`}, {"Date32", `"2299-12-31"`},
	{"DateTime", `"2026-06-21T04:00:00Z"`}, {"DateTime('Europe/Berlin')", `"2026-06-21 04:00:00"`}, {"DateTime('UTC')", "0"},
	{"DateTime64(0,'UTC')", `"2026-06-21T04:00:00Z"`}, {"DateTime64(3,'Asia/Tokyo')", `"2026-06-21T04:00:00.120Z"`},
	{"DateTime64(6,'UTC')", `"1969-12-31T23:59:59.999999Z"`}, {"DateTime64(9,'UTC')", `"2026-06-21T04:00:00.000000001Z"`},
	{"Enum8('a'=1,'b\\'c'=-2)", `"b'c"`}, {"Enum16('x'=1000)", "1000"},
	{"IPv4", `"192.168.0.1"`}, {"IPv6", `"2001:DB8::1"`}, {"IPv6", `"::ffff:10.0.0.1"`},
	{"Nullable(Int64)", "null"}, {"Nullable(DateTime64(3,'UTC'))", `"2026-06-21T04:00:00.5Z"`}, {"Nullable(String)", `"x"`},
	{"LowCardinality(String)", `"low"`}, {"LowCardinality(Nullable(String))", "null"}, {"LowCardinality(Nullable(String))", `"some"`},
	{"Array(String)", `["a","",""]`}, {"Array(Array(Nullable(Int32)))", `[[1,null],[],[2]]`}, {"Array(DateTime64(3,'UTC'))", `["2026-06-21T04:00:00Z"]`},
	{"Array(UInt8)", "[]"}, {"Map(String, UInt64)", `{"k":1,"other key":18446744073709551615}`}, {"Map(UInt32, String)", `{"7":"seven"}`},
	{"Map(String, Array(Decimal(10,2)))", `{"a":[1.5,2]}`}, {"Tuple(UInt8, String)", `[1,"x"]`}, {"Tuple(a UInt8, b Nullable(String))", `{"a":1,"b":null}`},
	{"Array(Tuple(name String, at DateTime('UTC')))", `[{"name":"n","at":"2026-06-21T04:00:00Z"}]`},
}

// All pairs travel in one row, each in a column of its own.
func TestStreamRendersAsTheQueryDoes(t *testing.T) {
	t.Parallel()
	columns, cells := []string{"id String"}, []string{`"id":"one"`}
	for i, r := range rendered {
		columns = append(columns, fmt.Sprintf("c%02d %s", i, r.columnType))
		cells = append(cells, fmt.Sprintf(`"c%02d":%s`, i, r.value))
	}
	s := start(t, options{}, "CREATE TABLE t ("+strings.Join(columns, ", ")+") ENGINE = MergeTree ORDER BY id")
	for _, form := range []struct{ parameter, document string }{
		{"", `{"select_all":true}`}, {"&int64=string", `{"select_all":true,"int64":"string"}`},
	} {
		s.ch.Exec(t, "TRUNCATE TABLE t")
		stream, err := s.tryListen("table=t"+form.parameter, "")
		require.NoError(t, err)
		l := &live{stream, t}
		s.accept("t", "{"+strings.Join(cells, ",")+"}")
		streamed, _ := l.row()
		s.stored("t", 1)
		rows := s.rows("t", form.document)
		require.Len(t, rows, 1)
		got, want := columnsOf(t, streamed), columnsOf(t, rows[0])
		for i, r := range rendered {
			column := fmt.Sprintf("c%02d", i)
			assert.Equal(t, want[column], got[column], "%s %s%s", r.columnType, r.value, form.parameter)
		}
		assert.Equal(t, string(rows[0]), string(streamed), "key order and spacing")
		assert.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	}
	s.sameThroughFeedback(cells)
}

// Values that ClickHouse alone can judge are streamed before it has: as they were
// sent, whatever it makes of them, and whatever int64 asks for.
func TestValuesThatStreamAsTheyWereSent(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, "CREATE TABLE t (id UInt64, j JSON, d Dynamic, v Variant(UInt64, String)) ENGINE = MergeTree ORDER BY id")
	stream, err := s.tryListen("table=t&int64=string", "")
	require.NoError(t, err)
	l := &live{stream, t}
	s.accept("t", `{"id":1,"j":{"b":9007199254740993,"a.c":1.50,"n":null,"e":{}},"d":9007199254740993,"v":18446744073709551615}`)
	streamed, frame := l.row()
	assert.Equal(t, `{"id":"1","j":{"b":9007199254740993,"a.c":1.50,"n":null,"e":{}},"d":9007199254740993,"v":"18446744073709551615"}`, string(streamed))
	assert.Contains(t, frame.Data, `"as_sent":["j","d"],"row":`)
	s.stored("t", 1)
	assert.Equal(t, `{"id":"1","j":{"a":{"c":1.5},"b":"9007199254740993"},"d":"9007199254740993","v":"18446744073709551615"}`,
		string(s.rows("t", `{"select_all":true,"int64":"string"}`)[0]))
}

// sameThroughFeedback ingests what the query answered and expects no change:
// the product reads its own output.
func (s *server) sameThroughFeedback(cells []string) {
	s.t.Helper()
	first := s.rows("t", `{"select_all":true}`)[0]
	// A NaN is shown as null, which a Float64 does not take back.
	skipped := 0
	var fields []string
	for name, value := range columnsOf(s.t, first) {
		if name == "id" {
			value = `"two"`
		} else if value == "null" {
			skipped++
			value = cells[1+indexOf(s.t, name)][len(name)+3:]
		}
		fields = append(fields, quoted(name)+":"+value)
	}
	require.Less(s.t, skipped, 6)
	s.accept("t", "{"+strings.Join(fields, ",")+"}")
	s.stored("t", 2)
	rows := s.rows("t", `{"select_all":true,"order_by":[{"column":"id","dir":"asc"}]}`)
	want := strings.Replace(string(rows[0]), `"id":"one"`, `"id":"two"`, 1)
	assert.Equal(s.t, want, string(rows[1]))
}

func indexOf(t testing.TB, column string) int {
	t.Helper()
	var i int
	_, err := fmt.Sscanf(column, "c%d", &i)
	require.NoError(t, err)
	return i
}
