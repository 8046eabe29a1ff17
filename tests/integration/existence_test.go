package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// alike are two answers between which a caller sees no difference but the name
// that it sent itself.
func alike(t *testing.T, there, absent answer, name, missing string) {
	t.Helper()
	require.Equal(t, http.StatusForbidden, there.status, there.body)
	assert.Equal(t, visible(there), strings.ReplaceAll(visible(absent), missing, name))
}

// Who has no grant on a table, a pipe or a column is not told whether it exists.
func TestWhatExistsIsNotToldWithoutAGrant(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"default_role":"public","tables":{
		"pages":{"writer":{"insert":{"allow_columns":["event_id","page"]}},"viewer":{"select":{"deny_columns":["secret"]}},"analyst":{"insert":{"deny_columns":["secret"]},"select":{}}},
		"hidden":{},"*":{"analyst":{"insert":{},"select":{}}}}}`},
		pagesTable, `CREATE TABLE hidden (event_id String, made String MATERIALIZED 'x', secret String) ENGINE = MergeTree ORDER BY event_id`)
	s.adopt(`{"pipes":[{"name":"closed","sql":"SELECT 1","allowed_roles":["viewer"]},{"name":"writes","sql":"INSERT INTO pages (event_id) VALUES ('1')","allowed_roles":["viewer"]},
		{"name":"open","sql":"SELECT 1","allowed_roles":["public","writer","analyst"]}]}`)
	nobody := []string{}
	for name, caller := range map[string][]string{"nobody": nobody, "writer": as(t, "writer"), "analyst": as(t, "analyst"), "a bad token": {"Authorization", "Bearer x.y.z"}} {
		for _, ask := range []func(table string) answer{
			func(table string) answer { return s.ingest(table, `{"event_id":"1"}`, caller...) },
			func(table string) answer { return s.ingest(table, ``, caller...) },
			func(table string) answer { return s.query(table, `{"select_all":true}`, caller...) },
			func(table string) answer { return s.query(table, `{`, caller...) },
			func(table string) answer { return s.do(http.MethodGet, "/v1/stream?table="+table, "", caller...) },
		} {
			there, absent := ask("hidden"), ask("hiddem")
			assert.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized}, there.status, "%s: %s", name, there.body)
			assert.Equal(t, visible(there), strings.ReplaceAll(visible(absent), "hiddem", "hidden"), name)
		}
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead} {
			for _, pipe := range []string{"closed", "writes"} {
				there, absent := s.do(method, "/v1/pipes/"+pipe, "", caller...), s.do(method, "/v1/pipes/nothing", "", caller...)
				assert.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized}, there.status, name)
				assert.Equal(t, visible(there), visible(absent), "%s: %s %s", name, method, pipe)
			}
		}
	}
	// Who may read or write every table, or column, is told what is not there.
	for _, all := range [][]string{{"X-Operator-Key", operatorKey}, as(t, "admin")} {
		refused(t, s.ingest("nosuch", `{}`, all...), http.StatusNotFound, "table.unknown")
		refused(t, s.query("nosuch", `{}`, all...), http.StatusNotFound, "table.unknown")
		refused(t, s.query("pages", `{"columns":["nosuch"]}`, all...), http.StatusBadRequest, "query.invalid")
		refused(t, s.ingest("pages", `{"event_id":"1","nosuch":1}`, all...), http.StatusBadRequest, "record.unknown_column")
		refused(t, s.pipe("nosuch", all...), http.StatusNotFound, "pipe.unknown")
	}
	refused(t, s.query("pages", `{"columns":["nosuch"]}`, as(t, "analyst")...), http.StatusBadRequest, "query.invalid")
	// The table went, and its grant stays.
	s.ch.Exec(t, "DROP TABLE pages")
	s.ops(http.MethodPost, "/v1/ops/schema/refresh", "")
	refused(t, s.query("pages", `{"columns":["page"]}`, as(t, "viewer")...), http.StatusForbidden, "auth.forbidden")
}

func TestColumnsAreNotToldWithoutAGrant(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"tables":{"pages":{"writer":{"insert":{"allow_columns":["event_id","page"]}},"viewer":{"select":{"deny_columns":["secret","made"]}},
		"analyst":{"insert":{"deny_columns":["secret","made"]}}}}}`},
		`CREATE TABLE pages (event_id String, page String, secret String DEFAULT '', made String MATERIALIZED 'x') ENGINE = MergeTree ORDER BY event_id`)
	for _, role := range []string{"writer", "analyst"} {
		for there, absent := range map[string]string{"secret": "sicret", "made": "mode"} {
			for _, body := range []string{`{"event_id":"1","%":"x"}`, `{"%":"x","event_id":"1"}`, `{"event_id":"1","%":{"a":[1]}}`, `[{"event_id":"1","%":null}]`} {
				ask := func(name string) answer {
					return s.ingest("pages", strings.ReplaceAll(body, "%", name), as(t, role)...)
				}
				assert.Equal(t, visible(ask(there)), strings.ReplaceAll(visible(ask(absent)), absent, there), "%s: %s", role, body)
			}
			csv := func(name string) answer {
				return s.do(http.MethodPost, "/v1/ingest?table=pages", "event_id,"+name+"\n1,x\n", append(as(t, role), "Content-Type", "text/csv")...)
			}
			alike(t, csv(there), csv(absent), there, absent)
		}
	}
	for there, absent := range map[string]string{"secret": "sicret", "made": "mode"} {
		for _, body := range []string{
			`{"columns":["%"]}`, `{"select_all":true,"order_by":[{"column":"%"}]}`, `{"aggregations":[{"fn":"max","column":"%"}]}`, `{"columns":["page"],"filters":[{"column":"%","op":"like","value":"x"}]}`,
			`{"aggregations":[{"fn":"count"}],"group_by":["%"]}`, `{"columns":["page"],"time_range":{"column":"%","since":"1h"}}`, `{"columns":["page"],"time_bucket":{"column":"%","every":"1h"}}`,
		} {
			ask := func(name string) answer {
				return s.query("pages", strings.ReplaceAll(body, "%", name), as(t, "viewer")...)
			}
			alike(t, ask(there), ask(absent), there, absent)
		}
	}
	assert.Equal(t, 0, s.ch.Count(t, "pages"))
}

func TestAPipeThatWritesAnswersPostAlone(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	s.adopt(pipesFile("add", `"sql":"INSERT INTO pages (event_id) VALUES ('1')"`, "see", `"sql":"SELECT 1"`))
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		a := s.do(method, "/v1/pipes/add", "")
		assert.Equal(t, http.StatusMethodNotAllowed, a.status, a.body)
		assert.Equal(t, []string{http.MethodPost}, a.header.Values("Allow"))
		assert.Equal(t, http.StatusOK, s.do(method, "/v1/pipes/see", "").status)
	}
	refused(t, s.do(http.MethodGet, "/v1/pipes/add", ""), http.StatusMethodNotAllowed, "method.not_allowed")
	assert.Equal(t, 0, s.ch.Count(t, "pages"))
	assert.Equal(t, http.StatusOK, s.do(http.MethodPost, "/v1/pipes/add", "").status)
	s.stored("pages", 1)
}
