package query_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// composites makes a table whose columns have parts.
func (e *engine) composites(t *testing.T) *schema.Table {
	t.Helper()
	e.Exec(t, "CREATE TABLE composites (k UInt32, attrs Map(String, String), codes Map(UInt16, Nullable(Int32)), kinds Map(LowCardinality(String), LowCardinality(String)), colors Map(Enum8('red' = 1, 'b''l' = 2), Int8), days Map(Date, DateTime64(3, 'UTC')),"+
		" lists Map(String, Array(Int32)), pair Tuple(Int8, String), point Tuple(x Int32, `y.z` Nullable(String), inner Tuple(name String, tags Array(String))), tags Array(String), grid Array(Array(Int32)), rows Array(Tuple(id Int32, email String)),"+
		" loc Point, payload JSON(user.id UInt32, at DateTime64(3, 'UTC'), tags Array(String), who Tuple(name String, age Int8), extra Map(String, Int64), objs Array(JSON)), docs Map(String, JSON), `dot.ted` String, dot Map(String, String), state AggregateFunction(sum, Int64))"+
		" ENGINE = MergeTree ORDER BY k SETTINGS min_bytes_for_wide_part = 0",
		`INSERT INTO composites (k, attrs, codes, kinds, colors, days, lists, pair, point, tags, grid, rows, loc, payload, docs, `+"`dot.ted`"+`, dot) FORMAT JSONEachRow
		{"k":1,"attrs":{"key":"v1","a key.with dots":"w","q\"]\\":"quoted","Ü":"ü"},"codes":{"7":70,"8":null},"kinds":{"a":"A"},"colors":{"red":1},"days":{"2026-01-01":"2026-01-01 10:00:00.5"},"lists":{"l":[1,2,3]},"pair":[5,"five"],"point":{"x":-1,"y.z":"yz","inner":{"name":"n1","tags":["t1","t2"]}},"tags":["a","b","c"],"grid":[[1,2],[3]],"rows":[{"id":1,"email":"a@x"},{"id":2,"email":"b@x"}],"loc":[1.5,2.5],"payload":{"user":{"id":7,"name":"ann"},"n":5,"s":"5","b":true,"at":"2026-01-01 10:00:00.5","tags":["p","q"],"who":{"name":"w","age":3},"extra":{"m":9},"objs":[{"a":1},{"a":2}],"f":1.0,"day":"2026-01-01","time":"2026-01-01T10:00:00Z","big":9007199254740993},"docs":{"d":{"x":{"y":"deep"}}},"dot.ted":"column","dot":{"ted":"key"}}
		{"k":2,"attrs":{"key":""},"codes":{},"kinds":{},"colors":{},"days":{},"lists":{},"pair":[0,""],"point":{"x":0,"y.z":null,"inner":{"name":"","tags":[]}},"tags":[],"grid":[],"rows":[],"loc":[0,0],"payload":{"n":1.5,"s":"text","b":false,"f":1,"user":{"name":"bob"},"big":9007199254740992},"docs":{},"dot.ted":"","dot":{}}
		{"k":3,"attrs":{},"codes":{"7":-1},"kinds":{"a":""},"colors":{"b'l":2},"days":{},"lists":{"l":[]},"pair":[1,"one"],"point":{"x":9,"y.z":"","inner":{"name":"n3","tags":["t1"]}},"tags":["z"],"grid":[[9]],"rows":[{"id":3,"email":"c@x"}],"loc":[3,4],"payload":{"n":"7","s":8,"user":"plain","day":"no day","late":"2026-01-01 12:00:00.25"},"docs":{"d":{"x":1}},"dot.ted":"x","dot":{"ted":"y"}}`)
	return e.describe(t, "composites")
}

func TestPartsOfColumnsAreRead(t *testing.T) {
	e := startEngine(t)
	table := e.composites(t)
	for reference, want := range map[string]string{
		`attrs.key`:                `"v1","",null`,
		`attrs["key"]`:             `"v1","",null`,
		`attrs["a key.with dots"]`: `"w",null,null`,
		`attrs["q\"]\\"]`:          `"quoted",null,null`,
		`attrs.Ü`:                  `"ü",null,null`,
		`attrs["\u00dc"]`:          `"ü",null,null`,
		`attrs.none`:               `null,null,null`,
		`codes[7]`:                 `70,null,-1`,
		`codes.7`:                  `70,null,-1`,
		`codes["8"]`:               `null,null,null`,
		`kinds.a`:                  `"A",null,""`,
		`colors.red`:               `1,null,null`,
		`colors["b'l"]`:            `null,null,2`,
		`colors[2]`:                `null,null,2`,
		`days["2026-01-01"]`:       `"2026-01-01T10:00:00.500Z",null,null`,
		`lists.l`:                  `[1,2,3],[],[]`,
		`lists.l[-1]`:              `3,null,null`,
		`pair[1]`:                  `5,0,1`,
		`pair.2`:                   `"five","","one"`,
		`point.x`:                  `-1,0,9`,
		`point["y.z"]`:             `"yz",null,""`,
		`point[2]`:                 `"yz",null,""`,
		`point.inner.name`:         `"n1","","n3"`,
		`point.inner.tags[2]`:      `"t2",null,null`,
		`tags[1]`:                  `"a",null,"z"`,
		`tags[-1]`:                 `"c",null,"z"`,
		`tags[-3]`:                 `"a",null,null`,
		`grid[1]`:                  `[1,2],[],[9]`,
		`grid[1][-1]`:              `2,null,9`,
		`rows[2].email`:            `"b@x",null,null`,
		`rows.email`:               `["a@x","b@x"],[],["c@x"]`,
		`rows.id[1]`:               `1,null,3`,
		`loc[2]`:                   `2.5,0,4`,
		`payload.user.id`:          `7,0,0`,
		`payload["user.id"]`:       `7,0,0`,
		`payload.user.name`:        `"ann","bob",null`,
		`payload.user`:             `null,null,"plain"`,
		`payload.n`:                `5,1.5,"7"`,
		`payload.none.at.all`:      `null,null,null`,
		`payload.at`:               `"2026-01-01T10:00:00.500Z","1970-01-01T00:00:00.000Z","1970-01-01T00:00:00.000Z"`,
		`payload.tags[2]`:          `"q",null,null`,
		`payload.who.age`:          `3,0,0`,
		`payload.who[1]`:           `"w","",""`,
		`payload.extra.m`:          `9,null,null`,
		`payload.objs[2].a`:        `2,null,null`,
		`docs.d.x.y`:               `"deep",null,null`,
		`dot.ted`:                  `"column","","x"`,
		`dot["ted"]`:               `"key",null,"y"`,
	} {
		name, err := json.Marshal(reference)
		require.NoError(t, err)
		var values []string
		for _, row := range e.rows(t, table, policy.OperatorSelect(), `{"columns":[`+string(name)+`],"order_by":[{"column":"k"}]}`) {
			values = append(values, strings.TrimSuffix(strings.TrimPrefix(row, `{`+string(name)+`:`), "}"))
		}
		assert.Equal(t, want, strings.Join(values, ","), reference)
	}
}

func (e *engine) ks(t *testing.T, table *schema.Table, filters string) string {
	return e.found(t, table, policy.OperatorSelect(), "["+filters+"]")
}

func TestConditionsOnPartsOfColumns(t *testing.T) {
	e := startEngine(t)
	table := e.composites(t)
	for filter, want := range map[string]string{
		`{"column":"attrs.key","op":"eq","value":"v1"}`:                                   "1",
		`{"column":"attrs.key","op":"eq","value":""}`:                                     "2",
		`{"column":"attrs.key","op":"neq","value":"v1"}`:                                  "2",
		`{"not":{"column":"attrs.key","op":"eq","value":"v1"}}`:                           "2",
		`{"column":"attrs.key","op":"is_null"}`:                                           "3",
		`{"column":"attrs.key","op":"not_in","value":["v1"]}`:                             "2",
		`{"column":"attrs.key","op":"ilike","value":"V_"}`:                                "1",
		`{"column":"codes[7]","op":"between","value":[-1,70]}`:                            "1,3",
		`{"column":"codes[8]","op":"is_not_null"}`:                                        "",
		`{"column":"colors.red","op":"gte","value":1}`:                                    "1",
		`{"column":"days[\"2026-01-01\"]","op":"gt","value":"2026-01-01T10:00:00.4999Z"}`: "1",
		`{"column":"lists.l","op":"contains","value":3}`:                                  "1",
		`{"column":"lists.l","op":"contains_all","value":[]}`:                             "1,2,3",
		`{"column":"point.inner.name","op":"starts_with","value":"n"}`:                    "1,3",
		`{"column":"point[\"y.z\"]","op":"lt","value":"z"}`:                               "1,3",
		`{"column":"point.inner.tags","op":"contains_any","value":["t1"]}`:                "1,3",
		`{"column":"tags[1]","op":"in","value":["a","z"]}`:                                "1,3",
		`{"column":"tags[2]","op":"eq","value":""}`:                                       "",
		`{"column":"rows.email","op":"contains","value":"c@x"}`:                           "3",
		`{"column":"rows[1].id","op":"lte","value":1}`:                                    "1",
		`{"column":"payload.user.id","op":"eq","value":7}`:                                "1",
		`{"column":"payload.at","op":"gt","value":"2020-01-01T00:00:00Z"}`:                "1",
		`{"column":"payload.extra","op":"contains","value":"m"}`:                          "1",
		// Values without a type compare with their own kind alone.
		`{"column":"payload.n","op":"eq","value":5}`:                              "1",
		`{"column":"payload.n","op":"eq","value":5.0}`:                            "1",
		`{"column":"payload.n","op":"gt","value":1}`:                              "1,2",
		`{"column":"payload.n","op":"gte","value":1.5}`:                           "1,2",
		`{"column":"payload.n","op":"neq","value":5}`:                             "2",
		`{"not":{"column":"payload.n","op":"eq","value":5}}`:                      "2",
		`{"column":"payload.n","op":"eq","value":"7"}`:                            "3",
		`{"column":"payload.n","op":"lt","value":"8"}`:                            "3",
		`{"column":"payload.n","op":"in","value":[5,"7",null]}`:                   "!null",
		`{"column":"payload.n","op":"in","value":[5,"7",true]}`:                   "1,3",
		`{"column":"payload.n","op":"not_in","value":[5]}`:                        "2",
		`{"column":"payload.n","op":"in","value":[]}`:                             "",
		`{"column":"payload.s","op":"eq","value":"5"}`:                            "1",
		`{"column":"payload.s","op":"eq","value":8}`:                              "3",
		`{"column":"payload.s","op":"like","value":"%t"}`:                         "2",
		`{"column":"payload.s","op":"not_like","value":"%t"}`:                     "1",
		`{"column":"payload.s","op":"ends_with","value":"5"}`:                     "1",
		`{"column":"payload.b","op":"eq","value":true}`:                           "1",
		`{"column":"payload.b","op":"neq","value":true}`:                          "2",
		`{"column":"payload.b","op":"eq","value":1}`:                              "",
		`{"column":"payload.f","op":"eq","value":1}`:                              "1,2",
		`{"column":"payload.f","op":"between","value":[0.5,1]}`:                   "1,2",
		`{"column":"payload.big","op":"eq","value":9007199254740993}`:             "1",
		`{"column":"payload.big","op":"gt","value":9007199254740992}`:             "1",
		`{"column":"payload.big","op":"lt","value":1e300}`:                        "1,2",
		`{"column":"payload.big","op":"lt","value":18446744073709551615}`:         "1,2",
		`{"column":"payload.big","op":"lt","value":18446744073709551616}`:         "!is no number",
		`{"column":"payload.day","op":"eq","value":"2026-01-01"}`:                 "1",
		`{"column":"payload.day","op":"eq","value":"no day"}`:                     "3",
		`{"column":"payload.day","op":"gt","value":"2025-12-31"}`:                 "1,3",
		`{"column":"payload.time","op":"eq","value":"2026-01-01T11:00:00+01:00"}`: "1",
		`{"column":"payload.late","op":"gt","value":"2026-01-01T12:00:00.2Z"}`:    "3",
		`{"column":"payload.user","op":"is_null"}`:                                "1,2",
		`{"column":"payload.user","op":"eq","value":{"a":1}}`:                     "!is compared with a string",
		`{"column":"payload.user","op":"contains","value":"p"}`:                   "!contains looks into",
		`{"column":"docs.d.x","op":"eq","value":1}`:                               "3",
		`{"column":"dot.ted","op":"eq","value":"column"}`:                         "1",
		`{"column":"dot[\"ted\"]","op":"eq","value":"key"}`:                       "1",
	} {
		if problem, refused := strings.CutPrefix(want, "!"); refused {
			_, err := build(table, policy.OperatorSelect(), `{"columns":["k"],"filters":[`+filter+`]}`)
			assert.ErrorContains(t, err, problem, filter)
			continue
		}
		assert.Equal(t, want, e.ks(t, table, filter), filter)
	}
}

func TestPartsAreGroupedOrderedAggregatedAndBucketed(t *testing.T) {
	e := startEngine(t)
	table := e.composites(t)
	for body, want := range map[string]string{
		`{"columns":["attrs.key"],"aggregations":[{"fn":"count"}],"group_by":["attrs.key"],"order_by":[{"column":"attrs.key","dir":"desc"}]}`:                                                    `{"attrs.key":"v1","count":1} {"attrs.key":"","count":1} {"attrs.key":null,"count":1}`,
		`{"aggregations":[{"fn":"sum","column":"codes[7]"},{"fn":"count","column":"attrs.none"},{"fn":"max","column":"payload.at"}]}`:                                                            `{"sum_codes[7]":69,"count_attrs.none":0,"max_payload.at":"2026-01-01T10:00:00.500Z"}`,
		`{"columns":["k"],"order_by":[{"column":"point.inner.name","dir":"desc"}]}`:                                                                                                              `{"k":3} {"k":1} {"k":2}`,
		`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"days[\"2026-01-01\"]","every":"1h","alias":"t"},"time_range":{"column":"payload.at","since":"2026-01-01T00:00:00Z"}}`:         `{"t":"2026-01-01T10:00:00Z","count":1}`,
		`{"columns":["payload.f"],"aggregations":[{"fn":"count"}],"group_by":["payload.f"],"filters":[{"column":"payload.f","op":"is_not_null"}]}`:                                               `{"payload.f":1,"count":2}`,
		`{"columns":["payload.f"],"group_by":["payload.f"],"having":[{"column":"payload.f","op":"eq","value":1.0}]}`:                                                                             `{"payload.f":1}`,
		`{"columns":["attrs.key"],"group_by":["attrs.key"],"having":[{"column":"attrs.key","op":"is_null"}],"aggregations":[{"fn":"count","where":[{"column":"point.x","op":"gt","value":8}]}]}`: `{"attrs.key":null,"count":1}`,
		`{"aggregations":[{"fn":"count","column":"payload.n"}]}`:                                                                                                                                 `{"count_payload.n":3}`,
		`{"columns":["payload.f"],"distinct":true,"filters":[{"column":"k","op":"lt","value":3}]}`:                                                                                               `{"payload.f":1}`,
		`{"columns":["dot.ted","dot[\"ted\"]"],"filters":[{"column":"k","op":"eq","value":1}]}`:                                                                                                  `{"dot.ted":"column","dot[\"ted\"]":"key"}`,
	} {
		assert.Equal(t, want, strings.Join(e.rows(t, table, policy.OperatorSelect(), body), " "), body)
	}
	for body, want := range map[string]string{
		`{"columns":["k"],"order_by":[{"column":"payload.n"}]}`:              "a path of JSON that has no type",
		`{"columns":["payload.n"],"order_by":[{"column":"payload.n"}]}`:      "a path of JSON that has no type",
		`{"aggregations":[{"fn":"max","column":"payload.n"}]}`:               "a path of JSON that has no type",
		`{"aggregations":[{"fn":"arg_max","column":"k","by":"payload.n"}]}`:  "a path of JSON that has no type",
		`{"columns":["k"],"time_range":{"column":"payload.n","since":"1h"}}`: "holds no dates or times",
	} {
		_, err := build(table, policy.OperatorSelect(), body)
		assert.ErrorContains(t, err, want, body)
	}
}

func TestReferencesThatAreRefused(t *testing.T) {
	table := tableOf("t", nil, "m", "Map(String, String)", "i", "Map(UInt8, String)", "t", "Tuple(a Int8, b String)", "arr", "Array(String)", "s", "String", "j", "JSON(a.b Int8)", "d", "Dynamic", "v", "Variant(String, Map(String, String))", "agg", "AggregateFunction(sum, Int8)")
	for reference, want := range map[string]string{
		`m.`: "a dot without a name", `m..a`: "a dot without a name", `m[`: "want [index]", `m["a`: `want ["name"]`, `m["a"`: `want ["name"]`, `m["a"]b`: `want .name, ["name"] or [index]`, `m["a\x"]`: "not a name in quotes",
		`m['a']`: "not a whole number", `m[0]`: "not a whole number", `m[01]`: "not a whole number", `m[+1]`: "not a whole number", `m[1.5]`: "not a whole number", `m[99999999999]`: "not a whole number", `m[-0]`: "not a whole number",
		"m.`a`": "is written", `m.a b`: "is written", "m.a\tb": "is written", `m."a"`: "is written", `m.a]`: "is written", `m.a'b`: "is written",
		`m.a.b`: "has no parts", `s.a`: "has no parts", `s[1]`: "has no parts", `d.a`: "has no parts", `v.a`: "has no parts", `agg.a`: "has no parts",
		`i.a`: "the key", `i[256]`: "the key", `i[-1]`: "the key", `t.c`: "no such member", `t[3]`: "no such member", `t[-1]`: "no such member", `t.A`: "no such member", `t.a.x`: "has no parts",
		`arr.a`: "reached by its place", `arr.size0`: "reached by its place", `arr["1"]`: "reached by its place", `j[1]`: "has names, and no places", `j.a.b.c`: "has no parts", `j.x[1]`: "declare the path's type",
		`j.^a`: "cannot be asked for", "j[\"^`a`\"]": "cannot be asked for", "j[\"a.:`Int64`\"]": "cannot be asked for", `j.x.:Int64`: "cannot be asked for", `j["a[]"]`: "cannot be asked for", `j.@a`: "cannot be asked for", `j["a..b"]`: "cannot be asked for", `j[""]`: "cannot be asked for", `j["a.b.c"]`: "takes no part",
		`m.` + strings.Repeat("a", 1025): "longer than 1024 bytes", `j` + strings.Repeat(".a", 17): "more than 16 steps",
		`none.a`: "has no column", `M.a`: "has no column", `.m`: "has no column", `[1]`: "has no column",
	} {
		name, err := json.Marshal(reference)
		require.NoError(t, err)
		_, err = build(table, policy.OperatorSelect(), `{"columns":[`+string(name)+`]}`)
		e := asError(t, err)
		assert.Equal(t, query.CodeInvalid, e.Code, reference)
		assert.Contains(t, e.Message, want, reference)
	}
}

// A cursor over parts belongs to the types of their columns, and a part that may be
// NaN is sorted as a column that may.
func TestPagesInTheOrderOfParts(t *testing.T) {
	cursors := cursorsOf(t, "secret")
	const body = `{"columns":["k"],"order_by":[{"column":"m.f"},{"column":"p.x","dir":"desc"}],"limit":2`
	table := tableOf("t", nil, "k", "Int8", "m", "Map(String, Float64)", "p", "Tuple(x Int8, y String)")
	first := paged(t, cursors, table, body+`,"cursor":""}`, now)
	assert.Contains(t, first.SQL, " ORDER BY materialize(if(mapContains(wh.`m`, {p0:String}), wh.`m`[{p0:String}], NULL)) ASC, tupleElement(wh.`p`, 1) DESC")
	cursor := first.Page().Cursor("312E35.37", "N.37", 1, false)
	assert.Contains(t, paged(t, cursors, table, body+`,"cursor":"`+cursor+`"}`, now).SQL, "tupleElement(wh.`p`, 1) < {")

	doc, err := query.Parse([]byte(body + `,"cursor":"` + cursor + `"}`))
	require.NoError(t, err)
	o := options()
	o.Ahead, o.Cursors, o.Tenant = true, cursors, "0"
	changed := tableOf("t", nil, "k", "Int8", "m", "Map(String, Float64)", "p", "Tuple(x Int16, y String)")
	_, err = query.Build(doc, changed, policy.OperatorSelect().Bind(nil, nil), o)
	assert.Equal(t, query.CodeCursorInvalid, asError(t, err).Code)
}
