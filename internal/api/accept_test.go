package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcceptChoosesTheRendering(t *testing.T) {
	const (
		json, ndjson, csv, tsv = "application/json", "application/x-ndjson", "text/csv", "text/tab-separated-values"
		arrow, parquet         = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
		none                   = ""
	)
	for accept, want := range map[string]string{
		"": json, " ": json, ",": json, "*/*": json, json: json, ndjson: ndjson, csv: csv, tsv: tsv, arrow: arrow, parquet: parquet,
		"application/jsonl": "application/jsonl", "application/ndjson": "application/ndjson",

		// Quality values.
		"text/csv;q=0.1, application/json":                                json,
		"text/csv;q=0.1,application/json;q=0.2,text/*;q=0.3":              tsv,
		"application/json;q=0.001, text/csv ; Q=0.002":                    csv,
		"text/csv;q=0, application/json":                                  json,
		"text/csv;q=0":                                                    none,
		"application/json;q=0, */*":                                       ndjson,
		"*/*;q=0.1, text/csv;q=0":                                         json,
		"*/*;q=0":                                                         none,
		"application/json;q=0.0, application/*;q=0.5, text/csv;q=.4":      ndjson,
		"text/csv;q=2, application/json;q=0.1":                            json,
		"text/csv;q=high":                                                 none,
		"text/csv;q=NaN, application/json;q=0.1":                          json,
		"application/json;q=0.5, text/csv;q=0.5":                          json,
		"text/csv, application/json":                                      csv,
		"application/vnd.apache.parquet;q=1.0, application/json;q=0.9999": parquet,

		// Ranges, and what is named more exactly.
		"text/*": csv, "TEXT/CSV": csv, "text/CSV;q=0.5, text/*;q=0.6": tsv, "*/*, text/csv": csv, "*": json,
		"text/html, image/gif, *; q=.2, */*; q=.2":                                   json,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8": json,
		"application/json, text/plain, */*":                                          json,
		"application/*":                                                              json,
		"*/csv":                                                                      none,

		// Parameters.
		"application/json; charset=utf-8": json, `text/csv; charset="UTF-8"; header=present`: csv,
		"text/csv;header=absent":                                        none,
		"text/csv;header=absent, text/csv;q=0.5":                        csv,
		"text/csv;header=present;q=0, text/csv, application/json;q=0.1": json,
		"application/json;charset=latin1":                               none,
		"application/json;indent=2":                                     json,
		`text/html;note="a, text/csv", application/json;q=0.5`:          json,
		`text/html;note="\", text/csv", application/json;q=0.5`:         json,
		`text/html;note="text/csv`:                                      none,

		// What there is not.
		"text/html": none, "application/xml, image/*": none, "json": none, "csv, json": none,
		// How errors look is no word about rows.
		"application/problem+json":            json,
		"application/problem+json, text/html": none,
		"application/problem+json, text/csv":  csv,

		strings.Repeat("image/png,", maxRanges-1) + csv: csv,
		strings.Repeat("image/png,", maxRanges) + csv:   none,
	} {
		got, err := rowsAccepted(http.Header{"Accept": {accept}})
		if want == none {
			p := problemOf(err)
			require.Equal(t, []any{http.StatusNotAcceptable, "accept.unsupported"}, []any{p.Status, p.Code}, accept)
			for _, r := range renderings {
				require.Contains(t, p.Message, r.mediaType, "it is told what there is")
			}
			continue
		}
		require.NoError(t, err, accept)
		require.Equal(t, want, got.mediaType, accept)
	}

	got, err := rowsAccepted(http.Header{"Accept": {"text/csv;q=0.5", "application/x-ndjson"}})
	require.NoError(t, err)
	require.Equal(t, ndjson, got.mediaType, "several headers are one")
	got, err = rowsAccepted(http.Header{})
	require.NoError(t, err)
	require.Equal(t, json, got.mediaType)

	require.NoError(t, jsonAccepted(http.Header{"Accept": {"text/csv, application/*;q=0.1"}}))
	require.Error(t, jsonAccepted(http.Header{"Accept": {"text/csv"}}))
	header := http.Header{"Accept": {"text/html, text/csv;q=0.5, application/json;q=0.1"}}
	require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = rowsAccepted(header) }))
}

func FuzzAccept(f *testing.F) {
	f.Add(`text/csv;a="b,c";q=0.5, */*;q=0`)
	f.Fuzz(func(t *testing.T, accept string) {
		got, err := rowsAccepted(http.Header{"Accept": {accept}})
		if err == nil && got.mediaType == "" {
			t.Fatal("nothing was chosen")
		}
	})
}
