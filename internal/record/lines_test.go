package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// loose has columns of types without a codec beside others.
func loose() *Table {
	return Compile("loose", columns(
		"id UInt64", "j JSON DEFAULT '{}'", "d Dynamic", "v Variant(UInt64, String)", "s AggregateFunction(sum, UInt64)", "f Float64 DEFAULT 0", "t DateTime64(3, 'UTC') DEFAULT 0", "x Future(1)",
	), time.UTC)
}

func TestRowsWithTypesWithoutACodecAreLines(t *testing.T) {
	body := `{"id":"18446744073709551615","j": {"a" : [1,
 2], "b":"\u00e9\n"},"f":"nan","t":"2026-03-04T07:06:07.089+02:00"}`
	all := decodeAll(t, loose(), JSON, body, DecodeOptions{})
	require.Equal(t, []string{""}, codes(all))
	assert.Equal(t, mq.FormatJSONCompactEachRow, all[0].Set.Format())
	assert.Equal(t, `[18446744073709551615,{"a":[1,2],"b":"\u00e9\n"},"nan","2026-03-04T05:06:07.089Z"]`+"\n", string(all[0].Row))
	assert.Equal(t, `{"id":18446744073709551615,"j":{"a":[1,2],"b":"\u00e9\n"},"f":null,"t":"2026-03-04T05:06:07.089Z"}`, all[0].JSON)

	all = decodeAll(t, loose(), JSON, `{"id":1}`, DecodeOptions{})
	assert.Equal(t, mq.FormatRowBinary, all[0].Set.Format(), "a record without such a column")
	assert.Len(t, all[0].Row, 8)
}

func TestValuesOfTypesWithoutACodec(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":1,"d":5}`: "[1,5]\n", `{"id":1,"d":null}`: "\x01\x00\x00\x00\x00\x00\x00\x00", `{"id":1,"v":"x","d":[1,{"a":null}]}`: `[1,[1,{"a":null}],"x"]` + "\n",
		`{"id":1,"s":"\u0005\u0000"}`: `[1,"\u0005\u0000"]` + "\n", `{"id":1,"s":null}`: CodeNullNotAllowed, `{"id":1,"j":null}`: "\x01\x00\x00\x00\x00\x00\x00\x00", `{"id":1,"x":null}`: CodeNullNotAllowed,
		`{"id":300000000000000000000,"d":5}`: CodeOutOfRange, `{"id":1,"d":[}`: CodeMalformed, `{"id":1,"d":5,"d":6}`: CodeDuplicateColumn,
	} {
		all := decodeAll(t, loose(), NDJSON, body, DecodeOptions{})
		if all[0].Err != nil {
			assert.Equal(t, want, all[0].Err.Code, body)
			continue
		}
		assert.Equal(t, want, string(all[0].Row), body)
	}
	missing := Compile("t", columns("id UInt8", "j JSON"), time.UTC)
	assert.Equal(t, []string{CodeMissingColumn}, codes(decodeAll(t, missing, JSON, `{"id":1}`, DecodeOptions{})))
	assert.Equal(t, []string{CodeTooLarge}, codes(decodeAll(t, loose(), JSON, `{"id":1,"d":"123456789"}`, DecodeOptions{MaxRecordBytes: 12})))
}

func TestFieldsOfTypesWithoutACodec(t *testing.T) {
	all := decodeAll(t, loose(), CSV, "id,d,j\n1,5,\"{\"\"a\"\":1}\"\n2,text,\n3,\"[1,\",\n4,,\n5,\"\",\n", DecodeOptions{})
	var rows []string
	for _, r := range all {
		require.Nil(t, r.Err)
		rows = append(rows, string(r.Row))
	}
	assert.Equal(t, []string{`[1,{"a":1},5]` + "\n", `[2,"text"]` + "\n", `[3,"[1,"]` + "\n", "\x04\x00\x00\x00\x00\x00\x00\x00", `[5,""]` + "\n"}, rows)
}

func TestRulesAboutColumnsWithoutACodecRefuse(t *testing.T) {
	column, _ := loose().Lookup("d")
	assert.Nil(t, loose().Codec(column))
	check := Check{Column: column, Allowed: [][]byte{[]byte("5")}}
	all := decodeAll(t, loose(), JSON, `{"id":1,"d":5}`, DecodeOptions{Checks: []Check{check}})
	assert.Equal(t, []string{CodeCheckFailed}, codes(all), "nothing here can tell")
	org, _ := loose().Lookup("id")
	encoded, err := loose().Codec(org).AppendJSON(nil, []byte("7"))
	require.NoError(t, err)
	all = decodeAll(t, loose(), JSON, `{"d":5}`, DecodeOptions{Checks: []Check{{Column: org, Allowed: [][]byte{encoded}, Stamp: true}}})
	require.Nil(t, all[0].Err)
	assert.Equal(t, "[7,5]\n", string(all[0].Row), "a stamped column")
}

func TestLinesThatDoNotRead(t *testing.T) {
	_, err := ParseLines("[", time.UTC)
	require.Error(t, err)
	_, err = ParseLines("[]", time.UTC)
	require.Error(t, err)
	lines, err := ParseLines(`[{"name":"id","type":"UInt8"},{"name":"d","type":"Dynamic"}]`, time.UTC)
	require.NoError(t, err)
	assert.Equal(t, []string{"id", "d"}, lines.Layout().Names())
	rows, err := lines.AppendRows(nil, []byte("[1,{}]\n[2,null]\n"), 2)
	require.NoError(t, err)
	ends, err := lines.Layout().Ends(nil, rows, 2)
	require.NoError(t, err)
	out, err := lines.Layout().AppendObject(nil, rows[ends[0]:], []int{1}, RenderOptions{})
	require.NoError(t, err)
	assert.Equal(t, `{"d":null}`, string(out))
	for _, body := range []string{"", "[1,2]", "[1,2]\n[3]", "[1,2]\n[3,4,5]", "[1,2]\n[300,4]", "[1,2]\n{}", "[1,2]\n[1,", "[1,2]\n[1,2]\n[1,2]", "5\n5"} {
		rows, err := lines.AppendRows([]byte("kept"), []byte(body), 2)
		require.Error(t, err, body)
		assert.Equal(t, "kept", string(rows))
	}
}
