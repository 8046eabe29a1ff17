package lineage_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/pipes/lineage"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func open(t *testing.T, server *clickhousetest.Server) *clickhouse.Pool {
	t.Helper()
	pools := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { pools.Close(t.Context()) })
	require.Empty(t, pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: {
		Addr: server.Host, HTTPPort: server.HTTPPort, Database: server.Database, Username: "default",
	}}))
	pool, err := pools.Get(tenant.Default)
	require.NoError(t, err)
	return pool
}

func TestAgainstClickHouse(t *testing.T) {
	server := clickhousetest.Start(t)
	server.Exec(t,
		"CREATE TABLE pages (page String, n UInt64) ENGINE = MergeTree ORDER BY page", "CREATE TABLE other (n UInt64) ENGINE = MergeTree ORDER BY n",
		"CREATE VIEW v AS SELECT page FROM pages", "CREATE VIEW vv AS SELECT * FROM v", "CREATE VIEW timed AS SELECT * FROM pages WHERE n > toUInt64(now())",
		"CREATE TABLE totals (page String, n UInt64) ENGINE = SummingMergeTree ORDER BY page",
		"CREATE MATERIALIZED VIEW mv TO totals AS SELECT page, n FROM pages",
		"CREATE TABLE `od d.x` (n UInt64) ENGINE = MergeTree ORDER BY n",
		"CREATE TABLE buf AS pages ENGINE = Buffer(currentDatabase(), pages, 1, 10, 100, 10000, 1000000, 10000000, 100000000)")
	pool := open(t, server)
	now := time.Now()
	l := lineage.New(lineage.Options{Now: func() time.Time { return now }})
	named := func(tables ...string) []string {
		for i, name := range tables {
			tables[i] = lineage.Name(server.Database, name)
		}
		slices.Sort(tables)
		return tables
	}
	check := func(deps cache.Dependencies, complete bool, tables ...string) {
		t.Helper()
		// "db.t" may also be a table of that name in the database; there is none.
		deps.Tables = slices.DeleteFunc(deps.Tables, func(table string) bool {
			return strings.HasPrefix(table, server.Database+"."+server.Database+".")
		})
		slices.Sort(deps.Tables)
		assert.Equal(t, named(tables...), deps.Tables)
		assert.Equal(t, complete, deps.Complete)
	}
	check(l.Tables(t.Context(), pool, "other"), true, "other")
	check(l.Tables(t.Context(), pool, "vv"), true, "vv", "v", "pages", "buf")
	check(l.Tables(t.Context(), pool, "totals"), true, "totals", "mv", "pages", "buf")
	check(l.Tables(t.Context(), pool, "timed"), false, "timed", "pages", "buf")

	check(l.Statement(t.Context(), pool, "SELECT (SELECT max(n) FROM totals) AS m FROM other"), true, "other", "totals", "mv", "pages", "buf")
	check(l.Statement(t.Context(), pool, "SELECT 1 FROM other WHERE n IN totals"), true, "other", "totals", "mv", "pages", "buf")
	check(l.Statement(t.Context(), pool, "SELECT n FROM other, numbers(3)"), true, "other")
	check(l.Statement(t.Context(), pool, "SELECT n FROM merge(currentDatabase(), 'x')"), false)
	check(l.Statement(t.Context(), pool, "SELECT n FROM other WHERE n > today()"), false, "other")
	deps := l.Statement(t.Context(), pool, "SELECT n FROM `od d.x`")
	assert.Contains(t, deps.Tables, lineage.Name(server.Database, "od d.x"))
	assert.Equal(t, cache.Dependencies{}, l.Statement(t.Context(), pool, "SELECT FROM WHERE"))

	// All of SELECT is known, and what is no SELECT depends on nobody knows what.
	for _, sql := range []string{
		"SELECT * EXCEPT (n) REPLACE (1 AS n) APPLY(sum) FROM other",
		"SELECT n FROM other UNION ALL SELECT n FROM other INTERSECT SELECT n FROM other", "SELECT DISTINCT ON (n) other.* FROM other",
		"SELECT COLUMNS('n'), other.COLUMNS(n), sum(n) OVER w FROM other WINDOW w AS (PARTITION BY n ORDER BY n)",
		"SELECT n FROM other SAMPLE 1/10 WHERE n ORDER BY n WITH FILL INTERPOLATE (n AS n + 1) LIMIT 1 BY n SETTINGS max_threads = 1",
		"SELECT n, z FROM other AS a ARRAY JOIN [1, 2] AS z LEFT JOIN other AS b ON a.n = b.n GROUP BY GROUPING SETS ((n), (z)) HAVING n > 1",
		"SELECT EXISTS(SELECT 1 FROM other), (SELECT max(n) FROM other), arrayMap(x -> x::String, [1]), CASE WHEN 1 THEN 2 END",
	} {
		check(l.Statement(t.Context(), pool, sql), true, "other")
	}
	check(l.Statement(t.Context(), pool, "WITH t AS (SELECT n FROM other) SELECT n FROM t"), true, "other", "t")
	for _, sql := range []string{"SHOW TABLES", "DESCRIBE TABLE other", "EXISTS TABLE other"} {
		assert.False(t, l.Statement(t.Context(), pool, sql).Complete, sql)
	}

	// A new view is known once the old ones are forgotten, or old.
	server.Exec(t, "CREATE VIEW later AS SELECT n FROM other")
	check(l.Tables(t.Context(), pool, "later"), true, "later")
	l.Forget()
	check(l.Tables(t.Context(), pool, "later"), true, "later", "other")
	server.Exec(t, "CREATE OR REPLACE VIEW later AS SELECT n FROM totals")
	check(l.Tables(t.Context(), pool, "later"), true, "later", "other")
	now = now.Add(2 * time.Minute)
	check(l.Tables(t.Context(), pool, "later"), true, "later", "totals", "mv", "pages", "buf")
}

// Without an answer the names that are known are bound, and no more is claimed.
func TestWithoutClickHouse(t *testing.T) {
	pools := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { pools.Close(t.Context()) })
	require.Empty(t, pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: {Addr: "127.0.0.1:1", HTTPPort: 1, Database: "d", Username: "default"}}))
	pool, err := pools.Get(tenant.Default)
	require.NoError(t, err)
	l := lineage.New(lineage.Options{})
	for range 2 {
		assert.Equal(t, cache.Dependencies{Tables: []string{"d.t"}}, l.Tables(t.Context(), pool, "t"))
	}
	assert.Equal(t, cache.Dependencies{}, l.Statement(t.Context(), pool, "SELECT 1"))
}
