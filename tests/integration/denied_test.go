package integration

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// What the server's own ClickHouse user may not do is no refusal of the caller,
// and the operator is told which grant is missing.
func TestAGrantThatTheServersUserLacksIsTheOperatorsToMend(t *testing.T) {
	t.Parallel()
	s := start(t, options{username: clickhousetest.BlindUser, logLevel: "info"}, pagesTable, `CREATE VIEW viewed AS SELECT page FROM pages`)
	s.adopt(pipesFile("all", `"sql":"SELECT * FROM pages"`, "seen", `"sql":"SELECT * FROM pages","policies":"caller"`, "view", `"sql":"SELECT * FROM viewed","policies":"caller"`))
	for _, a := range []answer{
		s.pipe("all"), s.pipe("all", "X-Operator-Key", operatorKey), s.pipe("seen"), s.pipe("view"),
		s.query("pages", `{"select_all":true}`), s.query("viewed", `{"columns":["page"]}`, "X-Operator-Key", operatorKey),
	} {
		p := refused(t, a, http.StatusBadGateway, "clickhouse.misconfigured")
		assert.Equal(t, 497, p.ClickHouseCode)
		assert.False(t, p.Retryable)
		assert.NotContains(t, p.Error, "SELECT", "what is missing is not the caller's to know")
	}
	assert.NotEmpty(t, s.logs.lines(`"level":"WARN"`, "clickhouse.misconfigured", "necessary to have the grant SELECT"))
	metrics := s.do(http.MethodGet, "/metrics", "").body
	assert.Contains(t, metrics, `wavehouse_clickhouse_requests_total{kind="query",result="misconfigured"}`, "the metric says of a read what its answer says")
	assert.NotContains(t, metrics, `wavehouse_clickhouse_requests_total{kind="query",result="denied"}`)
}

// The metric says of a read what its answer says.
func TestATimeLimitCountsAsALimit(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"default_role":"public","tables":{"slow":{"public":{"select":{"max_execution_time":"100ms"}}}}}`}, pagesTable,
		`CREATE VIEW slow AS SELECT sleepEachRow(0.05) AS page FROM numbers(200) SETTINGS max_block_size = 1`)
	refused(t, s.query("slow", `{"aggregations":[{"fn":"count","column":"page"}]}`), http.StatusBadRequest, "clickhouse.limit_exceeded")
	assert.Contains(t, s.do(http.MethodGet, "/metrics", "").body, `wavehouse_clickhouse_requests_total{kind="query",result="limit"} 1`)
}
