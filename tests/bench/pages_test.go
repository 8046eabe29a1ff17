package bench

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

const (
	// pagedRows is how many rows are read in pages, and pagedAt how many of them are
	// before the page that is measured.
	pagedRows = 10_000_000
	pagedAt   = 1_000_000
	// pagedAsks is how often each page is asked for.
	pagedAsks = 41
)

// TestPagesBenchmarks measures a page deep in a table, found by its cursor and by an
// offset. It fails when something does not work, never for a time.
func TestPagesBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take minutes")
	}
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	clickhouse.Must(t, "CREATE TABLE paged (at DateTime64(3, 'UTC'), id UInt64, page String) ENGINE = MergeTree ORDER BY (at, id)")
	clickhouse.Must(t, fmt.Sprintf(`INSERT INTO paged SELECT toDateTime64('2026-01-01 00:00:00', 3, 'UTC') + intDiv(number, 7), number,
		concat('/products/', toString(number %% 300)) FROM numbers(%d)`, pagedRows))
	clickhouse.Must(t, "OPTIMIZE TABLE paged FINAL")
	server := harness.StartServer(t, harness.ServerOptions{
		Bin: binaries.Dir(t), ClickHouse: clickhouse, Policies: `{"default_role":"public","tables":{"paged":{"public":{"select":{}}}}}`,
	})
	server.AwaitReady(t)
	ask := func(document string) (cursor string, took time.Duration) {
		began := time.Now()
		a := server.Do(t, http.MethodPost, "/v1/query?table=paged", document)
		took = time.Since(began)
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		return a.Header.Get("X-Next-Cursor"), took
	}
	lines := []line{}
	for _, order := range []struct{ what, by string }{
		{"", `[{"column":"at","dir":"desc"}]`},
		{", directions mixed", `[{"column":"at","dir":"desc"},{"column":"id","dir":"asc"}]`},
	} {
		document := `{"columns":["at","id","page"],"order_by":` + order.by
		cursor := ""
		const step = 10_000
		for range pagedAt / step {
			cursor, _ = ask(fmt.Sprintf(`%s,"limit":%d,"cursor":%q}`, document, step, cursor))
			require.NotEmpty(t, cursor)
		}
		var byCursor, byOffset, first, ratios []float64
		for i := range pagedAsks {
			limit := 100 + i // which no answer is kept for
			_, took := ask(fmt.Sprintf(`%s,"limit":%d,"cursor":%q}`, document, limit, cursor))
			byCursor = append(byCursor, took.Seconds()*1e3)
			_, took = ask(fmt.Sprintf(`%s,"limit":%d,"offset":%d}`, document, limit, pagedAt))
			byOffset = append(byOffset, took.Seconds()*1e3)
			_, took = ask(fmt.Sprintf(`%s,"limit":%d}`, document, limit))
			first = append(first, took.Seconds()*1e3)
			ratios = append(ratios, byOffset[i]/byCursor[i])
		}
		lines = append(lines,
			line{
				"a page of 100 at row 1,000,000 of 10,000,000, by cursor" + order.what + ", ms", fmt.Sprintf("%.1f", median(byCursor)),
				fmt.Sprintf("%.1f by offset", median(byOffset)), spread(ratios),
			},
			line{"— the first page, ms", fmt.Sprintf("%.1f", median(first)), "", ""})
	}
	report(t, "pages", lines)
}
