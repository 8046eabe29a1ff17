package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

// texts hold what each format has to quote.
var texts = []string{"''", "'a'", "' lead and trail '", "'é😀 𐍈'", `'"'`, `'\''`, `'\\'`, `'\\N'`, "'NULL'", "'null'", "','", "';'", `'\t'`, `'\n'`, `'\r\n'`, `'a"b,c\nd'`, `'"quoted"'`, `'\0'`, "'[1]'", `'{"a":1}'`, `'\b\f\x1b\x7f'`, "'=1+1'", "'#'", "'1'", "'true'", `'\\\\n'`}

// wayRound is a column and values of it, as ClickHouse writes them in a statement.
type wayRound struct {
	typ    string
	values []string
}

// goesRound come back as they went.
var goesRound = []wayRound{
	{"Int8", []string{"-128", "0", "127"}},
	{"UInt8", []string{"0", "255"}},
	{"Int16", []string{"-32768", "32767"}},
	{"UInt16", []string{"65535"}},
	{"Int32", []string{"-2147483648", "2147483647"}},
	{"UInt32", []string{"4294967295"}},
	{"Int64", []string{"-9223372036854775808", "9223372036854775807", "9007199254740993"}},
	{"UInt64", []string{"18446744073709551615", "0"}},
	{"Int128", []string{"'-170141183460469231731687303715884105728'", "'170141183460469231731687303715884105727'"}},
	{"UInt128", []string{"'340282366920938463463374607431768211455'"}},
	{"Int256", []string{"'-57896044618658097711785492504343953926634992332820282019728792003956564819968'", "'57896044618658097711785492504343953926634992332820282019728792003956564819967'"}},
	{"UInt256", []string{"'115792089237316195423570985008687907853269984665640564039457584007913129639935'"}},
	{"Float32", []string{"0", "-0.", "1.1", "3.4028235e38", "-1.1754944e-38", "1e-45", "16777217"}},
	{"Float64", []string{"0", "-0.", "0.1", "1.7976931348623157e308", "5e-324", "123456789012345678", "1e21", "1e-7"}},
	{"BFloat16", []string{"0", "1.5", "-3.0e38", "0.1"}},
	{"Decimal(9, 2)", []string{"'0'", "'-9999999.99'", "'1.5'"}},
	{"Decimal(18, 4)", []string{"'99999999999999.9999'"}},
	{"Decimal(38, 18)", []string{"'-0.000000000000000001'", "'99999999999999999999.999999999999999999'"}},
	{"Decimal(76, 30)", []string{"'1234567890123456789012345678901234567890123456.123456789012345678901234567890'", "'-1e-30'"}},
	{"Decimal(5, 5)", []string{"'0.99999'", "'-0.00001'"}},
	{"String", texts},
	{"LowCardinality(String)", texts},
	{"FixedString(4)", []string{"''", "'a'", "'abcd'", "'é'", `'\0b'`, `'"\t\n,'`}},
	{"Nullable(String)", append(texts, "NULL")},
	{"LowCardinality(Nullable(String))", append(texts, "NULL")},
	{"Bool", []string{"true", "false"}},
	{"UUID", []string{"'61f0c404-5cb3-11e7-907b-a6006ad3dba0'", "'00000000-0000-0000-0000-000000000000'"}},
	{"IPv4", []string{"'0.0.0.0'", "'255.255.255.255'", "'1.2.3.4'"}},
	{"IPv6", []string{"'::'", "'::1'", "'::ffff:1.2.3.4'", "'2001:db8::1:0:0:1'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'"}},
	{`Enum8('' = 0, 'a b' = -5, '"q"' = 1, 'it\'s, \\\n\t' = 7, '5' = 6)`, []string{"''", "'a b'", `'"q"'`, `'it\'s, \\\n\t'`, "'5'"}},
	{"Enum16('x' = 300, 'y' = -300)", []string{"'x'", "'y'"}},
	{"Date", []string{"'1970-01-01'", "'2149-06-06'"}},
	{"Date32", []string{"'1900-01-01'", "'1969-12-31'", "'2299-12-31'"}},
	{"DateTime", []string{"'1970-01-01 00:00:00'", "'2106-02-07 06:28:15'"}},
	{"DateTime('America/New_York')", []string{"'2026-11-01 05:30:00'", "toDateTime('2026-11-01 06:30:00', 'UTC')", "toDateTime('2026-11-01 05:30:00', 'UTC')"}},
	{"DateTime64(0, 'UTC')", []string{"'1900-01-01 00:00:00'", "'2299-12-31 23:59:59'"}},
	{"DateTime64(3)", []string{"'1969-12-31 23:59:59.999'", "'1900-01-01 00:00:00'", "'2299-12-31 23:59:59.999'", "'2026-03-04 05:06:07.080'"}},
	{"DateTime64(6, 'Europe/Berlin')", []string{"'1950-06-01 00:00:00.000001'", "'2026-10-25 00:30:00.5'"}},
	{"DateTime64(9, 'UTC')", []string{"'2262-04-11 23:47:16.854775807'", "'1900-01-01 00:00:00.000000001'", "'1970-01-01 00:00:00'"}},
	{"Time", []string{"'-999:59:59'", "'999:59:59'", "'00:00:00'", "'12:34:56'"}},
	{"Time64(3)", []string{"'-00:00:00.500'", "'999:59:59.999'"}},
	{"Time64(9)", []string{"'-999:59:59.999999999'", "'12:34:56.000000001'"}},
	{"IntervalDay", []string{"3", "-3"}},
	{"IntervalNanosecond", []string{"9223372036854775807"}},
	{"Array(UInt8)", []string{"[]", "[1, 255]"}},
	{"Array(String)", []string{"[]", "['']", "[" + strings.Join(texts, ", ") + "]"}},
	{"Array(Nullable(String))", []string{"[NULL]", "['NULL', NULL, '']"}},
	{"Array(Array(Float64))", []string{"[[1.5], [], [-0., 1e21]]"}},
	{"Array(LowCardinality(String))", []string{`['a', 'a', 'b\'']`}},
	{"Array(DateTime('UTC'))", []string{"['2026-03-04 05:06:07']"}},
	{"Array(DateTime64(3, 'UTC'))", []string{"['1969-12-31 23:59:59.999']"}},
	{"Array(Date32)", []string{"['1900-01-01']"}},
	{"Array(UUID)", []string{"['61f0c404-5cb3-11e7-907b-a6006ad3dba0']"}},
	{"Array(Bool)", []string{"[true, false]"}},
	{"Array(Time64(3))", []string{"['-00:00:00.500']"}},
	{"Array(Decimal(38, 18))", []string{"['99999999999999999999.999999999999999999']"}},
	{"Array(Int256)", []string{"['-57896044618658097711785492504343953926634992332820282019728792003956564819968']"}},
	{"Array(Enum8('a' = 1, 'b\\'' = 2))", []string{`['b\'', 'a']`}},
	{"Array(IPv6)", []string{"['::1']"}},
	{"Array(FixedString(2))", []string{`['a', '\0\0']`}},
	{"Map(String, UInt8)", []string{"map()", `map('', 0, 'a"\n\'', 1)`}},
	{"Map(Int32, Array(String))", []string{"map(-5, [], 1, ['x,y', ''])"}},
	{"Map(Float64, Nullable(UInt64))", []string{"map(1.5, NULL, 1e300, 18446744073709551615)"}},
	{"Map(DateTime('UTC'), Bool)", []string{"map('2026-03-04 05:06:07', true)"}},
	{"Map(UUID, Decimal(9, 2))", []string{"map('61f0c404-5cb3-11e7-907b-a6006ad3dba0', '1.5')"}},
	{"Map(Date, Map(String, Int8))", []string{"map('2026-01-01', map('x', 1))"}},
	{"Map(IPv4, IPv6)", []string{"map('1.2.3.4', '::1')"}},
	{"Map(LowCardinality(String), DateTime64(3, 'UTC'))", []string{"map('a', '2026-03-04 05:06:07.089')"}},
	{"Map(Enum8('a' = 1), Int8)", []string{"map('a', 1)"}},
	{"Map(FixedString(2), Int64)", []string{"map('a', 9007199254740993)"}},
	{"Map(Decimal(9, 2), Int128)", []string{"map('1.5', -5)"}},
	{"Tuple(UInt8, String)", []string{`(1, 'a"\n')`, "(0, '')"}},
	{"Tuple(a UInt8, `b c` Nullable(String), d Array(Int64), e Tuple(f String, g Date))", []string{"(1, NULL, [], ('', '2026-01-01'))", `(2, 'x,y', [9007199254740993], ('"', '1970-01-01'))`}},
	{"Array(Tuple(k UInt8, v String))", []string{"[]", "[(1, 'x,y'), (2, '')]"}},
	{"Array(Tuple(UInt8, Array(DateTime('UTC'))))", []string{"[(1, ['2026-03-04 05:06:07'])]"}},
	{"Map(String, Tuple(x Int8, y Map(String, String)))", []string{`map('k', (1, map('a', '"')))`}},
	{"Nested(a UInt8, b Array(String))", []string{"[(1, ['x']), (2, [])]", "[]"}},
	{"Point", []string{"(1.5, -2)"}},
	{"Ring", []string{"[(0, 0), (1, 0.5)]", "[]"}},
	{"LineString", []string{"[(0, 0), (1, 0.5)]"}},
	{"MultiLineString", []string{"[[(0, 0), (1, 0.5)], []]"}},
	{"Polygon", []string{"[[(0, 0), (1, 0), (1, 1)]]"}},
	{"MultiPolygon", []string{"[[[(0, 0), (1, 0), (1, 1)]]]"}},
	{"Nullable(Int64)", []string{"NULL", "5"}},
	{"Nullable(Float64)", []string{"NULL", "0.5"}},
	{"Nullable(Decimal(9, 2))", []string{"NULL", "'1.5'"}},
	{"Nullable(DateTime64(3, 'UTC'))", []string{"NULL", "'2026-03-04 05:06:07.089'"}},
	{"Nullable(Date)", []string{"NULL", "'2026-01-01'"}},
	{"Nullable(UUID)", []string{"NULL", "'61f0c404-5cb3-11e7-907b-a6006ad3dba0'"}},
	{"Nullable(Bool)", []string{"NULL", "true"}},
	{"Nullable(Enum8('a' = 1))", []string{"NULL", "'a'"}},
	{"Nullable(IPv6)", []string{"NULL", "'::1'"}},
	{"Nullable(FixedString(2))", []string{"NULL", "''", "'ab'"}},
	{"Nullable(Time64(3))", []string{"NULL", "'01:02:03.5'"}},
	{"LowCardinality(DateTime('UTC'))", []string{"'2026-03-04 05:06:07'"}},
	{"LowCardinality(FixedString(2))", []string{"'ab'"}},
	{"SimpleAggregateFunction(sum, UInt64)", []string{"5"}},
	{"SimpleAggregateFunction(anyLast, Nullable(String))", []string{"'a'", "NULL", "''"}},
	{"SimpleAggregateFunction(groupArrayArray, Array(UInt8))", []string{"[1]", "[]"}},
	{"JSON", []string{"'{}'", `'{"a":1,"b":{"c":"x\\"y"},"d":[1,2]}'`, `'{"n":18446744073709551615,"t":"March 4"}'`}},
	{"Variant(String, UInt64, Array(UInt8))", []string{"'text'::String", "5::UInt64", "[1]::Array(UInt8)", "NULL"}},
	{"Dynamic", []string{"'text'::String", "5::Int64", "true", "[1, 2]::Array(Int64)", "NULL"}},
}

// What a query answers in a format of text can be posted back, and gives the same
// rows, to the byte as ClickHouse holds them.
func TestAnswersArePostedBack(t *testing.T) {
	t.Parallel()
	delimited := map[string]string{"csv": "text/csv", "tsv": "text/tab-separated-values"}
	all := map[string]string{"json": "application/json", "ndjson": ndjson, "csv": "text/csv", "tsv": "text/tab-separated-values"}
	for name, c := range map[string]struct {
		columns []wayRound
		formats map[string]string
		// names are those of the columns, c0 and so on where there are none.
		names []string
	}{
		"every type":      {columns: goesRound, formats: all},
		"no finite float": {columns: []wayRound{{"Float64", []string{"nan", "inf", "-inf"}}, {"Array(Float32)", []string{"[nan, inf, -inf]"}}, {"BFloat16", []string{"nan", "-inf"}}}, formats: delimited},
		"NULL beside a default": {columns: []wayRound{
			{"Nullable(UInt8) DEFAULT 7", []string{"NULL", "5"}}, {"Nullable(String) DEFAULT 'x'", []string{"NULL", "''"}}, {"String DEFAULT 'x'", []string{"''"}}, {"UInt8 DEFAULT 7", []string{"0"}},
		}, formats: all},
		"names": {
			columns: []wayRound{{"UInt8", []string{"1"}}, {"UInt8", []string{"2"}}, {"Tuple(`x y` UInt8, `t.u` String)", []string{"(3, 'x')"}}, {"Array(UInt8)", []string{"[4]"}}, {"Array(String)", []string{"['x']"}}},
			names:   []string{`a "quoted", name`, "tab\tand\nline", `back\slash`, "nest.a", "nest.b"}, formats: all,
		},
		"digits as text and as number": {columns: []wayRound{
			{"Variant(String, UInt64)", []string{"'7'::String", "7::UInt64", "''::String", "NULL"}},
			{"Array(Variant(String, UInt64))", []string{"['7'::String::Variant(String, UInt64), 7::UInt64::Variant(String, UInt64), NULL]"}},
		}, formats: map[string]string{"json": "application/json", "ndjson": ndjson}},
		"one column of texts": {columns: []wayRound{{"String", texts}}, formats: all},
	} {
		t.Run(name, func(t *testing.T) { goRound(t, c.columns, c.names, c.formats) })
	}
}

func goRound(t *testing.T, columns []wayRound, names []string, formats map[string]string) {
	t.Helper()
	var structure []string
	rows := 0
	for i, c := range columns {
		if len(names) <= i {
			names = append(names, fmt.Sprintf("c%d", i))
		}
		structure = append(structure, clickhouse.QuoteIdent(names[i])+" "+c.typ)
		rows = max(rows, len(c.values))
	}
	create := func(table string) string {
		return "CREATE TABLE " + table + " (" + strings.Join(structure, ", ") + ") ENGINE = MergeTree ORDER BY tuple()" +
			" SETTINGS allow_suspicious_low_cardinality_types = 1, flatten_nested = 0"
	}
	tables := []string{create("source")}
	for name := range formats {
		tables = append(tables, create("from_"+name))
	}
	s := start(t, options{}, tables...)
	for row := range rows {
		values := make([]string, len(columns))
		for i, c := range columns {
			typ, _, _ := strings.Cut(c.typ, " DEFAULT")
			values[i] = fmt.Sprintf("CAST(%s AS %s)", c.values[row%len(c.values)], typ)
		}
		s.ch.Exec(t, "INSERT INTO source SELECT "+strings.Join(values, ", ")+" SETTINGS allow_suspicious_low_cardinality_types = 1")
	}
	var all sync.WaitGroup
	for name, media := range formats {
		all.Go(func() {
			a := s.query("source", `{"select_all":true}`, "Accept", media)
			if !assert.Equal(t, http.StatusOK, a.status, a.body) {
				return
			}
			back := s.do(http.MethodPost, "/v1/ingest?wait=inserted&timeout=30s&table=from_"+name, a.body, "Content-Type", media)
			assert.Equal(t, http.StatusOK, back.status, "%s: %s", name, back.body)
			if !assert.Equal(t, rows, decode[batch](t, back).Succeeded, "%s: %s", name, back.body) {
				return
			}
			for i, c := range columns {
				held := func(table string) [][]string {
					return s.ch.Rows(t, fmt.Sprintf("SELECT hex(formatRow('RowBinary', %s)) AS v FROM %s ORDER BY v", clickhouse.QuoteIdent(names[i]), table))
				}
				assert.Equal(t, held("source"), held("from_"+name), "%s: %s", name, c.typ)
			}
		})
	}
	all.Wait()
}
