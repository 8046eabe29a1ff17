package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOneStuckRowCostsItsTableAlone: a row that ClickHouse refuses, of a table
// that may park none, stays in the queue for ever. What the tenant's other
// table writes behind it is several times the budget.
func TestOneStuckRowCostsItsTableAlone(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{
		"mq": `{"max_bytes_gb":"2MB"}`, "dlq": `{"tables":{"guarded":{"enabled":false}}}`,
	}}, pagesTable, `CREATE TABLE guarded (id String, n Int64, CONSTRAINT small CHECK n < 1000) ENGINE = MergeTree ORDER BY id`)
	s.accept("guarded", `{"id":"stuck","n":5000}`)
	accepted := 0
	post := func(i int) {
		s.eventually(func() string {
			a := s.do(http.MethodPost, "/v1/ingest?table=pages", lines(fmt.Sprintf("r%d-", i), 5000), "Content-Type", ndjson)
			accepted += decode[batch](t, a).Succeeded
			return unless(a.status == http.StatusOK, a.body)
		})
		s.stored("pages", accepted)
	}
	for i := range 25 {
		post(i)
	}
	pad := strings.Repeat("x", 100_000)
	var full answer
	for i := range 40 {
		if full = s.ingest("guarded", fmt.Sprintf(`{"id":"%d%s","n":5000}`, i, pad)); full.status != http.StatusOK {
			break
		}
	}
	refused(t, full, http.StatusServiceUnavailable, "queue.full")
	post(100)
	s.restart()
	post(101)
	assert.Zero(t, s.parked())
	require.Equal(t, "0", s.ch.Value(t, "SELECT count() FROM guarded"))
	s.ch.Exec(t, "ALTER TABLE guarded DROP CONSTRAINT small")
	s.eventually(func() string {
		n := s.ch.Value(t, "SELECT count() FROM guarded WHERE id = 'stuck'")
		return unless(n == "1", n)
	})
}
