package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every route that answers rows chooses their format alike.
func TestAcceptChoosesTheFormatOfRows(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{}, `{"event_id":"1","page":"/a\tb"}`)
	s.adopt(pipesFile("rows", `"sql":"SELECT event_id, page FROM pages"`, "add", `"sql":"INSERT INTO pages (event_id) VALUES ('2')"`))
	const sql = "SELECT event_id, page FROM pages"
	for route, ask := range map[string]func(accept string) answer{
		"query": func(accept string) answer {
			return s.query("pages", `{"columns":["event_id","page"]}`, "Accept", accept)
		},
		"pipe": func(accept string) answer { return s.pipe("rows", "Accept", accept) },
		"ops":  func(accept string) answer { return s.opsSQL(sql, "Accept", accept) },
	} {
		for accept, want := range map[string][2]string{
			"text/csv;q=0.1, application/json":       {"application/json", `[{"event_id":"1","page":"/a\tb"}]`},
			"text/html, */*;q=0.1":                   {"application/json", `[{"event_id":"1","page":"/a\tb"}]`},
			"application/json;q=0.5, text/*":         {"text/csv", "\"event_id\",\"page\"\n\"1\",\"/a\tb\"\n"},
			"text/tab-separated-values":              {"text/tab-separated-values", "event_id\tpage\n1\t/a\\tb\n"},
			"application/jsonl":                      {"application/jsonl", `{"event_id":"1","page":"/a\tb"}` + "\n"},
			"application/json;q=0, application/*":    {"application/x-ndjson", `{"event_id":"1","page":"/a\tb"}` + "\n"},
			"application/vnd.apache.arrow.stream":    {"application/vnd.apache.arrow.stream", "\xff\xff\xff\xff"},
			"application/vnd.apache.parquet, x/*;q=": {"application/vnd.apache.parquet", "PAR1"},
		} {
			a := ask(accept)
			require.Equal(t, http.StatusOK, a.status, "%s: %s: %s", route, accept, a.body)
			assert.Equal(t, want[0], a.header.Get("Content-Type"), "%s: %s", route, accept)
			assert.True(t, strings.HasPrefix(strings.ReplaceAll(strings.ReplaceAll(a.body, "[\n", "["), "\n]", "]"), want[1]), "%s: %s: %q", route, accept, a.body)
			assert.Contains(t, a.header.Values("Vary"), "Accept", "%s: %s", route, accept)
		}
		a := ask("text/html, application/xml;q=0.9, text/csv;q=0")
		p := refused(t, a, http.StatusNotAcceptable, "accept.unsupported")
		assert.Contains(t, p.Error, "text/tab-separated-values")
		assert.Contains(t, a.header.Values("Vary"), "Accept")
	}

	for _, as := range []string{"application/json", ndjson, "text/csv", "text/tab-separated-values", "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"} {
		got, head := s.pipe("rows", "Accept", as), s.do(http.MethodHead, "/v1/pipes/rows", "", "Accept", as)
		assert.Empty(t, head.body)
		assert.Equal(t, http.StatusOK, head.status)
		for _, name := range []string{"Content-Type", "Content-Length", "Vary", "Etag", "Cache-Control"} {
			assert.Equal(t, got.header.Values(name), head.header.Values(name), "%s as %s", name, as)
		}
	}
	assert.Equal(t, http.StatusNotAcceptable, s.do(http.MethodHead, "/v1/pipes/rows", "", "Accept", "text/html").status)

	a := s.opsSQL(sql+" FORMAT JSONCompactEachRow", "Accept", "text/csv")
	assert.Equal(t, "[\"1\", \"/a\\tb\"]\n", a.body, "the statement's own format wins")
	assert.NotContains(t, a.header.Get("Content-Type"), "text/csv")
	a = s.opsSQL(sql+" FORMAT Values", "Accept", "text/html")
	assert.Equal(t, "('1','/a\\tb')", a.body, "and is no matter of what is accepted")

	refused(t, s.do(http.MethodPost, "/v1/pipes/add", "", append(operator(), "Accept", "text/csv")...), http.StatusNotAcceptable, "accept.unsupported")
	assert.Equal(t, "1", s.ch.Value(t, "SELECT count() FROM pages"), "what is refused wrote nothing")
	refused(t, s.ops(http.MethodGet, "/v1/ops/types?role=viewer", "", "Accept", "text/csv"), http.StatusNotAcceptable, "accept.unsupported")
}
