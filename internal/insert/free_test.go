package insert_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// freely are values of columns whose types ClickHouse finds by itself. Stored is
// what it shows of them: "" is the value as it was sent, refused what the door
// says no to.
const refused = "refused"

var freely = []struct{ column, typeText, value, stored string }{
	{"j", "JSON", `{"a":"2026-02-30","b":"2026-2-3","c":"2026-11-29 25:00:00","d":"2026-11-29T10:00:00.5+02:00","e":["2026-01-01","2026-01-01 00:00:00"]}`, ""},
	{"j", "JSON", `{"a":[true,1],"b":["true",true],"c":[[true],[2]],"d":["1",1],"e":[1,null,true,1.5]}`, ""},
	{"j", "JSON", `{"a":18446744073709551615,"b":-9223372036854775808,"c":[18446744073709551615,-1],"d":[9007199254740993,-1],"e":[9007199254740992,0.5],"f":1e300}`, ""},
	{"j", "JSON", `{"a.b":1,"a":{"c":2}}`, `{"a":{"b":1,"c":2}}`},
	{"j", "JSON", "{\"a\" : [ 1,\n2 ],\t\"b\":{ }}", `{"a":[1,2]}`},
	{"j", "JSON", `{"a":[{"x":1},{"x":"2026-02-30","y":[{"x":1}]}]}`, ""},
	{"j", "JSON", `{"a":1,"a":2}`, refused},
	{"j", "JSON", `{"a":1,"a.b":2}`, refused},
	{"j", "JSON", `{"a.b":2,"a":1}`, refused},
	{"j", "JSON", `{"a":{"b":1},"a.b":2}`, refused},
	{"j", "JSON", `{"a":{"b":{"c":1}},"a.b":null}`, refused},
	{"j", "JSON", `{"\u0061":1,"a":2}`, refused},
	{"j", "JSON", `{"a":[{"x":1,"x":2}]}`, refused},
	{"j", "JSON", `{"k1":1,"k2":1,"k3":1,"k4":1,"k5":1,"k6":1,"k7":1,"k8":1,"k9":1,"ka":1,"kb":1,"kc":1,"kd":1,"ke":1,"kf":1,"kg":1,"kh":1,"ki":{"x":1},"ki.x":2}`, refused},
	{"j", "JSON", `{"a":1e400}`, refused},
	{"j", "JSON", `{"a":{"b":[18446744073709551616]}}`, refused},
	{"j", "JSON", `{"a":-9223372036854775809}`, refused},
	{"j", "JSON", `{"a":[9007199254740993,0.5]}`, refused},
	{"j", "JSON", `{"a":[[0.5],[9007199254740993]]}`, refused},

	{"t", typed, `{"a":7,"b":{"c":"x","z":1},"at":"2026-03-04T05:06:07.089Z","d":"2026-03-04","l":[1,2],"free":[1]}`, `{"a":7,"at":"2026-03-04T05:06:07.089Z","b":{"c":"x","z":1},"d":"2026-03-04","f":0,"free":[1],"l":[1,2],"n":null}`},
	{"t", typed, `{"a":"7","b.c":5,"at":1772600767000,"n":3}`, `{"a":7,"at":"2026-03-04T05:06:07.000Z","b":{"c":"5"},"d":"1970-01-01","f":0,"l":[],"n":3}`},
	{"t", typed, `{"f":"-inf"}`, `{"a":0,"at":"1970-01-01T00:00:00.000Z","b":{"c":""},"d":"1970-01-01","f":null,"l":[],"n":null}`},
	{"t", typed, `{"a":300}`, refused},
	{"t", typed, `{"a":1.5}`, refused},
	{"t", typed, `{"a":true}`, refused},
	{"t", typed, `{"a":null}`, refused},
	{"t", typed, `{"a":1,"a.x":1}`, refused},
	{"t", typed, `{"a.x":1}`, refused},
	{"t", typed, `{"b":5}`, refused},
	{"t", typed, `{"b":{"c":{"d":1}}}`, refused},
	{"t", typed, `{"d":"2026-02-30"}`, refused},
	{"t", typed, `{"at":"2026-03-04T05:06:07.0891Z"}`, refused},
	{"t", typed, `{"f":1e300}`, refused},
	{"t", typed, `{"l":[256]}`, refused},

	{"d", "Dynamic", `"2026-02-30"`, ""},
	{"d", "Dynamic", `"NULL"`, ""},
	{"d", "Dynamic", `18446744073709551615`, ""},
	{"d", "Dynamic", `[true,1]`, ""},
	{"d", "Dynamic", `{"a":1,"b":{"c":"x"}}`, ""},
	{"d", "Dynamic", `18446744073709551616`, refused},
	{"d", "Dynamic", `1e400`, refused},
	{"d", "Dynamic", `[0.5,9007199254740993]`, refused},
	{"d", "Dynamic", `{"a":1,"a":2}`, refused},

	{"v", "Variant(UInt64, String, Date, Bool)", `7`, ""},
	{"v", "Variant(UInt64, String, Date, Bool)", `"x"`, ""},
	{"v", "Variant(UInt64, String, Date, Bool)", `true`, ""},
	{"v", "Variant(UInt64, String, Date, Bool)", `"2026-03-04"`, ""},
	{"v", "Variant(UInt64, String, Date, Bool)", `"2026-02-30"`, ""},
	{"v", "Variant(UInt64, String, Date, Bool)", `""`, ""},
	{"v", "Variant(UInt64, String, Date, Bool)", `"7"`, ""},
	{"v", "Variant(UInt64, String, Date, Bool)", `"true"`, ""},
	{"v", "Variant(UInt64, String, Date, Bool)", `-1`, refused},
	{"v", "Variant(UInt64, String, Date, Bool)", `[1]`, refused},
	{"w", "Variant(Float64, Array(DateTime('UTC')))", `300`, ""},
	{"w", "Variant(Float64, Array(DateTime('UTC')))", `1.5`, ""},
	{"w", "Variant(Float64, Array(DateTime('UTC')))", `[1772600767000]`, `["2026-03-04T05:06:07Z"]`},
	{"w", "Variant(Float64, Array(DateTime('UTC')))", `true`, refused},
	{"w", "Variant(Float64, Array(DateTime('UTC')))", `"x"`, refused},
	{"s", "Variant(UInt64, String)", `"12 apples"`, ""},
	{"s", "Variant(UInt64, String)", `"18446744073709551616"`, ""},
	{"s", "Variant(UInt64, String)", `"7"`, ""},
	{"s", "Variant(UInt64, String)", `7`, ""},
	{"s", "Variant(UInt64, String)", `true`, refused},
	{"s", "Variant(UInt64, String)", `1.5`, refused},
	{"n", "Variant(Bool, Decimal(9, 2))", `0.1`, ""},
	{"n", "Variant(Bool, Decimal(9, 2))", `false`, ""},
	{"n", "Variant(Bool, Decimal(9, 2))", `"7"`, `7`},
	{"u", "Variant(UUID, DateTime64(3, 'UTC'), String)", `"61f0c404-5cb3-11e7-907b-a6006ad3dba0"`, ""},
	{"u", "Variant(UUID, DateTime64(3, 'UTC'), String)", `"2026-03-04T07:06:07.089+02:00"`, `"2026-03-04T05:06:07.089Z"`},
	{"u", "Variant(UUID, DateTime64(3, 'UTC'), String)", `"2026-03-04 25:00:00"`, ""},
	{"u", "Variant(UUID, DateTime64(3, 'UTC'), String)", `"12"`, ""},
	{"l", "Variant(Array(UInt64), Array(String), Map(String, UInt8), Tuple(a UInt8, b String))", `["7","8"]`, ""},
	{"l", "Variant(Array(UInt64), Array(String), Map(String, UInt8), Tuple(a UInt8, b String))", `[7,8]`, ""},
	{"l", "Variant(Array(UInt64), Array(String), Map(String, UInt8), Tuple(a UInt8, b String))", `{"a":1,"b":"7"}`, ""},
	{"l", "Variant(Array(UInt64), Array(String), Map(String, UInt8), Tuple(a UInt8, b String))", `{"a":1,"b":7}`, ""},
	{"l", "Variant(Array(UInt64), Array(String), Map(String, UInt8), Tuple(a UInt8, b String))", `[7,"8"]`, `{"a":7,"b":"8"}`},
	{"o", "Array(Variant(UInt64, String))", `["7",7,null,"x"]`, ""},
	{"k", "Map(String, Variant(UInt64, String))", `{"a":"7","b":7}`, ""},
	{"x", "Variant(JSON, UInt64, String)", `"7"`, refused},
	{"x", "Variant(JSON, UInt64, String)", `"x"`, ""},
	{"x", "Variant(JSON, UInt64, String)", `7`, ""},
	{"x", "Variant(JSON, UInt64, String)", `{"a":"7"}`, `"{\"a\":\"7\"}"`},

	{"a", "Array(JSON)", `[{"a":"2026-02-30"},{}]`, ""},
	{"a", "Array(JSON)", `[{"a":1},{"a":1,"a":2}]`, refused},
	{"a", "Array(JSON)", `[5]`, refused},
	{"m", "Map(String, Dynamic)", `{"x":1,"y":"2026-02-30"}`, ""},
	{"m", "Map(String, Dynamic)", `{"x":null,"y":[null,1]}`, ""},
	{"m", "Map(String, Dynamic)", `{"x":1,"x":2}`, refused},
	{"p", "Tuple(x Dynamic, y UInt8)", `{"y":255,"x":[1]}`, `{"x":[1],"y":255}`},
	{"p", "Tuple(x Dynamic, y UInt8)", `{"x":1,"y":256}`, refused},
	{"p", "Tuple(x Dynamic, y UInt8)", `{"x":null,"y":1}`, ""},
	{"p", "Tuple(x Dynamic, y UInt8)", `{"x":1,"y":null}`, refused},
	{"q", "Nullable(JSON)", `{"a":"2026-02-30"}`, ""},
	{"q", "Nullable(JSON)", `{"a":1e400}`, refused},
	{"r", "Dynamic DEFAULT 5", `null`, refused},
}

const typed = "JSON(a UInt8, b.c String, at DateTime64(3, 'UTC'), d Date, f Float32, n Nullable(UInt8), l Array(UInt8))"

// Beside a type that only ClickHouse knows, a row is a line of text, in which
// ClickHouse finds the types of a Variant.
func TestRealValuesOfAVariantBesideAFreeType(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, "CREATE TABLE beside (id UInt64, j JSON, v Variant(UInt64, String, Array(String))) ENGINE = MergeTree ORDER BY id")
	columns := []record.Column{{Name: "id", Type: "UInt64"}, {Name: "j", Type: "JSON"}, {Name: "v", Type: "Variant(Array(String), String, UInt64)"}}
	table := &schema.Table{Name: "beside", Columns: columns, Record: record.Compile("beside", columns, time.UTC)}
	r := newRig(t).open()
	result, err := r.gate.Ingest(t.Context(), ingesttest.Request(table, record.NDJSON, `{"id":1,"j":{},"v":7}
{"id":2,"j":{},"v":"x7"}
{"id":3,"j":{},"v":["7"]}
{"id":4,"j":{},"v":null}
{"id":5,"j":{},"v":"7"}
{"id":6,"j":{},"v":""}`))
	require.NoError(t, err)
	require.Equal(t, []int{4, 2}, []int{result.Succeeded, result.Failed}, "%+v", result.Results)
	assert.Equal(t, record.CodeTypeMismatch, result.Results[0].Code)
	assert.Contains(t, result.Results[0].Message, `column "v"`)
	r.start(c.use)
	r.settled(birch)
	assert.Empty(t, r.letters(birch, "beside"))
	assert.Equal(t, [][]string{{"7", "UInt64"}, {"x7", "String"}, {"['7']", "Array(String)"}, {"", "None"}},
		c.Rows(t, "SELECT toString(v), variantType(v) FROM beside ORDER BY id"))
}

// What the server takes for a type of ClickHouse's own finding is stored as it was
// sent; what would be refused there, or become something else, is refused first.
func TestRealValuesOfFreeTypesAreStoredAsSentOrRefused(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	columns := []record.Column{{Name: "id", Position: 1}}
	create := "CREATE TABLE free (id UInt64"
	for _, v := range freely {
		if last := columns[len(columns)-1]; last.Name == v.column {
			continue
		}
		create += fmt.Sprintf(", %s %s", v.column, v.typeText)
		columns = append(columns, record.Column{Name: v.column, Position: len(columns) + 1, DefaultKind: record.DefaultExpression})
	}
	c.Exec(t, create+") ENGINE = MergeTree ORDER BY id")
	for i := range columns {
		columns[i].Type = c.Value(t, "SELECT type FROM system.columns WHERE database = currentDatabase() AND table = 'free' AND name = '"+columns[i].Name+"'")
	}
	table := &schema.Table{Name: "free", Columns: columns, Record: record.Compile("free", columns, time.UTC)}
	r := newRig(t).open()
	for i, v := range freely {
		result, err := r.gate.Ingest(t.Context(), ingesttest.Request(table, record.JSON, fmt.Sprintf(`{"id":%d,%q:%s}`, i, v.column, v.value)))
		require.NoError(t, err)
		assert.Equal(t, v.stored != refused, result.Succeeded == 1, "%s %s: %+v", v.typeText, v.value, result.Results)
	}
	r.start(c.use)
	r.settled(birch)
	assert.Empty(t, r.letters(birch, "free"))
	for i, v := range freely {
		if v.stored == refused {
			continue
		}
		want := v.stored
		if want == "" {
			want = v.value
		}
		assert.Equal(t, want, c.Value(t, "SELECT toJSONString("+v.column+") FROM free WHERE id = "+strconv.Itoa(i)+
			" SETTINGS output_format_json_quote_64bit_integers = 0, date_time_output_format = 'iso'"), "%s %s", v.typeText, v.value)
	}
}
