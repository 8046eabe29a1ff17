package record_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wavehouse/wavehouse/internal/record"
)

// value is one value as it stands in a body.
type value struct {
	text string
	// origin is the JSON value that it says the same as, or text itself.
	origin string
}

// format is a format of bodies with two columns, n and v.
type format struct {
	name  string
	input record.InputFormat
	// theirs is its name in ClickHouse.
	theirs string
	line   func(n int, text string) []byte
	values func(typeText string, corpus []string) []value
}

var formats = []format{
	{"JSON", record.NDJSON, "JSONEachRow", jsonLine, jsonValues},
	{"CSV", record.CSVWithoutHeader, "CSV", func(n int, text string) []byte { return fmt.Appendf(nil, "%d,%s\n", n, text) }, csvValues},
	{"TSV", record.TSVWithoutHeader, "TSV", func(n int, text string) []byte { return fmt.Appendf(nil, "%d\t%s\n", n, text) }, tsvValues},
}

func jsonLine(n int, text string) []byte { return fmt.Appendf(nil, `{"n":%d,"v":%s}`+"\n", n, text) }

func jsonValues(_ string, corpus []string) []value {
	var all []value
	for _, v := range corpus {
		all = append(all, value{v, v})
	}
	return all
}

// textOfJSON is what a person writes into a field for a JSON value.
func textOfJSON(v string) string {
	var text string
	if json.Unmarshal([]byte(v), &text) == nil && v != "null" {
		return text
	}
	return v
}

// csvValues writes every value with quotes and, where that is possible,
// without.
func csvValues(typeText string, corpus []string) []value {
	var all []value
	for _, v := range corpus {
		text := textOfJSON(v)
		if text != "" && !strings.ContainsAny(text, ",\"\r\n\x00") && strings.TrimSpace(text) == text {
			all = append(all, value{text, v})
		}
		all = append(all, value{`"` + strings.ReplaceAll(text, `"`, `""`) + `"`, v})
	}
	for _, text := range notations(typeText) {
		all = append(all, value{`"` + strings.ReplaceAll(text, `"`, `""`) + `"`, text})
	}
	for _, text := range []string{"", `\N`, " ", ` "1" `, "1 ", " 1", "NULL", `1"2`, `"\N"`} {
		all = append(all, value{text, text})
	}
	return all
}

func tsvValues(typeText string, corpus []string) []value {
	escape := strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)
	var all []value
	for _, v := range corpus {
		all = append(all, value{escape.Replace(textOfJSON(v)), v})
	}
	for _, text := range notations(typeText) {
		all = append(all, value{escape.Replace(text), text})
	}
	for _, text := range []string{`\N`, "NULL", `\x31`, `a\%b`, `\0\a\b\e\f\v\'\"\/`, " 1", "1 "} {
		all = append(all, value{text, text})
	}
	return all
}

// notations are values in ClickHouse's notation, by the beginning of a type.
func notations(typeText string) []string {
	for _, n := range []struct {
		prefix string
		values []string
	}{
		{"Array(UInt8)", []string{"[1,2]", "[ 1 , 2 ]", "[NULL]", "['1']", "[1", "[1,]", "(1,2)", "1,2", "[1]x"}},
		{"Array(Nullable(String))", []string{"['a',NULL]", `['it\'s','a''b']`, `['\\x41\\t']`, "['a',null]", "[a]", "[ 'a' , 'b' ]", "['a"}},
		{"Array(Array(Float64))", []string{"[[1.5,nan],[],[-inf]]", "[['1.5']]"}},
		{"Array(LowCardinality(String))", []string{"['a','b']"}},
		{"Array(Time)", []string{"['12:34:56']"}},
		{"Map(String, UInt8)", []string{"{'a':1}", "{ 'a' : 1 }", "{}", "{'a':1,'a':2}", "{a:1}", "{'a':300}", "{'a'}"}},
		{"Map(Int32, Array(String))", []string{"{1:['x'],-5:[]}", "{1:'x'}"}},
		{"Map(Float64, Nullable(UInt64))", []string{"{1.5:NULL}"}},
		{"Map(UUID, Decimal(9, 2))", []string{"{'61f0c404-5cb3-11e7-907b-a6006ad3dba0':1.5}"}},
		{"Map(Enum8", []string{"{'a':1}"}},
		{"Map(Date, Map(String, Int8))", []string{"{'2026-01-01':{'x':1}}"}},
		{"Map(DateTime('UTC'), Bool)", []string{"{'2026-03-04T05:06:07Z':true}"}},
		{"Tuple(UInt8, String)", []string{"(1,'x')", "(1, 'x')", "(1)", "(1,'x',)", "(1,x)", "(300,'x')"}},
		{"Tuple(a UInt8", []string{"(1,'x',[5])", "(1,NULL,[])"}},
		{"Nested(", []string{"[(1,['x']),(2,[])]"}},
		{"Point", []string{"(1.5,2)", "(1.5)"}},
		{"Polygon", []string{"[[(0,0),(1,0),(1,1)]]"}},
		{"Ring", []string{"[(0,0),(1,0.5)]"}},
		{"SimpleAggregateFunction(groupArrayArray", []string{"[1]", "[1,2]"}},
	} {
		if strings.HasPrefix(typeText, n.prefix) {
			return n.values
		}
	}
	return nil
}
