package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/record"
)

func TestTheValueBelowOneThatATypeCannotHold(t *testing.T) {
	for _, c := range []struct {
		typ, value, floor string
		exact             bool
	}{
		{"Int8", `1.5`, `1`, false},
		{"Int8", `-1.5`, `-2`, false},
		{"Int8", `"-0.001"`, `-1`, false},
		{"Int8", `0.001`, `0`, false},
		{"Int8", `-9.5`, `-10`, false},
		{"Int8", `-99.5`, `-100`, false},
		{"UInt8", `1.0`, `1`, true},
		{"UInt8", `12e1`, `120`, true},
		{"UInt8", `125e-1`, `12`, false},
		{"UInt8", `1e-400`, `0`, false},
		{"UInt8", `-0.0`, `0`, true},
		{"Int64", `9007199254740992.5`, `9007199254740992`, false},
		{"Int256", `1e30`, `1000000000000000000000000000000`, true},
		{"Decimal(9, 2)", `0.30000000000000004`, `0.30`, false},
		{"Decimal(9, 2)", `-0.30000000000000004`, `-0.31`, false},
		{"Decimal(9, 2)", `-0.001`, `-0.01`, false},
		{"Decimal(9, 2)", `0.001`, `0.00`, false},
		{"Decimal(9, 2)", `1234.5678`, `1234.56`, false},
		{"Decimal(9, 2)", `9.999`, `9.99`, false},
		{"Decimal(9, 0)", `9.999`, `9`, false},
		{"DateTime", `1730615400123`, `"2024-11-03T06:30:00Z"`, false},
		{"DateTime", `1730615400.5`, `"2024-11-03T06:30:00Z"`, false},
		{"DateTime64(3)", `-0.0005`, `"1969-12-31T23:59:59.999Z"`, false},
		{"DateTime64(9)", `-0.0000000001`, `"1969-12-31T23:59:59.999999999Z"`, false},
		{"DateTime64(6)", `"1730615400123456789"`, `"2024-11-03T06:30:00.123456Z"`, false},
		{"DateTime", `"2026-06-21 04:00:00.5"`, `"2026-06-21 04:00:00"`, false},
		{"DateTime64(3, 'UTC')", `"1950-06-21T04:00:00.0009+02:00"`, `"1950-06-21T04:00:00.000+02:00"`, false},
		{"DateTime64(9)", `"2026-06-21T04:00:00.0000000001Z"`, `"2026-06-21T04:00:00.000000000Z"`, false},
		{"Time", `"12:00:00.5"`, `"12:00:00"`, false},
		{"Time", `"-12:00:00.5"`, `"-12:00:01"`, false},
		{"Time64(3)", `"-00:00:00.0001"`, `"-00:00:00.001"`, false},
	} {
		typ, err := coltype.Parse(c.typ)
		require.NoError(t, err)
		floor, exact, ok := record.Floor(typ, []byte(c.value))
		assert.True(t, ok, "%s %s", c.typ, c.value)
		assert.Equal(t, c.floor, string(floor), "%s %s", c.typ, c.value)
		assert.Equal(t, c.exact, exact, "%s %s", c.typ, c.value)
	}
}

func TestNothingIsBelowWhatIsNoNumberAndNoTime(t *testing.T) {
	for typ, values := range map[string][]string{
		"Int8": {`"abc"`, `""`, `true`, `null`, `[1]`, `{}`, `"1.5x"`, `1e1000000000`, `"nan"`}, "Decimal(9, 2)": {`"abc"`, `"1e"`},
		"DateTime": {`"soon"`, `"2026-06-21T04:00:00Z"`, `1e9`, `1730615400123.5`, `99999999999999999999`},
		"Time":     {`"12:60:00.5"`, `"-999:59:59.5"`, `"soon"`, `1.5`}, "String": {`"1.5"`, `1.5`}, "Float64": {`1.5`}, "Date": {`"2026-06-21T04:00:00Z"`},
	} {
		parsed, err := coltype.Parse(typ)
		require.NoError(t, err)
		for _, value := range values {
			_, _, ok := record.Floor(parsed, []byte(value))
			assert.False(t, ok, "%s %s", typ, value)
		}
	}
}
