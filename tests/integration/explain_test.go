package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/rehearsal"
	"github.com/wavehouse/wavehouse/internal/settings"
)

// What is explained is what is served: the same columns, and the rows that
// ClickHouse returns for the explained condition.
func TestAnExplanationIsWhatAQueryDoes(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: `{"tables":{"pages":{"viewer":{"select":{"deny_columns":["secret"],
		"filter":{"org":{"_eq":"{{ jwt.org }}"},"n":{"_gt":1}}}}}}}`},
		`{"event_id":"1","page":"/a","org":"o'birch","n":1}`, `{"event_id":"2","page":"/b","org":"o'birch","n":2}`,
		`{"event_id":"3","page":"/c","org":"cedar","n":3}`)
	snapshot := settings.Validate(s.settingsDir).Tenants["0"]
	catalogue, err := app.Discover(t.Context(), snapshot, s.ch.HTTPAddr(), "")
	require.NoError(t, err)
	table, ok := catalogue.Table("pages")
	require.True(t, ok)
	claims := jwt.MapClaims{"role": "viewer", "org": "o'birch"}
	e := rehearsal.Explain(snapshot, rehearsal.Caller{Role: "viewer", Claims: claims}, table)
	assert.Equal(t, []string{"event_id", "page", "org", "n", "ts"}, e.Select.Columns)
	require.Equal(t, rehearsal.RowsSome, e.Select.Rows.Show)

	caller := []string{"Authorization", "Bearer " + token(t, claims)}
	rows := s.rows("pages", `{"columns":["event_id"]}`, caller...)
	require.Len(t, rows, 1)
	assert.JSONEq(t, `{"event_id":"2"}`, string(rows[0]))
	sql := "SELECT event_id FROM pages AS wh WHERE " + e.Select.Rows.SQL
	for name, value := range e.Select.Rows.Parameters {
		quoted := "'" + strings.ReplaceAll(value, "'", `\'`) + "'"
		for _, typ := range []string{"String", "Int64"} {
			sql = strings.ReplaceAll(sql, "{"+name+":"+typ+"}", "CAST("+quoted+" AS "+typ+")")
		}
	}
	a := s.opsSQL(sql)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.JSONEq(t, `[{"event_id":"2"}]`, a.body)
}
