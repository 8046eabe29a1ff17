package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checked is a table with a column that checks are about.
func checked() *Table {
	return Compile("pages", []Column{
		{Name: "id", Type: "String"},
		{Name: "org", Type: "String", DefaultKind: DefaultExpression, DefaultExpression: "''"},
		{Name: "team", Type: "Nullable(String)"},
		{Name: "n", Type: "UInt64", DefaultKind: DefaultExpression, DefaultExpression: "0"},
		{Name: "secret", Type: "String", DefaultKind: DefaultMaterialized, DefaultExpression: "'x'"},
	}, time.UTC)
}

func encodedAs(t testing.TB, table *Table, column int, values ...string) [][]byte {
	t.Helper()
	var all [][]byte
	for _, v := range values {
		encoded, err := table.Codec(column).AppendJSON(nil, []byte(v))
		require.NoError(t, err)
		all = append(all, encoded)
	}
	return all
}

// outcomes reads a body and returns each record's row as JSON, or its code.
func outcomes(t *testing.T, table *Table, f InputFormat, body string, o DecodeOptions) []string {
	t.Helper()
	d := table.NewDecoder(f, []byte(body), o)
	var all []string
	for d.Next() {
		r := d.Record()
		if r.Err != nil {
			all = append(all, r.Err.Code+" "+r.Err.Column)
			continue
		}
		layout, err := ParseLayout(r.Set.Header(), time.UTC)
		require.NoError(t, err)
		object, err := layout.AppendObject(nil, r.Row, nil, RenderOptions{})
		require.NoError(t, err)
		all = append(all, string(object))
	}
	require.NoError(t, d.Err())
	return all
}

func TestACheckFillsAndEnforces(t *testing.T) {
	table := checked()
	o := DecodeOptions{Checks: []Check{{Column: 1, Allowed: encodedAs(t, table, 1, `"birch"`), Stamp: true}}}
	assert.Equal(t, []string{
		`{"id":"1","org":"birch"}`, `{"id":"2","org":"birch"}`, "record.check_failed org", "record.check_failed org",
		"record.check_failed org", `{"id":"6","org":"birch","n":3}`, "record.check_failed org", "record.duplicate_column org",
	}, outcomes(t, table, NDJSON, `{"id":"1"}
{"id":"2","org":"birch"}
{"id":"3","org":"cedar"}
{"id":"4","org":null}
{"id":"5","org":""}
{"n":3,"org":"bi\u0072ch","id":"6"}
{"id":"7","org":"Birch"}
{"id":"8","org":"cedar","org":"birch"}
`, o))
}

func TestARepeatedKeyNeverSlipsPastACheck(t *testing.T) {
	table := checked()
	o := DecodeOptions{Checks: []Check{{Column: 1, Allowed: encodedAs(t, table, 1, `"birch"`), Stamp: true}}}
	for _, body := range []string{
		`{"id":"n1","org":"cedar","org":"birch"}`, `{"id":"n1","org":"birch","org":"cedar"}`,
		`{"id":"n1","org":"birch","\u006frg":"cedar"}`, `{"id":"n1","org":"birch","org":null}`, `{"org":null,"id":"n1","org":"birch"}`,
	} {
		assert.Equal(t, []string{"record.duplicate_column org"}, outcomes(t, table, JSON, body, o), body)
	}
}

func TestACheckWithAListRequiresItsColumn(t *testing.T) {
	table := checked()
	o := DecodeOptions{Checks: []Check{{Column: 2, Allowed: encodedAs(t, table, 2, `"a"`, `"b"`)}}}
	assert.Equal(t, []string{
		`{"id":"1","team":"b"}`, "record.check_failed team", "record.check_failed team", "record.check_failed team",
	}, outcomes(t, table, JSON, `[{"id":"1","team":"b"},{"id":"2","team":"c"},{"id":"3"},{"id":"4","team":null}]`, o))
}

func TestAStampedColumnNeedNotBeAllowed(t *testing.T) {
	table := checked()
	o := DecodeOptions{
		Allow:  func(column int) bool { return column == 0 },
		Checks: []Check{{Column: 3, Allowed: encodedAs(t, table, 3, "7"), Stamp: true}, {Column: 2, Allowed: encodedAs(t, table, 2, `"a"`), Stamp: true}},
	}
	assert.Equal(t, []string{`{"id":"1","team":"a","n":7}`, "record.column_not_allowed n"},
		outcomes(t, table, JSON, `[{"id":"1"},{"id":"2","n":7}]`, o))
}

func TestSeveralChecksOfOneColumnAllHold(t *testing.T) {
	table := checked()
	o := DecodeOptions{Checks: []Check{
		{Column: 1, Allowed: encodedAs(t, table, 1, `"a"`), Stamp: true}, {Column: 1, Allowed: encodedAs(t, table, 1, `"b"`, `"c"`)},
	}}
	assert.Equal(t, []string{"record.check_failed org", "record.check_failed org"}, outcomes(t, table, JSON, `[{"id":"1"},{"id":"1","org":"b"}]`, o))
	o.Checks[1].Allowed = encodedAs(t, table, 1, `"b"`, `"a"`)
	assert.Equal(t, []string{`{"id":"1","org":"a"}`, "record.check_failed org"}, outcomes(t, table, JSON, `[{"id":"1"},{"id":"1","org":"b"}]`, o))
	for _, stamp := range []bool{true, false} {
		none := DecodeOptions{Checks: []Check{{Column: 1, Stamp: stamp}}}
		assert.Equal(t, []string{"record.check_failed org", "record.check_failed org"}, outcomes(t, table, JSON, `[{"id":"1"},{"id":"1","org":"b"}]`, none), "nothing is allowed")
	}
}

func TestARefusalIsForRecordsThatAreWellFormed(t *testing.T) {
	o := DecodeOptions{Refuse: &Error{Code: CodeCheckFailed, Message: "no"}}
	assert.Equal(t, []string{"record.check_failed ", "record.unknown_column x", "record.malformed "}, outcomes(t, checked(), NDJSON, "{\"id\":\"1\"}\n{\"x\":1}\n{\n", o))
}

func TestTextOf(t *testing.T) {
	for _, c := range []struct {
		typ, value, want string
		ok               bool
	}{
		{"String", `"a\u0000é"`, "a\x00é", true}, {"FixedString(3)", `"a"`, "a\x00\x00", true},
		{"LowCardinality(Nullable(String))", `"x"`, "x", true}, {"Nullable(FixedString(1))", `"x"`, "x", true},
		{"Nullable(String)", "null", "", false}, {"UInt8", "65", "", false},
	} {
		codec, err := NewCodec(c.typ, time.UTC)
		require.NoError(t, err)
		encoded, err := codec.AppendJSON(nil, []byte(c.value))
		require.NoError(t, err)
		text, ok := TextOf(codec, append(encoded, "rest"...))
		assert.Equal(t, c.ok, ok, c.typ)
		assert.Equal(t, c.want, string(text), c.typ)
		if c.ok {
			_, ok = TextOf(codec, encoded[:len(encoded)-1])
			assert.False(t, ok, "%s: cut short", c.typ)
			_, ok = TextOf(codec, nil)
			assert.False(t, ok, "%s: nothing", c.typ)
		}
	}
}

// A check costs no allocation a record.
func TestChecksDoNotAllocate(t *testing.T) {
	table := checked()
	body := []byte(`{"id":"1"}` + "\n")
	for range 8 {
		body = append(body, body...)
	}
	count := func(o DecodeOptions) float64 {
		return testing.AllocsPerRun(20, func() {
			for d := table.NewDecoder(NDJSON, body, o); d.Next(); {
				if d.Record().Err != nil {
					t.Fatal(d.Record().Err)
				}
			}
		})
	}
	checks := []Check{{Column: 1, Allowed: encodedAs(t, table, 1, `"birch"`), Stamp: true}}
	assert.InDelta(t, count(DecodeOptions{}), count(DecodeOptions{Checks: checks}), 2)
}
