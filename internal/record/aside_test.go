package record

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func rest() *Table {
	return Compile("rest", columns("id String", "secret String DEFAULT ''", "more Map(String, String) DEFAULT map()", "doc JSON DEFAULT '{}'", "n UInt8 DEFAULT 0"), time.UTC)
}

// unknowns lists what a record has beside columns.
func unknowns(d *Decoder) string {
	var all []string
	for _, u := range d.Unknown() {
		all = append(all, string(u.Name)+"="+string(u.Value))
	}
	return strings.Join(all, " ")
}

func TestUnknownFields(t *testing.T) {
	drop, collect := DecodeOptions{UnknownFields: DropUnknown}, DecodeOptions{UnknownFields: CollectUnknown, CollectInto: "more"}
	document := DecodeOptions{UnknownFields: CollectUnknown, CollectInto: "doc"}
	nowhere, computed := DecodeOptions{UnknownFields: CollectUnknown, CollectInto: "n"}, DecodeOptions{UnknownFields: CollectUnknown}
	bare := DecodeOptions{UnknownFields: CollectUnknown, CollectInto: "bare"}
	denied := collect
	denied.Allow = func(column int) bool { return column != 2 }
	kept := drop
	kept.Allow = func(column int) bool { return column != 1 }
	const body = `{"id":"a","x":1,"y":"t","z":{"k":[null]},"n":2}`
	for _, c := range []struct {
		name, body, want, code string
		options                DecodeOptions
	}{
		{"refused", body, "", CodeUnknownColumn, DecodeOptions{}},
		{"dropped", body, `{"id":"a","n":2}`, "", drop},
		{"dropped twice", `{"id":"a","x":1,"x":2}`, `{"id":"a"}`, "", drop},
		{"collected in a Map", body, `{"id":"a","more":{"x":"1","y":"t","z":"{\"k\":[null]}"},"n":2}`, "", collect},
		{"collected in a JSON", body, `{"id":"a","doc":{"x":1,"y":"t","z":{"k":[null]}},"n":2}`, "", document},
		{"collected with a name that needs escapes", `{"id":"a","q\"\n":null}`, `{"id":"a","more":{"q\"\n":"null"}}`, "", collect},
		{"nothing to collect", `{"id":"a","more":{"k":"v"}}`, `{"id":"a","more":{"k":"v"}}`, "", collect},
		{"nothing, in a column without a default", `{"id":"a"}`, `{"id":"a","bare":{}}`, "", bare},
		{"collected twice", `{"id":"a","x":1,"x":2}`, "", CodeDuplicateColumn, collect},
		{"collected where a value is sent", `{"id":"a","x":1,"more":{}}`, "", CodeDuplicateColumn, collect},
		{"collected where it may not be", `{"id":"a","x":1}`, "", CodeUnknownColumn, denied},
		{"collected in a number", `{"id":"a","x":1}`, "", CodeUnknownColumn, nowhere},
		{"collected nowhere", `{"id":"a","x":1}`, "", CodeUnknownColumn, computed},
		{"a column that may not be sent is not unknown", `{"id":"a","secret":"x","y":1}`, "", CodeColumnNotAllowed, kept},
	} {
		table := rest()
		if c.options.CollectInto == "bare" {
			table = Compile("rest", columns("id String", "bare Map(String, String)"), time.UTC)
		}
		r := decodeAll(t, table, JSON, c.body, c.options)[0]
		if c.code != "" {
			if assert.NotNil(t, r.Err, c.name) {
				assert.Equal(t, c.code, r.Err.Code, c.name)
			}
			continue
		}
		if assert.Nil(t, r.Err, "%s: %v", c.name, r.Err) {
			assert.JSONEq(t, c.want, r.JSON, c.name)
		}
	}
	d := rest().NewDecoder(NDJSON, []byte(body+"\n"+`{"id":"b"}`), drop)
	require.True(t, d.Next())
	assert.Equal(t, `x=1 y="t" z={"k":[null]}`, unknowns(d))
	require.True(t, d.Next())
	assert.Empty(t, d.Unknown())
}

func TestUnknownFieldsOfAHeader(t *testing.T) {
	const body = "x,id,y\n1,a,\"t\"\n,b,\n\"2\",c,[1]\n"
	dropped := decodeAll(t, rest(), CSV, body, DecodeOptions{UnknownFields: DropUnknown})
	require.Equal(t, []string{"", "", ""}, codes(dropped))
	assert.JSONEq(t, `{"id":"a"}`, dropped[0].JSON)
	collected := decodeAll(t, rest(), CSV, body, DecodeOptions{UnknownFields: CollectUnknown, CollectInto: "more"})
	require.Equal(t, []string{"", "", ""}, codes(collected))
	assert.JSONEq(t, `{"id":"a","more":{"x":"1","y":"t"}}`, collected[0].JSON)
	assert.JSONEq(t, `{"id":"b"}`, collected[1].JSON)
	assert.JSONEq(t, `{"id":"c","more":{"x":"2","y":"[1]"}}`, collected[2].JSON)
	tsv := decodeAll(t, rest(), TSV, "id\tx\na\tp\\tq\n", DecodeOptions{UnknownFields: CollectUnknown, CollectInto: "doc"})
	require.Equal(t, []string{""}, codes(tsv))
	assert.JSONEq(t, `{"id":"a","doc":{"x":"p\tq"}}`, tsv[0].JSON)
}

func TestUnknownFieldsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"id":"a"`)
	for i := range 300 {
		fmt.Fprintf(&b, `,"f%d":1`, i)
	}
	b.WriteString("}")
	dropped := rest().NewDecoder(JSON, []byte(b.String()), DecodeOptions{UnknownFields: DropUnknown})
	require.True(t, dropped.Next())
	require.Nil(t, dropped.Record().Err)
	assert.Len(t, dropped.Unknown(), 256)
	collected := decodeAll(t, rest(), JSON, b.String(), DecodeOptions{UnknownFields: CollectUnknown, CollectInto: "more"})[0]
	require.NotNil(t, collected.Err)
	assert.Equal(t, CodeTooLarge, collected.Err.Code)
}

func TestCloudEvents(t *testing.T) {
	table := Compile("events", columns("id String", "source String", "type String", "time DateTime64(3) DEFAULT now64(3)", "page Nullable(String)", "data Nullable(String)", "body JSON DEFAULT '{}'", "datacontenttype Nullable(String)"), time.UTC)
	const event = `{"specversion":"1.0","id":"e1","source":"/s","type":"t","time":"2026-03-04T05:06:07Z","data":{"page":"/x"}}`
	const envelope = `"id":"e1","source":"/s","type":"t","time":"2026-03-04T05:06:07.000Z"`
	for _, c := range []struct{ data, body, want, code string }{
		{"merge", event, `{` + envelope + `,"page":"/x"}`, ""},
		{"data", event, `{` + envelope + `,"data":"{\"page\":\"/x\"}"}`, ""},
		{"body", event, `{` + envelope + `,"body":{"page":"/x"}}`, ""},
		{"body", `{"id":"e","source":"s","type":"t","datacontenttype":"application/json","data":{}}`, `{"id":"e","source":"s","type":"t","datacontenttype":"application/json","body":{}}`, ""},
		{"data", `{"id":"e","source":"s","type":"t","data":"text"}`, `{"id":"e","source":"s","type":"t","data":"text"}`, ""},
		{"merge", `{"id":"e","source":"s","type":"t","data":null}`, `{"id":"e","source":"s","type":"t"}`, ""},
		{"merge", `{"id":"e","source":"s","type":"t","data":{"data":"inner"}}`, `{"id":"e","source":"s","type":"t","data":"inner"}`, ""},
		{"merge", `{"id":"e","source":"s","type":"t","data":[1]}`, "", CodeTypeMismatch},
		{"merge", `{"id":"e","source":"s","type":"t","data":{"id":"other"}}`, "", CodeDuplicateColumn},
		{"merge", `{"id":"e","source":"s","type":"t","data":{"pages":"x"}}`, "", CodeUnknownColumn},
		{"merge", `{"id":"e","source":"s","type":"t","data":{"specversion":"x"}}`, "", CodeUnknownColumn},
		{"merge", `{"id":"e","source":"s","type":"t","dataschema":"x"}`, "", CodeUnknownColumn},
		{"nowhere", event, "", CodeUnknownColumn},
	} {
		r := decodeAll(t, table, JSON, "["+c.body+","+c.body+"]", DecodeOptions{EventData: c.data})[1]
		if c.code != "" {
			if assert.NotNil(t, r.Err, c.body) {
				assert.Equal(t, c.code, r.Err.Code, r.Err.Message)
			}
			continue
		}
		if assert.Nil(t, r.Err, "%s: %v", c.body, r.Err) {
			assert.JSONEq(t, c.want, r.JSON)
		}
	}
}

func TestTheShapeOfValuesIsATypeThatTakesThem(t *testing.T) {
	for _, c := range []struct{ values, want, otherwise string }{
		{`true false`, "Bool", "false"},
		{`1 -2 9223372036854775807`, "Int64", "0"},
		{`1 18446744073709551615`, "UInt64", "0"},
		{`-1 18446744073709551615`, "Int128", "0"},
		{`99999999999999999999999999999999999999999`, "Int256", "0"},
		{`1 2.5`, "Float64", "0"},
		{`1e400`, "String", "''"},
		{`"a" "2026-01-01T00:00:00Z"`, "String", "''"},
		{`"2026-01-01T00:00:00Z"`, "DateTime64(3, 'UTC')", "0"},
		{`"2026-01-01T00:00:00Z" "2026-01-01 00:00:00.123456"`, "DateTime64(6, 'UTC')", "0"},
		{`"1800-01-01T00:00:00Z"`, "String", "''"},
		{`"2026-01-01"`, "String", "''"},
		{`1 null`, "Nullable(Int64)", ""},
		{`null`, "Nullable(String)", ""},
		{`1 true "x"`, "String", "''"},
		{`{"a":1}`, "JSON", "'{}'"},
		{`{"a":1} null`, "JSON", "'{}'"},
		{`[1,2] []`, "Array(Int64)", "[]"},
		{`[] null`, "Array(String)", "[]"},
		{`[1,null]`, "Array(Nullable(Int64))", "[]"},
		{`[[1],["a"]]`, "Array(Array(String))", "[]"},
		{`[{"a":1}]`, "Array(JSON)", "[]"},
		{`[{"a":1},null]`, "Array(Dynamic)", "[]"},
		{`[1] {"a":1}`, "Dynamic", ""},
		{`1 [1]`, "Dynamic", ""},
		{`[[[[[1]]]]]`, "Array(Array(Array(Dynamic)))", "[]"},
	} {
		var s, half Shape
		for i, value := range strings.Split(strings.ReplaceAll(c.values, `-01-01 00`, `-01-01_00`), " ") {
			value = strings.ReplaceAll(value, "_", " ")
			if i%2 == 0 {
				s.Observe([]byte(value))
			} else {
				half.Observe([]byte(value))
			}
		}
		s.Merge(&half)
		assert.Equal(t, c.want, s.Type(), c.values)
		assert.Equal(t, c.otherwise, s.Default(), c.values)
	}
}
