package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// However an answer is cut into pieces, it becomes the same object.
func TestRowsAndTotalsOfEventsInPieces(t *testing.T) {
	const progress = `{"progress":{"read_rows":"10"}}` + "\n" + `{"meta":[{"name":"{\"row\":","type":"String"}]}` + "\n"
	const totals = `{"totals":{"k":null,"n":{"a":{}}}}` + "\n" + `{"rows_before_limit_at_least":3}` + "\n"
	for _, c := range []struct {
		events string
		rows   int64
		want   string
		cut    bool
	}{
		{progress + totals, 5, `{"rows":[],"totals":{"k":null,"n":{"a":{}}}}`, false},
		{progress + `{"row":{"k":"}\n{\"totals\":","n":{"a":{}}}}` + "\n" + totals, 1, `{"rows":[{"k":"}\n{\"totals\":","n":{"a":{}}}],"totals":{"k":null,"n":{"a":{}}}}`, false},
		{`{"row":{"k":1}}` + "\n" + progress + `{"row":{"k":{}}}` + "\n" + `{"row":{}}` + "\n" + totals, 2, `{"rows":[{"k":1},{"k":{}}],"totals":{"k":null,"n":{"a":{}}}}`, true},
		{`{"row":{"k":1}}` + "\n" + totals, 0, `{"rows":[],"totals":{"k":null,"n":{"a":{}}}}`, true},
	} {
		whole, cut := rowsAndTotals([]byte(c.events), c.rows)
		assert.JSONEq(t, c.want, string(whole))
		assert.Equal(t, c.cut, cut)
		for size := 1; size <= len(c.events); size++ {
			var sent bytes.Buffer
			w := totalsWriter{w: &sent, left: c.rows}
			for rest := []byte(c.events); len(rest) > 0; {
				n := min(size, len(rest))
				_, err := w.Write(rest[:n])
				require.NoError(t, err)
				rest = rest[n:]
			}
			require.Equal(t, string(whole), sent.String(), "in pieces of %d", size)
		}
	}
	// What ends before its totals is not taken for whole.
	cut, _ := rowsAndTotals([]byte(`{"row":{"k":1}}`+"\n"), 5)
	assert.False(t, json.Valid(cut))
	assert.True(t, strings.HasPrefix(string(cut), `{"rows":[`))
}
