package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARefusalIsASentenceAboutItsColumn(t *testing.T) {
	table := Compile("flights", columns(
		"id String", "departed_at DateTime('UTC')", "delay Nullable(Int32)", "we-ird Nullable(UInt8)", "hash UInt64 MATERIALIZED 1",
		"secret String DEFAULT ''", "pos Tuple(lat Float64, lon Float64) DEFAULT (0, 0)",
	), time.UTC)
	allow := func(column int) bool { return table.columns[column].Name != "secret" }
	const rest = `"id":"a","departed_at":"2026-01-01T00:00:00Z"`
	for body, want := range map[string][2]string{
		`{"id":"a"}`: {"column departed_at is missing, and has no default", "ingest.tables.flights.missing_as_zero"},
		`{"id":"a","departed_at":"2026-11-29T10:00:00.123Z"}`: {
			`column departed_at: "2026-11-29T10:00:00.123Z" is finer than DateTime('UTC'), which holds 0 digits of a second`, `set ingest.tables.flights.times to "truncate"`,
		},
		`{"id":"a","departed_at":"Nov 29, 2026"}`: {`column departed_at: "Nov 29, 2026" is not a value of type DateTime('UTC')`, `write it like "2026-11-29T10:00:00Z"`},
		`{` + rest + `,"dellay":1}`:               {`table "flights" has no column dellay`, `did you mean "delay"?`},
		`{` + rest + `,"secre":1}`:                {`table "flights" has no column secre`, ""},
		`{` + rest + `,"delay":"x"}`:              {`column delay: "x" is not a value of type Int32`, ""},
		`{` + rest + `,"we-ird":300}`:             {`column "we-ird": 300 is out of the range of UInt8`, ""},
		`{` + rest + `,"hash":1}`:                 {"column hash is computed by ClickHouse and cannot be sent", "leave it out"},
		`{` + rest + `,"secret":"x"}`:             {"column secret may not be sent by this role", ""},
		`{` + rest + `,"id":"b"}`:                 {"column id stands more than once", ""},
		`{"id":null,"departed_at":0}`:             {"column id: null is not allowed in type String", "takes null as left out"},
		`{` + rest + `,"pos":{"lat":1}}`:          {`column pos: member "lon" is missing`, ""},
		`{` + rest + `,"pos":{"lat":1,"z":1}}`:    {`column pos: Tuple(lat Float64, lon Float64) has no member "z"`, ""},
		`{}`:                                      {"column id is missing, and has no default", ""},
	} {
		r := decodeAll(t, table, JSON, body, DecodeOptions{Allow: allow})[0]
		require.NotNil(t, r.Err, body)
		assert.Equal(t, want[0], r.Err.Message, body)
		assert.Equal(t, r.Err.Message, r.Err.Error())
		if want[1] == "" {
			assert.NotContains(t, r.Err.Hint, "did you mean", body)
			continue
		}
		assert.Contains(t, r.Err.Hint, want[1], body)
	}
	csv := table.NewDecoder(CSV, []byte("id,departedat\n1,2\n"), DecodeOptions{Allow: allow})
	var fault *BodyError
	require.ErrorAs(t, csv.Err(), &fault)
	assert.Equal(t, `did you mean "departed_at"?`, fault.Hint)
}

func TestTimesFinerThanTheirColumnAreCutTowardThePastWhenAsked(t *testing.T) {
	for _, c := range []struct{ column, value, want string }{
		{"DateTime('UTC')", `"2026-11-29T10:00:00.999Z"`, `"2026-11-29T10:00:00Z"`},
		{"DateTime('UTC')", `"2026-11-29T10:00:00.123456+00:00"`, `"2026-11-29T10:00:00Z"`},
		{"DateTime('UTC')", `1769904000250`, `"2026-02-01T00:00:00Z"`},
		{"DateTime('UTC')", `"1969-12-31T23:59:59.999Z"`, ""},
		{"DateTime('UTC')", `"2106-02-07T06:28:15.9Z"`, `"2106-02-07T06:28:15Z"`},
		{"DateTime('UTC')", `"2106-02-07T06:28:16Z"`, ""},
		{"DateTime64(3, 'UTC')", `"1969-12-31T23:59:59.99999Z"`, `"1969-12-31T23:59:59.999Z"`},
		{"DateTime64(0, 'UTC')", `-0.5`, `"1969-12-31T23:59:59Z"`},
		{"DateTime64(9, 'UTC')", `-0.0000000001`, `"1969-12-31T23:59:59.999999999Z"`},
		{"DateTime64(9, 'UTC')", `-1.9999999999`, `"1969-12-31T23:59:58.000000000Z"`},
		{"Nullable(DateTime64(3))", `"2026-11-29T10:00:00.123456789Z"`, `"2026-11-29T10:00:00.123Z"`},
		{"Array(DateTime('UTC'))", `["2026-11-29T10:00:00.5Z"]`, `["2026-11-29T10:00:00Z"]`},
		{"Map(String, Tuple(t DateTime('UTC')))", `{"a":{"t":"2026-11-29T10:00:00.5Z"}}`, `{"a":{"t":"2026-11-29T10:00:00Z"}}`},
		{"Time", `"00:00:00.5"`, `"00:00:00"`},
		{"Time", `"-00:00:00.5"`, `"-00:00:01"`},
		{"Time64(3)", `"-00:00:00.0005"`, `"-00:00:00.001"`},
		{"Time", `"-999:59:59.5"`, ""},
	} {
		table := Compile("t", columns("v "+c.column), time.UTC)
		body := `{"v":` + c.value + `}`
		if exact := decodeAll(t, table, JSON, body, DecodeOptions{})[0]; assert.NotNil(t, exact.Err, body) && c.want != "" {
			assert.Equal(t, CodeTypeMismatch, exact.Err.Code)
			assert.Contains(t, exact.Err.Hint, "ingest.tables.t.times")
		}
		cut := decodeAll(t, table, JSON, body, DecodeOptions{CutTimes: true})[0]
		if c.want == "" {
			if assert.NotNil(t, cut.Err, body) {
				assert.Equal(t, CodeOutOfRange, cut.Err.Code)
			}
			continue
		}
		if assert.Nil(t, cut.Err, "%s: %v", body, cut.Err) {
			assert.JSONEq(t, `{"v":`+c.want+`}`, cut.JSON, c.value)
		}
	}
}
