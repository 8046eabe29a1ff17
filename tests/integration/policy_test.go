package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const columnPolicy = `{"tables":{"pages":{
	"viewer":{"select":{"deny_columns":["secret"]}},
	"analyst":{"select":{"allow_columns":["event_id","org"]}},
	"writer":{"insert":{"allow_columns":["event_id","page","secret","org"]},"select":{}}}}}`

func TestStreamShowsTheColumnsTheQueryShows(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: columnPolicy}, pagesTable)
	viewer, analyst := s.listen("pages", "", as(t, "viewer")...), s.listen("pages", "", as(t, "analyst")...)
	opening := viewer.LastID()
	s.accept("pages", `{"event_id":"1","page":"/a","org":"birch","secret":"hush"}`+"\n"+`{"event_id":"2","page":"/b","org":"cedar","secret":"hush"}`, as(t, "writer")...)
	s.stored("pages", 2)
	want := []string{`{"event_id":"1","page":"/a","org":"birch"}`, `{"event_id":"2","page":"/b","org":"cedar"}`}
	for i, row := range viewer.rows(2) {
		assert.Equal(t, want[i], string(row))
	}
	for i, row := range analyst.rows(2) {
		assert.Equal(t, []string{`{"event_id":"1","org":"birch"}`, `{"event_id":"2","org":"cedar"}`}[i], string(row))
	}
	again := s.listen("pages", opening, as(t, "viewer")...)
	for i := range 2 {
		_, frame := again.row()
		assert.Contains(t, frame.Data, want[i])
		assert.NotContains(t, frame.Data, "secret")
		assert.NotContains(t, frame.Data, "hush")
	}
	a := s.query("pages", `{"select_all":true}`, as(t, "viewer")...)
	assert.NotContains(t, a.body, "hush")
	assert.NotContains(t, a.body, "secret")
	// A column outside the insert grant refuses its record alone.
	b := s.ingestLines("pages", `{"event_id":"3","n":1}`+"\n"+`{"event_id":"3","page":"/"}`, as(t, "writer")...)
	assert.Equal(t, []string{"record.column_not_allowed", ""}, verdicts(b))
	refused(t, s.ingest("pages", `{"event_id":"3","n":1}`, as(t, "writer")...), http.StatusForbidden, "record.column_not_allowed")
	refused(t, s.ingest("pages", `{"event_id":"3","page":"/"}`, as(t, "viewer")...), http.StatusForbidden, "auth.forbidden")
}

func TestMisspelledRulesAreRefused(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{}, `{"event_id":"1","page":"/"}`)
	table := func(entry string) string {
		return `{"default_role":"public","tables":{"pages":{"public":` + entry + `}}}`
	}
	for _, policies := range []string{
		table(`{"select":{"filter":{"org":{"eq":"x"}}}}`), table(`{"select":{"filter":{"org":{}}}}`), table(`{"insert":{"filter":{"org":{"_eq":"x"}}}}`),
		table(`{"select":{"fliter":{"org":{"_eq":"x"}}}}`), table(`{"insert":{"check":{"org":{"_gt":"x"}}}}`),
		table(`{"select":{"filter":{"org":{"_eq":"{{ jwt.org }"}}}}`), table(`{"select":{"filter":{"org":{"_eq":"{{jwt}}"}}}}`),
		`{"tables":{"pages":{"nobody":{"select":{}}}}}`, `{"default_rôle":"public"}`, table(`{"select":{"max_rows":-1}}`),
	} {
		s.writeFile("policies.json", policies)
		a := s.reload()
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", policies, a.body)
		answer := decode[reloadAnswer](t, a)
		assert.False(t, answer.Adopted)
		var paths []string
		for _, f := range answer.Findings {
			if f.Severity == "error" {
				assert.Equal(t, "policies.json", f.File)
				paths = append(paths, f.Path)
			}
		}
		require.NotEmpty(t, paths, policies)
		assert.NotEmpty(t, strings.Join(paths, ""), policies)
		assert.Len(t, s.rows("pages", `{"select_all":true}`), 1, "the old policy holds")
	}
	assert.NotEmpty(t, s.logs.lines("policies.json"))
}

type reloadAnswer struct {
	Adopted  bool     `json:"adopted"`
	Changed  []string `json:"changed"`
	Refused  []string `json:"refused"`
	Removed  []string `json:"removed"`
	Findings []struct {
		Severity string `json:"severity"`
		File     string `json:"file"`
		Path     string `json:"path"`
		Line     int    `json:"line"`
		Message  string `json:"message"`
	} `json:"findings"`
}

// A grant speaks of names: a column that was renamed is another column.
func TestGrantOnAColumnThatNoLongerExists(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: columnPolicy}, pagesTable)
	analyst := as(t, "analyst")
	l := s.listen("pages", "", analyst...)
	s.accept("pages", `{"event_id":"1","page":"/","org":"birch"}`, as(t, "writer")...)
	s.stored("pages", 1)
	assert.JSONEq(t, `{"event_id":"1","org":"birch"}`, string(s.rows("pages", `{"select_all":true}`, analyst...)[0]))
	s.ch.Exec(t, "ALTER TABLE pages RENAME COLUMN org TO org2")
	require.Equal(t, http.StatusOK, s.ops(http.MethodPost, "/v1/ops/schema/refresh", "").status)
	assert.JSONEq(t, `{"event_id":"1"}`, string(s.rows("pages", `{"select_all":true}`, analyst...)[0]))
	for _, column := range []string{"org", "org2"} {
		a := s.query("pages", `{"columns":["`+column+`"]}`, analyst...)
		assert.Contains(t, []int{http.StatusBadRequest, http.StatusForbidden}, a.status, a.body)
	}
	refused(t, s.ingest("pages", `{"event_id":"2","page":"/","org2":"x"}`, as(t, "writer")...), http.StatusForbidden, "record.column_not_allowed")
	a := s.ops(http.MethodPost, "/v1/ingest?table=pages", "")
	require.Equal(t, http.StatusUnsupportedMediaType, a.status)
	a = s.ingest("pages", `{"event_id":"2","page":"/","org2":"hidden"}`, "X-Operator-Key", operatorKey)
	require.Equal(t, http.StatusOK, a.status, a.body)
	rows := l.rows(2)
	assert.JSONEq(t, `{"event_id":"1","org":"birch"}`, string(rows[0]))
	assert.JSONEq(t, `{"event_id":"2"}`, string(rows[1]))
}

func TestNoPolicyAtAll(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: `{}`}, `{"event_id":"1","page":"/"}`)
	bearer := func(claims jwt.MapClaims) []string { return []string{"Authorization", "Bearer " + token(t, claims)} }
	for _, caller := range [][]string{nil, bearer(jwt.MapClaims{"role": "viewer"}), bearer(jwt.MapClaims{"role": "admin"}), bearer(jwt.MapClaims{})} {
		for _, a := range []answer{
			s.query("pages", `{"select_all":true}`, caller...), s.ingest("pages", `{"event_id":"2","page":"/"}`, caller...),
			s.do(http.MethodGet, "/v1/stream?table=pages", "", caller...), s.do(http.MethodGet, "/v1/ops/schema", "", caller...),
			s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, caller...),
		} {
			assert.Equal(t, http.StatusForbidden, a.status, a.body)
		}
	}
	assert.Equal(t, http.StatusUnauthorized, s.query("pages", `{"select_all":true}`, "Authorization", "Bearer nonsense").status)
	assert.Equal(t, http.StatusOK, s.ops(http.MethodGet, "/v1/ops/schema", "").status)
	assert.Equal(t, http.StatusOK, s.opsSQL("SELECT count() FROM pages").status)
	// Data needs a policy that defines it.
	assert.Equal(t, http.StatusForbidden, s.query("pages", `{"select_all":true}`, "X-Operator-Key", operatorKey).status)
	assert.Equal(t, 1, s.ch.Count(t, "pages"))
	assert.NotEmpty(t, s.logs.lines(`"level":"WARN"`, "policies.json"), "it is said at the start")
}

// The admin role passes everything once a policy is adopted.
func TestAdminRolePasses(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"admin_role":"analyst","tables":{}}`}, pagesTable)
	root, admin := as(t, "analyst"), as(t, "admin")
	s.accept("pages", `{"event_id":"1","page":"/","secret":"s"}`, root...)
	s.stored("pages", 1)
	assert.Len(t, s.rows("pages", `{"columns":["secret"]}`, root...), 1)
	assert.Equal(t, http.StatusOK, s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, root...).status)
	assert.Equal(t, http.StatusForbidden, s.query("pages", `{"columns":["secret"]}`, admin...).status)
	assert.Equal(t, http.StatusForbidden, s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, admin...).status)
}

// The role's caps travel to ClickHouse.
func TestRoleCapsHoldAtClickHouse(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"tables":{"pages":{"viewer":{"select":{"max_rows_to_read":10,"denied_aggregations":["quantile"]}}}}}`}, pagesTable,
		`INSERT INTO pages (event_id, page) SELECT toString(number), '/' FROM numbers(100)`)
	p := refused(t, s.query("pages", `{"columns":["page"]}`, as(t, "viewer")...), http.StatusBadRequest, "clickhouse.limit_exceeded")
	assert.Equal(t, 158, p.ClickHouseCode)
	refused(t, s.query("pages", `{"aggregations":[{"fn":"quantile","column":"n","alias":"q","params":[0.5]}]}`, as(t, "viewer")...), http.StatusForbidden, "query.aggregation_not_allowed")
}
