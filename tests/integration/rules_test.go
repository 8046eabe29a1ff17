package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rulePolicy is the policy of the cases: an analyst sees the rows of the
// token's organisation, a writer writes rows of it.
const rulePolicy = `{"tables":{"pages":{
	"analyst":{"select":{"deny_columns":["secret"],"filter":{"org":{"_eq":"{{ jwt.org }}"}}}},
	"writer":{"insert":{"check":{"org":{"_eq":"{{ jwt.org }}"}}}}}}}`

const twoPages = `{"event_id":"b1","page":"/b","org":"birch","secret":"hush"}` + "\n" + `{"event_id":"c1","page":"/c","org":"cedar","secret":"hush"}`

// of is the header pair of a caller with claims beside the role.
func of(t testing.TB, role string, claims jwt.MapClaims) []string {
	t.Helper()
	all := jwt.MapClaims{"role": role}
	for name, value := range claims {
		all[name] = value
	}
	return []string{"Authorization", "Bearer " + token(t, all)}
}

// ids are the event ids of rows.
func ids(t testing.TB, rows []json.RawMessage) []string {
	t.Helper()
	all := []string{}
	for _, row := range rows {
		all = append(all, cell(t, row, "event_id"))
	}
	return all
}

// operator posts records as the operator, whom no rule holds.
func (s *server) operator(table, body string) {
	s.t.Helper()
	s.accept(table, body, "X-Operator-Key", operatorKey)
}

// withheld is how many rows the stream could not decide about.
func (s *server) withheld(table string) bool {
	s.t.Helper()
	return strings.Contains(s.do(http.MethodGet, "/metrics", "").body,
		`wavehouse_stream_rows_withheld_total{reason="filter",table="`+table+`",tenant="0"}`)
}

func TestClaimMissingUnderEveryOperator(t *testing.T) {
	t.Parallel()
	operators := map[string]string{"public": "_neq", "viewer": "_gt", "writer": "_lt", "analyst": "_eq"}
	var roles []string
	for role, op := range operators {
		roles = append(roles, `"`+role+`":{"select":{"filter":{"org":{"`+op+`":"{{ jwt.blocked_org }}"}}}}`)
	}
	s := start(t, options{policies: `{"tables":{"pages":{` + strings.Join(roles, ",") + `}}}`}, pagesTable)
	claims := []jwt.MapClaims{{}, {"blocked_org": ""}, {"blocked_org": nil}, {"blocked_org": map[string]any{}}, {"blocked_org": []string{"a"}}}
	good := s.listen("pages", "", of(t, "public", jwt.MapClaims{"blocked_org": "birch"})...)
	opening := good.LastID()
	var streams []*live
	for role := range operators {
		for _, c := range claims {
			streams = append(streams, s.listen("pages", "", of(t, role, c)...))
		}
	}
	s.operator("pages", twoPages)
	s.stored("pages", 2)
	assert.Equal(t, []string{"c1"}, ids(t, good.rows(1)))
	for role, op := range operators {
		for _, c := range claims {
			caller := of(t, role, c)
			assert.Empty(t, s.rows("pages", `{"columns":["event_id"]}`, caller...), "%s %v", op, c)
			assert.JSONEq(t, `[{"count":0}]`, s.query("pages", `{"aggregations":[{"fn":"count"}]}`, caller...).body)
			streams = append(streams, s.listen("pages", opening, caller...))
		}
	}
	s.operator("pages", twoPages)
	assert.Equal(t, []string{"c1"}, ids(t, good.rows(1)))
	s.stop()
	for _, l := range streams {
		assert.Equal(t, "end", l.event().Event, "nothing came before the end")
	}
}

func TestEachStreamGetsItsOwnRows(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: rulePolicy}, pagesTable)
	for _, org := range []string{"birch", "cedar"} {
		caller := of(t, "analyst", jwt.MapClaims{"org": org})
		l := s.listen("pages", "", caller...)
		opening := l.LastID()
		s.operator("pages", twoPages)
		want := map[string]string{"birch": "b1", "cedar": "c1"}[org]
		for _, l := range []*live{l, s.listen("pages", opening, caller...)} {
			row, frame := l.row()
			assert.Equal(t, want, cell(t, row, "event_id"))
			assert.NotContains(t, frame.Data, "secret")
			assert.NotContains(t, frame.Data, "hush")
		}
		s.eventually(func() string {
			rows := ids(t, s.rows("pages", `{"select_all":true,"limit":1}`, caller...))
			return unless(len(rows) == 1 && rows[0] == want, fmt.Sprint(rows))
		})
		assert.NotContains(t, s.query("pages", `{"select_all":true}`, caller...).body, "hush")
	}
}

func TestInsertCheckFillsAndEnforces(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: rulePolicy}, pagesTable)
	writer := of(t, "writer", jwt.MapClaims{"org": "birch"})
	b := s.ingestLines("pages", `{"event_id":"1","page":"/"}
{"event_id":"2","page":"/","org":"birch"}
{"event_id":"3","page":"/","org":"cedar"}
{"event_id":"4","page":"/","org":null}
{"event_id":"5","page":"/","org":"cedar","org":"birch"}
{"event_id":"6","page":"/","org":"birch","org":"cedar"}`, writer...)
	assert.Equal(t, []int{2, 4}, []int{b.Succeeded, b.Failed})
	assert.Equal(t, []string{"", "", "record.check_failed", "record.check_failed", "record.duplicate_column", "record.duplicate_column"}, verdicts(b))
	s.stored("pages", 2)
	assert.Equal(t, [][]string{{"1", "birch"}, {"2", "birch"}}, s.ch.Rows(t, "SELECT event_id, org FROM pages ORDER BY event_id"))
	p := refused(t, s.ingest("pages", `{"event_id":"7","page":"/","org":"cedar"}`, writer...), http.StatusForbidden, "record.check_failed")
	assert.Equal(t, "org", p.Column)
	refused(t, s.ingest("pages", `{"event_id":"8","page":"/"}`, of(t, "writer", nil)...), http.StatusForbidden, "record.check_failed")
	assert.Equal(t, 2, s.ch.Count(t, "pages"))
}

func TestLongNumericClaim(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"tables":{"t":{"viewer":{"select":{"filter":{"tenant":{"_eq":"{{ jwt.tid }}"}}}}}}}`}, `CREATE TABLE t (tenant UInt64) ENGINE = MergeTree ORDER BY tenant`)
	caller := of(t, "viewer", jwt.MapClaims{"tid": json.Number("9007199254740993")})
	l := s.listen("t", "", caller...)
	s.operator("t", `{"tenant":9007199254740992}`+"\n"+`{"tenant":9007199254740993}`)
	s.stored("t", 2)
	rows := s.rows("t", `{"select_all":true}`, caller...)
	require.Len(t, rows, 1)
	assert.JSONEq(t, `{"tenant":9007199254740993}`, string(rows[0]))
	row, _ := l.row()
	assert.Equal(t, `{"tenant":9007199254740993}`, string(row))
}

func TestRulesOnAColumnThatNoLongerExists(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: rulePolicy}, pagesTable)
	analyst, writer := of(t, "analyst", jwt.MapClaims{"org": "birch"}), of(t, "writer", jwt.MapClaims{"org": "birch"})
	l := s.listen("pages", "", analyst...)
	s.operator("pages", `{"event_id":"1","page":"/","org":"birch"}`)
	s.stored("pages", 1)
	assert.Equal(t, []string{"1"}, ids(t, l.rows(1)))
	s.ch.Exec(t, "ALTER TABLE pages RENAME COLUMN org TO org2")
	require.Equal(t, http.StatusOK, s.ops(http.MethodPost, "/v1/ops/schema/refresh", "").status)

	refused(t, s.query("pages", `{"columns":["event_id"]}`, analyst...), http.StatusForbidden, "query.column_not_allowed")
	refused(t, s.query("pages", `{"aggregations":[{"fn":"count"}]}`, analyst...), http.StatusForbidden, "query.column_not_allowed")
	p := refused(t, s.ingest("pages", `{"event_id":"2","page":"/"}`, writer...), http.StatusForbidden, "record.check_failed")
	assert.Contains(t, p.Error, "policy fault")
	assert.NotEmpty(t, s.logs.lines(`"level":"WARN"`, "row filter does not fit", `no column`, `org`, "analyst"))
	assert.NotEmpty(t, s.logs.lines(`"level":"WARN"`, "check does not fit", `no column`, "writer"))

	assert.False(t, s.withheld("pages"))
	s.operator("pages", `{"event_id":"3","page":"/","org2":"birch"}`)
	s.eventually(func() string { return unless(s.withheld("pages"), "the row is withheld and counted") })
	// The first row that shows is one that came after the policy was mended.
	s.writeFile("policies.json", strings.ReplaceAll(rulePolicy, `"org":{`, `"org2":{`))
	require.Equal(t, http.StatusOK, s.reload().status)
	s.operator("pages", `{"event_id":"4","page":"/","org2":"birch"}`)
	assert.Equal(t, []string{"4"}, ids(t, l.rows(1)))
}

func TestCallerFiltersCannotWidenTheRowFilter(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: rulePolicy}, pagesTable)
	s.operator("pages", twoPages)
	s.stored("pages", 2)
	birch := of(t, "analyst", jwt.MapClaims{"org": "birch"})
	filter := func(column, op, value string) string {
		return `{"columns":["event_id"],"filters":[{"column":` + quoted(column) + `,"op":` + quoted(op) + `,"value":` + quoted(value) + `}]}`
	}
	assert.Empty(t, s.rows("pages", filter("page", "eq", `") OR (1=1) OR (org='`), birch...))
	assert.Empty(t, s.rows("pages", filter("org", "eq", "cedar"), birch...))
	assert.Equal(t, []string{"b1"}, ids(t, s.rows("pages", filter("page", "neq", `') OR 1 OR ('`), birch...)))
	refused(t, s.query("pages", filter("org) OR (1=1", "eq", "x"), birch...), http.StatusForbidden, "query.column_not_allowed")
	refused(t, s.query("pages", filter("page", "eq OR 1", "x"), birch...), http.StatusBadRequest, "query.invalid")
	for _, injected := range []string{"birch' OR '1'='1", "birch') OR 1 --", `birch\' OR 1 --`, "{p0:String}", "%", "birch\x00"} {
		assert.Empty(t, s.rows("pages", `{"columns":["event_id"]}`, of(t, "analyst", jwt.MapClaims{"org": injected})...), injected)
	}
}

// A policy that is edited holds for the next request and the next row.
func TestAnEditedRuleHoldsForTheNextRow(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: rulePolicy}, pagesTable)
	birch := of(t, "analyst", jwt.MapClaims{"org": "birch"})
	l := s.listen("pages", "", birch...)
	s.operator("pages", twoPages)
	assert.Equal(t, []string{"b1"}, ids(t, l.rows(1)))
	s.writeFile("policies.json", strings.Replace(rulePolicy, `{"_eq":"{{ jwt.org }}"}`, `{"_neq":"{{ jwt.org }}"}`, 1))
	require.Equal(t, http.StatusOK, s.reload().status)
	s.operator("pages", strings.ReplaceAll(strings.ReplaceAll(twoPages, "b1", "b2"), "c1", "c2"))
	assert.Equal(t, []string{"c2"}, ids(t, l.rows(1)))
	s.stored("pages", 4)
	assert.Equal(t, []string{"c1", "c2"}, ids(t, s.rows("pages", `{"columns":["event_id"],"order_by":[{"column":"event_id"}]}`, birch...)))
}

// The operator and the admin role are held by no rule.
func TestNoRuleHoldsForTheOperator(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: rulePolicy}, pagesTable)
	s.accept("pages", twoPages, as(t, "admin")...)
	s.stored("pages", 2)
	assert.Len(t, s.rows("pages", `{"select_all":true}`, as(t, "admin")...), 2)
	assert.Len(t, s.rows("pages", `{"select_all":true}`, "X-Operator-Key", operatorKey), 2)
}
