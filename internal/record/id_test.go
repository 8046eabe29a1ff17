package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIDs(t *testing.T) {
	table := Compile("t", []Column{
		{Name: "a", Type: "Nullable(String)"}, {Name: "n", Type: "UInt8"}, {Name: "org", Type: "String"},
	}, time.UTC)
	for _, c := range []struct {
		field  string
		format InputFormat
		body   string
		want   string
		has    bool
	}{
		{"a", JSON, `{"a":"x","n":1,"org":"o"}`, "\x01x", true},
		{"a", JSON, `{"a":null,"n":1,"org":"o"}`, "", false},
		{"a", JSON, `{"a":"","n":1,"org":"o"}`, "", false},
		{"a", JSON, `{"n":1,"org":"o"}`, "", false},
		{"n", JSON, `{"n":"0","org":"o"}`, "\x00", true},
		{"n", CSV, "n,org\n0,o\n", "\x00", true},
		{"a", CSV, "a,n,org\n,0,o\n", "", false},
		{"a", CSV, "a,n,org\n\"\",0,o\n", "", false},
		{"a", TSV, "a\tn\torg\n\t0\to\n", "", false},
		{"a", TSV, "a\tn\torg\nx\t0\to\n", "\x01x", true},
		{"org", JSON, `{"n":1}`, "", false},
		{"nope", JSON, `{"n":1,"org":"o"}`, "", false},
		{"", JSON, `{"n":1,"org":"o"}`, "", false},
	} {
		for _, required := range []bool{false, true} {
			d := table.NewDecoder(c.format, []byte(c.body), DecodeOptions{
				IDField: c.field, RequireID: required,
				Checks: []Check{{Column: 2, Allowed: [][]byte{[]byte("\x01o")}, Stamp: true}},
			})
			require.True(t, d.Next(), c.body)
			r := d.Record()
			if required && !c.has {
				require.NotNil(t, r.Err, c.body)
				assert.Equal(t, CodeMissingID, r.Err.Code, c.body)
				continue
			}
			require.Nil(t, r.Err, c.body)
			assert.Equal(t, c.has, r.ID != nil, c.body)
			assert.Equal(t, c.want, string(r.ID), c.body)
		}
	}
}
