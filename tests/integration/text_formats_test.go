package integration

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What separates and escapes in CSV, TSV and JSON is part of a text all the same, for
// readers that others wrote: ClickHouse's, and the library of Go.
func TestTextAnswersAreReadByOthers(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, "CREATE TABLE texts (id UInt32, v String, n Nullable(String), d Decimal(38, 18), a Array(String), m DateTime64(3, 'UTC')) ENGINE = MergeTree ORDER BY id")
	texts := []string{
		"", " lead and trail ", "a,b;c", `"quoted"`, `""`, "'", "two\nlines", "cr\rlf\r\n", "tab\there", `back\slash\n`, `\N`, "NULL", "null", "é漢🎈", "\u2028\u0000\u0001",
		`{"json":[1]}`, "=1+1", "1e5", "007",
	}
	var lines strings.Builder
	for i, text := range texts {
		row, err := json.Marshal(map[string]any{
			"id": i, "v": text, "n": []any{nil, text}[i%2], "d": "-1.5", "a": []string{text, ""}, "m": "1969-12-31T23:59:59.089Z",
		})
		require.NoError(t, err)
		lines.Write(append(row, '\n'))
	}
	s.accept("texts", lines.String())
	s.stored("texts", len(texts))

	const structure = "id UInt32, v String, n Nullable(String), d Decimal(38, 18), a Array(String), m DateTime64(3, 'UTC')"
	const all = "toString(groupArray((id, v, ifNull(n, '(none)'), d, a, m)))"
	want := s.ch.Value(t, "SELECT "+all+" FROM (SELECT * FROM texts ORDER BY id)")
	bodies := map[string]string{}
	for format, media := range map[string]string{
		"CSVWithNames": "text/csv", "TabSeparatedWithNames": "text/tab-separated-values", "JSONEachRow": "application/x-ndjson",
	} {
		a := s.query("texts", `{"select_all":true,"order_by":[{"column":"id"}]}`, "Accept", media)
		require.Equal(t, http.StatusOK, a.status, a.body)
		assert.Equal(t, want, s.readBack(a.body, format, structure, all), format)
		bodies[media] = a.body
	}

	records, err := csv.NewReader(strings.NewReader(bodies["text/csv"])).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"id", "v", "n", "d", "a", "m"}, records[0])
	got := make([]string, 0, len(texts))
	for _, r := range records[1:] {
		got = append(got, r[1])
	}
	// The library makes one byte of two at the end of a line, in quotes too.
	crlf := slices.Index(texts, "cr\rlf\r\n")
	assert.Equal(t, slices.Replace(slices.Clone(texts), crlf, crlf+1, "cr\rlf\n"), got)

	for i, line := range slices.Collect(strings.Lines(bodies["application/x-ndjson"])) {
		var row struct {
			ID uint32
			V  string
			N  *string
			D  json.Number
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		assert.Equal(t, fmt.Sprintf("%d %q %t -1.5", i, texts[i], i%2 == 1), fmt.Sprintf("%d %q %t %s", row.ID, row.V, row.N != nil, row.D))
	}
}
