package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// totalled is an answer with totals.
type totalled struct {
	Rows   []json.RawMessage `json:"rows"`
	Totals json.RawMessage   `json:"totals"`
}

// Totals stand beside the rows: kept in the cache with them, not counted among
// them, and of all groups whatever bound cut the rows.
func TestTotalsStandBesideTheRows(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"default_role":"public","tables":{"sales":{"public":{"select":{}},"viewer":{"select":{"max_rows":2,"filter":{"shop":{"_neq":"west"}}}}}}}`},
		"CREATE TABLE sales (id UInt64, shop String, text String) ENGINE = MergeTree ORDER BY id",
		"INSERT INTO sales SELECT number, ['north', 'south', 'west', 'east'][number % 4 + 1], repeat('x', 1000) || char(255) FROM numbers(20000)")
	const document = `{"totals":true,"columns":["shop"],"aggregations":[{"fn":"count"}],"group_by":["shop"],"order_by":[{"column":"shop"}]`
	want := `{"rows":[{"shop":"east","count":5000},{"shop":"north","count":5000},{"shop":"south","count":5000},{"shop":"west","count":5000}],"totals":{"shop":null,"count":20000}}`
	for _, cached := range []string{"MISS", "HIT"} {
		a := s.query("sales", document+`}`)
		require.Equal(t, http.StatusOK, a.status, a.body)
		assert.Equal(t, want, compact(t, json.RawMessage(a.body)))
		assert.Equal(t, cached, a.header.Get("X-Cache"))
		assert.Equal(t, "application/json", a.header.Get("Content-Type"))
		assert.Empty(t, a.header.Get("X-Result-Truncated"))
	}
	a := s.query("sales", document+`,"limit":1}`)
	assert.Equal(t, `{"rows":[{"shop":"east","count":5000}],"totals":{"shop":null,"count":20000}}`, compact(t, json.RawMessage(a.body)))
	assert.Equal(t, "limit", a.header.Get("X-Result-Truncated"))

	// Of rows that the caller may not see there is none in the totals.
	a = s.query("sales", document+`}`, as(t, "viewer")...)
	assert.Equal(t, `{"rows":[{"shop":"east","count":5000},{"shop":"north","count":5000}],"totals":{"shop":null,"count":15000}}`, compact(t, json.RawMessage(a.body)))
	assert.Equal(t, "role.max_rows", a.header.Get("X-Result-Truncated"))

	a = s.do(http.MethodPost, "/v1/query?table=sales&position=1", document+`}`)
	assert.Equal(t, want, compact(t, json.RawMessage(a.body)))
	assert.NotEmpty(t, a.header.Get("X-Stream-Position"))

	for _, accept := range []string{"application/x-ndjson", "text/csv", "text/tab-separated-values", "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"} {
		p := refused(t, s.query("sales", document+`}`, "Accept", accept), http.StatusBadRequest, "query.invalid")
		assert.Contains(t, p.Error, "totals")
	}

	// Large ones are passed on as ClickHouse makes them.
	large := `{"totals":true,"columns":["id"],"aggregations":[{"fn":"any","column":"text","alias":"text"},{"fn":"count","alias":"n"}],"group_by":["id"],"order_by":[{"column":"id"}]`
	a = s.query("sales", large+`}`)
	require.Equal(t, http.StatusOK, a.status)
	assert.Equal(t, "BYPASS", a.header.Get("X-Cache"))
	assert.Equal(t, "query.default_max_rows", a.header.Get("X-Result-Truncated"))
	assert.NotContains(t, a.header, "X-Answer-Error")
	var got totalled
	require.NoError(t, json.Unmarshal([]byte(a.body), &got))
	require.Len(t, got.Rows, 10_000)
	assert.JSONEq(t, `{"id":9999,"text":"`+strings.Repeat("x", 1000)+`\ufffd","n":1}`, string(got.Rows[9999]))
	assert.Contains(t, string(got.Totals), `"n":20000`)
	assert.Contains(t, string(got.Totals), `"id":null`)
}

// Totals have the earlier period, too, and what is left out of the groups by it is not
// in them.
func TestTotalsOfAComparison(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, "CREATE TABLE sales (at Date, shop String, n UInt32) ENGINE = MergeTree ORDER BY at",
		"INSERT INTO sales VALUES ('2026-03-01','a',1),('2026-03-02','a',2),('2026-04-01','a',10),('2026-04-03','b',20),('2026-03-05','c',4),('2026-04-09','c',40)")
	a := s.query("sales", `{"totals":true,"compare":"1mo","time_range":{"column":"at","since":"2026-04-01","until":"2026-05-01"},"columns":["shop"],"group_by":["shop"],"order_by":[{"column":"shop"}],
		"aggregations":[{"fn":"sum","column":"n","alias":"n"},{"fn":"max","column":"n","where":[{"column":"shop","op":"neq","value":"c"}]}],"having":[{"column":"n_previous","op":"gt","value":0}]}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, `{"rows":[{"shop":"a","n":10,"n_previous":3,"max_n":10,"max_n_previous":2},{"shop":"c","n":40,"n_previous":4,"max_n":null,"max_n_previous":null}],"totals":{"shop":null,"n":50,"n_previous":7,"max_n":10,"max_n_previous":2}}`,
		compact(t, json.RawMessage(a.body)))
}
