package api

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/query"
)

// Held whole or sent in pieces of any size, an answer ends behind the last row that
// may be sent.
func TestAnAnswerEndsBehindItsLastRow(t *testing.T) {
	type format struct {
		query.Format
		begin, row, between, end, none string
	}
	formats := map[string]format{
		"json":   {query.FormatJSON, "[\n", `{"a":"},\n]\","}`, ",\n", "\n]\n", "\n]\n"},
		"ndjson": {query.FormatNDJSON, "", `{"a":"\n"}`, "\n", "\n", ""},
		"tsv":    {query.FormatTSV, "a\tb\n", `"\n"	"`, "\n", "\n", ""},
		"csv":    {query.FormatCSV, "\"a\",\"b\"\n", "\"x\n\"\",\ny\",\"\"", "\n", "\n", ""},
	}
	for name, f := range formats {
		for rows := range 5 {
			for most := range 5 {
				answer := func(n int) string {
					if n == 0 {
						return f.begin + f.none
					}
					return f.begin + strings.Repeat(f.row+f.between, n-1) + f.row + f.end
				}
				text, want := answer(rows), answer(min(rows, most))
				if most == 0 && rows > 0 && name == "json" {
					want = "[\n]\n"
				}
				c := &rowCap{Cap: query.Cap{Rows: int64(most), By: query.CapLimit}, format: f.Format}
				kept, notes := c.whole([]byte(text))
				cut := notes != nil
				require.Equal(t, want, string(kept), "%s: %d of %d rows", name, most, rows)
				require.Equal(t, rows > most, cut, "%s: %d of %d rows", name, most, rows)
				for size := 1; size <= len(text); size++ {
					var out bytes.Buffer
					w := c.writer(&out)
					for rest := []byte(text); len(rest) > 0; {
						n, err := w.Write(rest[:min(size, len(rest))])
						require.NoError(t, err)
						rest = rest[n:]
					}
					require.Equal(t, strings.ReplaceAll(want, "[\n\n]", "[\n]"), strings.ReplaceAll(out.String(), "[\n\n]", "[\n]"), "%s: %d of %d rows, in pieces of %d", name, most, rows, size)
				}
			}
		}
	}
}
