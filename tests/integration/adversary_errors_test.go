package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What ClickHouse says of a failure may quote hidden rows, the rule that hides
// them and columns that are denied. Only who is held by no rule is told.
func TestAdversaryErrorTexts(t *testing.T) {
	t.Parallel()
	s, analyst := vault(t)
	s.ch.Exec(t,
		"CREATE VIEW firsts AS SELECT event_id, org, toInt64(page) AS num FROM vault ORDER BY num LIMIT 1000", // the rule cannot come first here
		"CREATE VIEW derived AS SELECT event_id, org, toInt64(secret) AS num FROM vault")
	require.Equal(t, http.StatusOK, s.ops(http.MethodPost, "/v1/ops/schema/refresh", "").status)
	const grant = `{"select":{"deny_columns":["secret"],"filter":{"org":{"_eq":"birch"}}}}`
	s.writeFile("policies.json", `{"tables":{"*":{"analyst":`+grant+`},"vault":{"analyst":`+strings.Replace(grant, `"filter"`, `"max_rows_to_read":399,"filter"`, 1)+`}}}`)
	s.adopt(strings.ReplaceAll(pipesFile(
		"p", `"sql":"SELECT event_id FROM vault WHERE toInt64(page) > {{n}} AND org = {{ jwt.org }}","parameters":[{"name":"n","type":"number"}]`,
		"w", `"sql":"INSERT INTO vault (event_id, n) SELECT event_id, toInt64(page) FROM vault WHERE org != {{ jwt.org }}"`), "public", "analyst"))
	for name, ask := range map[string]func(headers ...string) answer{
		"CANNOT_PARSE_TEXT, a view":  func(h ...string) answer { return s.query("firsts", `{"columns":["num"]}`, h...) },
		"CANNOT_PARSE_TEXT, derived": func(h ...string) answer { return s.query("derived", `{"columns":["num"],"limit":1}`, h...) },
		"CANNOT_PARSE_TEXT, CSV": func(h ...string) answer {
			return s.query("firsts", `{"columns":["num"]}`, append(h, "Accept", "text/csv")...)
		},
		"TOO_MANY_ROWS, a cap":         func(h ...string) answer { return s.query("vault", `{"columns":["n"]}`, h...) },
		"CANNOT_PARSE_TEXT, a pipe":    func(h ...string) answer { return s.pipe("p?n=1", h...) },
		"CANNOT_PARSE_TEXT, a writing": func(h ...string) answer { return s.do(http.MethodPost, "/v1/pipes/w", "", h...) },
	} {
		a := ask(analyst...)
		require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", name, a.body)
		noLeak(t, a, "")
		p := decode[problem](t, a)
		assert.Equal(t, "ClickHouse refused the query: "+strings.Split(name, ",")[0], p.Error)
		assert.NotZero(t, p.ClickHouseCode)
		assert.False(t, p.Retryable)
	}
	// The table changed behind the server's back.
	s.ch.Exec(t, "CREATE OR REPLACE VIEW derived AS SELECT event_id, org, secret FROM vault")
	a := s.query("derived", `{"columns":["num"]}`, analyst...)
	require.Equal(t, http.StatusBadRequest, a.status, a.body)
	assert.NotContains(t, a.body, "secret")
	assert.NotContains(t, a.body, "birch")
	// The operator reads it all.
	a = s.query("firsts", `{"columns":["num"]}`, "X-Operator-Key", operatorKey)
	require.Equal(t, http.StatusBadRequest, a.status, a.body)
	assert.Contains(t, a.body, "HIDDEN-page")
}
