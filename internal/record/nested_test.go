package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spans has two Nested, as OpenTelemetry's table of traces, and columns that only
// look like members of one.
func spans() *Table {
	return Compile("spans", columns(
		"id String",
		"Events.Timestamp Array(DateTime64(9, 'UTC'))", "Events.Name Array(LowCardinality(String))", "Events.Attributes Array(Map(LowCardinality(String), String))",
		"Links.TraceId Array(String)", "Links.Weight Array(Nullable(UInt8))", "Links.Kind Array(String) DEFAULT arrayMap(x -> 'k', Links.TraceId)",
		"geo.lat Nullable(Float64)", ".a Array(UInt8) DEFAULT []",
	), time.UTC)
}

func TestNestedIsTakenAsObjects(t *testing.T) {
	zero := DecodeOptions{MissingAsZero: true}
	for _, c := range []struct {
		name, body, want string
		options          DecodeOptions
	}{
		{"objects", `{"id":"a","Events":[{"Timestamp":1,"Name":"x","Attributes":{"k":"v"}},{"Name":"y","Timestamp":2}]}`,
			`{"id":"a","Events.Timestamp":["1970-01-01T00:00:01.000000000Z","1970-01-01T00:00:02.000000000Z"],"Events.Name":["x","y"],"Events.Attributes":[{"k":"v"},{}]}`, DecodeOptions{}},
		{"none", `{"id":"a","Events":[],"Links":[]}`, `{"id":"a","Events.Timestamp":[],"Events.Name":[],"Events.Attributes":[],"Links.TraceId":[],"Links.Weight":[]}`, DecodeOptions{}},
		{"left out", `{"id":"a"}`, `{"id":"a"}`, DecodeOptions{}},
		{"null", `{"id":"a","Links":null,"Events":null}`, `{"id":"a"}`, DecodeOptions{}},
		{"arrays", `{"id":"a","Links.TraceId":["x"],"Links.Weight":[null]}`, `{"id":"a","Links.TraceId":["x"],"Links.Weight":[null]}`, DecodeOptions{}},
		{"an absent member that can be NULL, and one with a DEFAULT", `{"id":"a","Links":[{"TraceId":"x"},{"TraceId":"y","Weight":5}]}`,
			`{"id":"a","Links.TraceId":["x","y"],"Links.Weight":[null,5]}`, DecodeOptions{}},
		{"a zero where that is asked for", `{"id":"a","Events":[{"Timestamp":1}]}`,
			`{"id":"a","Events.Timestamp":["1970-01-01T00:00:01.000000000Z"],"Events.Name":[""],"Events.Attributes":[{}]}`, zero},
	} {
		r := decodeAll(t, spans(), JSON, c.body, c.options)[0]
		if assert.Nil(t, r.Err, "%s: %v", c.name, r.Err) {
			assert.JSONEq(t, c.want, r.JSON, c.name)
		}
	}
}

func TestNestedThatDoesNotPairIsRefused(t *testing.T) {
	for _, c := range []struct{ body, code, column, message string }{
		{`{"id":"a","Links.TraceId":["x"],"Links.Weight":[]}`, CodeTypeMismatch, "Links.Weight", "column Links.Weight has 0 elements and column Links.TraceId has 1"},
		{`{"id":"a","Links.TraceId":["x"]}`, CodeMissingColumn, "Links.Weight", "column Links.Weight is missing"},
		{`{"id":"a","Links":[{"Weight":1}]}`, CodeMissingColumn, "Links.TraceId", `column Links.TraceId: element 1 of "Links" has no member "TraceId"`},
		{`{"id":"a","Links":[{"TraceId":"x","Z":1}]}`, CodeUnknownColumn, "Links.Z", `element 1 has the member "Z"`},
		{`{"id":"a","Links":[{"TraceId":"x","TraceId":"x"}]}`, CodeDuplicateColumn, "Links.TraceId", "more than once"},
		{`{"id":"a","Links":[{"TraceId":"x"}],"Links.Weight":[1]}`, CodeDuplicateColumn, "Links.Weight", "more than once"},
		{`{"id":"a","Links":[{"TraceId":"x"},5]}`, CodeTypeMismatch, "Links", "element 2 is not an object"},
		{`{"id":"a","Links":{"TraceId":["x"]}}`, CodeTypeMismatch, "Links", "an array of objects"},
		{`{"id":"a","Links":"none"}`, CodeTypeMismatch, "Links", "an array of objects"},
		{`{"id":"a","Links":[{"TraceId":"x","Weight":300}]}`, CodeOutOfRange, "Links.Weight", "column Links.Weight: element 1: 300"},
		{`{"id":"a","geo":[{"lat":1}]}`, CodeUnknownColumn, "geo", "no column geo"},
	} {
		r := decodeAll(t, spans(), JSON, c.body, DecodeOptions{})[0]
		if assert.NotNil(t, r.Err, c.body) {
			assert.Equal(t, [2]string{c.code, c.column}, [2]string{r.Err.Code, r.Err.Column}, r.Err.Message)
			assert.Contains(t, r.Err.Message, c.message)
		}
	}
	csv := decodeAll(t, spans(), CSV, "id,Links.TraceId,Links.Weight\na,\"['x','y']\",\"[1,NULL]\"\nb,\"['x']\",\"[]\"\n", DecodeOptions{})
	require.Equal(t, []string{"", CodeTypeMismatch}, codes(csv))
	assert.JSONEq(t, `{"id":"a","Links.TraceId":["x","y"],"Links.Weight":[1,null]}`, csv[0].JSON)
}

func TestMembersOfANestedNeedTheirGrants(t *testing.T) {
	table := spans()
	allow := func(column int) bool { return table.columns[column].Name != "Links.Weight" }
	refused := decodeAll(t, table, JSON, `{"id":"a","Links":[{"TraceId":"x","Weight":1}]}`, DecodeOptions{Allow: allow})[0]
	require.NotNil(t, refused.Err)
	assert.Equal(t, CodeColumnNotAllowed, refused.Err.Code)
}

func TestSmallObjectsDoNotGrowLargeArrays(t *testing.T) {
	body := []byte(`{"id":"a","Links":[{"TraceId":"x"}`)
	for range 300_000 {
		body = append(body, `,{"TraceId":""}`...)
	}
	r := decodeAll(t, spans(), JSON, string(append(body, "]}"...)), DecodeOptions{})[0]
	require.NotNil(t, r.Err)
	assert.Equal(t, CodeTooLarge, r.Err.Code)
}
