package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// resultFormats are the media types of answers, and how many rows a text of each
// has; nil where only another library can tell.
var resultFormats = map[string]func(body string) int{
	"application/json":     func(body string) int { return strings.Count(body, `"id":`) },
	"application/x-ndjson": func(body string) int { return strings.Count(body, "\n") },
	"text/csv":             func(body string) int { return strings.Count(body, "\n.\"") },

	"text/tab-separated-values": func(body string) int { return strings.Count(body, "\n") - 1 },

	"application/vnd.apache.arrow.stream": nil,
	"application/vnd.apache.parquet":      nil,
}

func TestAnAnswerThatIsCutSaysByWhat(t *testing.T) {
	t.Parallel()
	s := start(t, options{
		policies: `{"default_role":"public","tables":{"many":{"viewer":{"select":{"max_rows":20}},"analyst":{"select":{"filter":{"id":{"_lt":20}},"max_rows":20}},"public":{"select":{}}}}}`,
		config:   map[string]string{"query": `{"default_max_rows":30}`},
	},
		"CREATE TABLE many (id UInt32, text String) ENGINE = MergeTree ORDER BY id",
		`INSERT INTO many SELECT number, 'a "text"\n.' FROM numbers(40)`)
	for _, c := range []struct {
		role, document, by string
		rows               int
	}{
		{"public", `{%s}`, "query.default_max_rows", 30},
		{"public", `{%s,"offset":10}`, "", 30},
		{"public", `{%s,"offset":9}`, "query.default_max_rows", 30},
		{"public", `{%s,"limit":30}`, "limit", 30},
		{"public", `{%s,"limit":0}`, "limit", 0},
		{"public", `{%s,"limit":5,"order_by":[{"column":"id","dir":"desc"}]}`, "limit", 5},
		{"public", `{%s,"limit":5,"offset":35}`, "", 5},
		{"public", `{%s,"limit":5,"offset":99}`, "", 0},
		{"public", `{%s,"limit":5,"filters":[{"column":"id","op":"lt","value":5}]}`, "", 5},
		{"viewer", `{%s}`, "role.max_rows", 20},
		{"viewer", `{%s,"limit":20}`, "limit", 20},
		{"analyst", `{%s}`, "", 20}, // there are more rows, but none that the role may see
		{"analyst", `{%s,"limit":19}`, "limit", 19},
	} {
		document := fmt.Sprintf(c.document, `"columns":["id","text"]`)
		for accept, rows := range resultFormats {
			for _, cached := range []bool{false, true} {
				a := s.query("many", document, append(as(t, c.role), "Accept", accept, "Origin", "https://app.example")...)
				require.Equal(t, http.StatusOK, a.status, a.body)
				assert.Equal(t, c.by, a.header.Get("X-Result-Truncated"), "%s as %s: %s, cached %v", document, c.role, accept, cached)
				if rows != nil {
					assert.Equal(t, c.rows, rows(a.body), "%s as %s: %s\n%s", document, c.role, accept, a.body)
				}
			}
		}
	}
	for document, by := range map[string]string{
		`{"aggregations":[{"fn":"count"}]}`:                                                                 "",
		`{"columns":["id"],"group_by":["id"],"filters":[{"column":"id","op":"lt","value":30}]}`:             "",
		`{"columns":["id"],"group_by":["id"]}`:                                                              "query.default_max_rows",
		`{"columns":["id"],"group_by":["id"],"aggregations":[{"fn":"sum","column":"id","alias":"id_sum"}]}`: "query.default_max_rows",
	} {
		for accept := range resultFormats {
			a := s.query("many", document, "Accept", accept, "Origin", "https://app.example")
			require.Equal(t, http.StatusOK, a.status, a.body)
			assert.Equal(t, by, a.header.Get("X-Result-Truncated"), "%s %s", document, accept)
		}
	}

	for role, bound := range map[string]string{"public": "30 that query.default_max_rows", "viewer": "20 that role.max_rows"} {
		for _, limit := range []string{"31", "99999999999999999999"} {
			p := refused(t, s.query("many", `{"columns":["id"],"limit":`+limit+`}`, as(t, role)...), http.StatusBadRequest, "query.invalid")
			assert.Contains(t, p.Error, bound)
		}
	}
}

// An answer that is sent before its end is known is cut there, and said to be.
func TestALargeAnswerThatIsCutSaysSo(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, "CREATE TABLE large (id UInt32, text String) ENGINE = MergeTree ORDER BY id",
		`INSERT INTO large SELECT number, repeat('x', 2000) || '"\n.' FROM numbers(8000)`)
	for accept, rows := range resultFormats {
		for limit, by := range map[int]string{7000: "limit", 8000: ""} {
			a := s.query("large", fmt.Sprintf(`{"columns":["id","text"],"limit":%d}`, limit), "Accept", accept, "Accept-Encoding", "identity")
			require.Equal(t, http.StatusOK, a.status)
			assert.Equal(t, by, a.header.Get("X-Result-Truncated"), accept)
			assert.NotContains(t, a.header, "X-Answer-Error")
			if rows != nil {
				assert.Equal(t, limit, rows(a.body), accept)
			}
			if accept == "application/json" {
				assert.Len(t, decode[[]struct{ ID int }](t, a), limit)
			}
		}
	}
}
