package record

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTableDescribesItself(t *testing.T) {
	table := Compile("t", columns("a Int8", "b.c String", "j JSON", "broken Array("), time.UTC)
	assert.Equal(t, "t", table.Name())
	assert.Len(t, table.Columns(), 4)
	i, ok := table.Lookup("b.c")
	assert.True(t, ok)
	assert.Equal(t, 1, i)
	_, ok = table.Lookup("B.C")
	assert.False(t, ok)
	assert.NotNil(t, table.Codec(0))
	assert.Nil(t, table.Codec(2))
	assert.Nil(t, table.Codec(3))
}

func TestRowsStandInTableOrder(t *testing.T) {
	table := Compile("t", columns("a UInt8", "b UInt8", "c UInt8"), time.UTC)
	all := decodeAll(t, table, NDJSON, `{"a":1,"b":2,"c":3}`+"\n"+`{"c":3,"a":1,"b":2}`+"\n"+`{ "b" : 2 , "c":3, "\u0061" :1 }`+"\n"+`{"a":1,"b":2,"c":3}`, DecodeOptions{})
	for _, r := range all {
		require.Nil(t, r.Err)
		assert.Equal(t, []byte{1, 2, 3}, r.Row)
		assert.Same(t, all[0].Set, r.Set)
	}
	assert.Equal(t, []int{0, 1, 2}, all[0].Set.Columns())
	assert.Equal(t, `[{"name":"a","type":"UInt8"},{"name":"b","type":"UInt8"},{"name":"c","type":"UInt8"}]`, all[0].Set.Header())
}

func TestColumnSetsAreInternedAndNamed(t *testing.T) {
	table := Compile("t", columns("a UInt8", "b UInt8 DEFAULT 1", "c Nullable(UInt8)"), time.UTC)
	again := Compile("t", columns("a UInt8", "b UInt8 DEFAULT 1", "c Nullable(UInt8)"), time.UTC)
	body := `{"a":1}` + "\n" + `{"a":1,"b":2}` + "\n" + `{"a":1}` + "\n" + `{"a":1,"b":null}` + "\n" + `{"a":1,"c":null}`
	all := decodeAll(t, table, NDJSON, body, DecodeOptions{})
	other := decodeAll(t, again, NDJSON, body, DecodeOptions{})
	assert.Equal(t, []string{"", "", "", "", ""}, codes(all))
	assert.Same(t, all[0].Set, all[2].Set)
	assert.Same(t, all[0].Set, all[3].Set, "an explicit null on a column with a default is as if it were left out")
	assert.NotSame(t, all[0].Set, all[1].Set)
	for i := range all {
		assert.Equal(t, all[i].Set.Key(), other[i].Set.Key(), "a set keeps its key when the table is compiled again")
	}
	assert.NotEqual(t, all[0].Set.Key(), all[1].Set.Key())
}

func TestColumnSetsAreBounded(t *testing.T) {
	var texts []string
	for i := range 12 {
		texts = append(texts, fmt.Sprintf("c%d UInt8 DEFAULT 1", i))
	}
	table := Compile("t", columns(texts...), time.UTC)
	var body strings.Builder
	for set := 1; set < 1<<12; set++ {
		var fields []string
		for i := range 12 {
			if set>>i&1 == 1 {
				fields = append(fields, fmt.Sprintf(`"c%d":%d`, i, i))
			}
		}
		body.WriteString("{" + strings.Join(fields, ",") + "}\n")
	}
	all := decodeAll(t, table, NDJSON, body.String(), DecodeOptions{})
	require.Len(t, all, 1<<12-1)
	lines := strings.Split(body.String(), "\n")
	for i, r := range all {
		require.Nil(t, r.Err)
		require.Equal(t, lines[i], r.JSON)
	}
	assert.Len(t, table.sets.known, maxSets)
}

func TestTableIsSharedByDecoders(t *testing.T) {
	table := Compile("t", columns("a UInt8 DEFAULT 0", "b String DEFAULT ''", "c Nullable(Int64)"), time.UTC)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			body := fmt.Sprintf(`[{"a":%d},{"b":"x%d","c":%d},{"c":null,"a":1}]`, i, i, i)
			d := table.NewDecoder(JSON, []byte(body), DecodeOptions{})
			for d.Next() {
				assert.Nil(t, d.Record().Err)
			}
		})
	}
	wait.Wait()
	assert.Len(t, table.sets.known, 3)
}

func TestWhatARecordMayCarry(t *testing.T) {
	table := Compile("t", columns(
		"id UInt8", "d String DEFAULT 'x'", "n Nullable(Int8)", "e UInt8 EPHEMERAL 1", "m UInt8 MATERIALIZED id", "a UInt8 ALIAS id",
		"j JSON DEFAULT '{}'", "l LowCardinality(Nullable(String))", "arr Array(UInt8)", "a.b Array(UInt8) DEFAULT []",
	), time.UTC)
	for body, want := range map[string]string{
		`{"id":1,"arr":[]}`:                           `{"id":1,"arr":[]}`,
		`{"arr":[1],"e":5,"id":1}`:                    `{"id":1,"e":5,"arr":[1]}`,
		`{"id":1,"arr":[],"n":null,"l":null}`:         `{"id":1,"n":null,"l":null,"arr":[]}`,
		`{"id":1,"arr":[],"d":null,"e":null}`:         `{"id":1,"arr":[]}`,
		`{"id":1,"arr":[],"a.b":[7]}`:                 `{"id":1,"arr":[],"a.b":[7]}`,
		`{"id":1}`:                                    CodeMissingColumn + " arr",
		`{"arr":[]}`:                                  CodeMissingColumn + " id",
		`{}`:                                          CodeMissingColumn + " id",
		`{"id":null,"arr":[]}`:                        CodeNullNotAllowed + " id",
		`{"id":1,"arr":[],"m":1}`:                     CodeColumnComputed + " m",
		`{"id":1,"arr":[],"a":1}`:                     CodeColumnComputed + " a",
		`{"id":1,"arr":[],"nosuch":1}`:                CodeUnknownColumn + " nosuch",
		`{"id":1,"arr":[],"ID":1}`:                    CodeUnknownColumn + " ID",
		`{"id":1,"arr":[],"id":1}`:                    CodeDuplicateColumn + " id",
		`{"id":1,"arr":[],"j":{"a" : [1, null]}}`:     `{"id":1,"j":{"a":[1,null]},"arr":[]}`,
		`{"id":1,"arr":[],"j":null}`:                  `{"id":1,"arr":[]}`,
		`{"id":1,"arr":[],"l":[]}`:                    CodeTypeMismatch + " l",
		`{"nosuch":1,"m":2,"id":`:                     CodeMalformed + " ",
		`{"nosuch":1,"m":2,"id":300,"arr":[]}`:        CodeUnknownColumn + " nosuch",
		`{"id":300,"arr":[300]}`:                      CodeOutOfRange + " id",
		`{"id":1,"arr":[]} x`:                         CodeMalformed + " ",
		`{"id":1,"arr":[],}`:                          CodeMalformed + " ",
		`{"id":1 "arr":[]}`:                           CodeMalformed + " ",
		`{"id" 1,"arr":[]}`:                           CodeMalformed + " ",
		`{id:1,"arr":[]}`:                             CodeMalformed + " ",
		`{"id":1,"arr":[1,]}`:                         CodeMalformed + " ",
		`{"id":01,"arr":[]}`:                          CodeMalformed + " ",
		`{"id":1.,"arr":[]}`:                          CodeMalformed + " ",
		`{"id":-,"arr":[]}`:                           CodeMalformed + " ",
		`{"id":1e,"arr":[]}`:                          CodeMalformed + " ",
		`{"id":+1,"arr":[]}`:                          CodeMalformed + " ",
		`{"id":tru,"arr":[]}`:                         CodeMalformed + " ",
		`{"id":nul`:                                   CodeMalformed + " ",
		`{"id":1,"d":"\x41"}`:                         CodeMalformed + " ",
		`{"id":1,"d":"\u00g0"}`:                       CodeMalformed + " ",
		"{\"id\":1,\"d\":\"a\tb\"}":                   CodeMalformed + " ",
		"{\"id\":1,\"d\":\"a long one with a \x00\"}": CodeMalformed + " ",
		`{"id":1,"d":"`:                               CodeMalformed + " ",
		`{"id":1,"d":"\`:                              CodeMalformed + " ",
		`{"id":1,"d":"\u00`:                           CodeMalformed + " ",
		`{"id"`:                                       CodeMalformed + " ",
		`{"id":`:                                      CodeMalformed + " ",
		`{`:                                           CodeMalformed + " ",
		`{"id":1`:                                     CodeMalformed + " ",
		`{"id":1,`:                                    CodeMalformed + " ",
		`{"arr":[`:                                    CodeMalformed + " ",
		`{"arr":{"a":1`:                               CodeMalformed + " ",
		`{"arr":{"a"`:                                 CodeMalformed + " ",
		`{"arr":{1:2}}`:                               CodeMalformed + " ",
	} {
		all := decodeAll(t, table, NDJSON, body, DecodeOptions{})
		require.Len(t, all, 1, body)
		if r := all[0]; r.Err != nil {
			assert.Equal(t, want, r.Err.Code+" "+r.Err.Column, body)
			assert.Nil(t, r.Set)
			assert.Nil(t, r.Row)
			assert.NotEmpty(t, r.Err.Error())
		} else {
			assert.Equal(t, want, r.JSON, body)
		}
	}
}

func TestMissingAsZeroLeavesColumnsToTheServer(t *testing.T) {
	table := Compile("t", columns("id UInt8", "s String"), time.UTC)
	all := decodeAll(t, table, NDJSON, `{"id":1}`+"\n"+`{}`+"\n"+`{"id":1,"s":null}`, DecodeOptions{MissingAsZero: true})
	assert.Equal(t, []string{"", CodeMissingColumn, CodeNullNotAllowed}, codes(all))
	assert.Equal(t, `{"id":1}`, all[0].JSON)
	assert.Empty(t, all[1].Err.Column)
}

func TestColumnsThatMayNotBeSent(t *testing.T) {
	asked := 0
	all := decodeAll(t, pages(), NDJSON, strings.Repeat(`{"event_id":"1","page":"/"}`+"\n"+`{"event_id":"1","page":"/","secret":"x"}`+"\n", 3), DecodeOptions{
		Allow: func(column int) bool { asked++; return column != 3 },
	})
	assert.Equal(t, []string{"", CodeColumnNotAllowed, "", CodeColumnNotAllowed, "", CodeColumnNotAllowed}, codes(all))
	assert.Equal(t, "secret", all[1].Err.Column)
	assert.Equal(t, 3, asked, "each column is asked about once")
}

func TestValuesAsTheyWereSent(t *testing.T) {
	d := pages().NewDecoder(NDJSON, []byte(`{"n": 12345678901234567890123 ,"event_id":"a\u0062"}`+"\n"+`{"event_id":null,"page":"/"}`+"\n"+`{"event_id":"x","page":"/","org":null}`), DecodeOptions{})
	_, ok := d.Value(0)
	assert.False(t, ok, "there is no record yet")
	value := func(column int) string {
		raw, ok := d.Value(column)
		if !ok {
			return "absent"
		}
		return string(raw)
	}
	require.True(t, d.Next())
	assert.Equal(t, []string{`"a\u0062"`, "absent", "12345678901234567890123"}, []string{value(0), value(1), value(4)})
	require.True(t, d.Next())
	assert.Equal(t, []string{"null", `"/"`, "absent"}, []string{value(0), value(1), value(4)})
	assert.Equal(t, CodeNullNotAllowed, d.Record().Err.Code)
	require.True(t, d.Next())
	assert.Equal(t, "null", value(2), "a null that is left out of the row was still sent")
	assert.Nil(t, d.Record().Err)
	assert.False(t, d.Next())
	assert.False(t, d.Next())
}

func TestSingle(t *testing.T) {
	for _, c := range []struct {
		f    InputFormat
		body string
		want bool
	}{{JSON, ` {"event_id":"1","page":"/"} `, true}, {JSON, `[{"event_id":"1","page":"/"}]`, false}, {NDJSON, `{"event_id":"1","page":"/"}`, false}} {
		d := pages().NewDecoder(c.f, []byte(c.body), DecodeOptions{})
		assert.Equal(t, c.want, d.Single())
		require.True(t, d.Next())
		assert.Nil(t, d.Record().Err)
		assert.Equal(t, c.want, d.Single())
		assert.False(t, d.Next())
		assert.NoError(t, d.Err())
	}
	d := pages().NewDecoder(JSON, []byte(`{"event_id":nul}`), DecodeOptions{})
	require.True(t, d.Single() && d.Next())
	assert.Equal(t, CodeMalformed, d.Record().Err.Code)
}

// A bad element costs itself alone as long as brackets and quotes close.
func TestArraysRecoverAfterABadElement(t *testing.T) {
	good := `{"event_id":"1","page":"/"}`
	for bad, want := range map[string]int{
		`{"event_id":nul}`: 1, `{"a":1} x`: 1, `{"a":1}{"b":2}`: 1, ``: 1, `{"a" "b"}`: 1, `{"a":[1,2}`: -1, `"a,]\"}"`: 1, `{"a":"]\"}"`: -1, `{"a":NaN,"b":[{}]}`: 1, `tru`: 1, `{"a":1 "b":"]"}`: 1,
		"{\"a\":\"line\nbreak\"}": 1, `x"]"y`: 1, `_y_`: 1,
	} {
		body := "[" + good + "," + bad + "," + good + "]"
		if want < 0 {
			assert.Equal(t, CodeBodyMalformed, bodyCode(t, JSON, body), bad)
			continue
		}
		all := decodeAll(t, pages(), JSON, body, DecodeOptions{})
		require.Len(t, all, 3, bad)
		assert.NotNil(t, all[1].Err, bad)
		assert.Nil(t, all[0].Err)
		assert.Nil(t, all[2].Err)
	}
	all := decodeAll(t, pages(), JSON, "["+good+" , ]", DecodeOptions{})
	assert.Equal(t, []string{"", CodeMalformed}, codes(all))
}

func TestBracketsDeeperThanTheStack(t *testing.T) {
	for _, n := range []int{63, 64, 65, 66, 1000} {
		open := strings.Repeat("[{", n)
		assert.Equal(t, 2*len(open), compositeStop([]byte(open+strings.Repeat("}]", n)), 0))
		assert.Equal(t, -1, compositeStop([]byte(open), 0))
	}
	assert.Equal(t, -1, compositeStop([]byte("[}"), 0))
	assert.Equal(t, -1, compositeStop([]byte(`{"a":[}]`), 0))
	assert.Equal(t, -1, compositeStop([]byte(`["`), 0))
	assert.Equal(t, -1, compositeStop([]byte(`["\"`), 0))
	assert.Equal(t, -1, compositeStop([]byte(`["12345678\`), 0))
}

func TestErrorsRepeatOnlyAPieceOfTheValue(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	all := decodeAll(t, pages(), NDJSON, `{"event_id":"1","page":"/","n":"`+long+`"}`+"\n"+`{"`+long+`":1}`, DecodeOptions{})
	for _, r := range all {
		require.NotNil(t, r.Err)
		assert.Less(t, len(r.Err.Error()), 300)
		assert.True(t, strings.ToValidUTF8(r.Err.Error(), "?") == r.Err.Error())
	}
	assert.Equal(t, "no", (&BodyError{Message: "no"}).Error())
}

func TestNamesOfAnyKind(t *testing.T) {
	names := []string{`we"ird`, "új", "a.b", "tab\there", "line\u2028", "", "back\\slash"}
	var list []Column
	for _, n := range names {
		list = append(list, Column{Name: n, Type: "UInt8"})
	}
	table := Compile(`t"t`, list, time.UTC)
	line := `{"we\"ird":1,"\u00faj":2,"a.b":3,"tab\there":4,"line\u2028":5,"":6,"back\\slash":7}` + "\n"
	all := decodeAll(t, table, NDJSON, line+line, DecodeOptions{})
	for _, r := range all {
		require.Nil(t, r.Err)
		assert.Equal(t, []byte{1, 2, 3, 4, 5, 6, 7}, r.Row)
		layout, err := ParseLayout(r.Set.Header(), time.UTC)
		require.NoError(t, err)
		assert.Equal(t, names, layout.Names())
	}
}

// The hot path allocates per request, not per row.
func TestAllocationsDoNotGrowWithRows(t *testing.T) {
	table := Compile("events", benchColumns(), time.UTC)
	few, many := benchBody(10), benchBody(1000)
	run := func(body []byte) float64 {
		return testing.AllocsPerRun(20, func() {
			d := table.NewDecoder(NDJSON, body, DecodeOptions{})
			for d.Next() {
				if d.Record().Err != nil {
					t.Fatal(d.Record().Err)
				}
			}
		})
	}
	assert.LessOrEqual(t, run(many), run(few)+2)
	assert.LessOrEqual(t, run(many), 10.0)
}
