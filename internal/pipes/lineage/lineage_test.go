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
		"CREATE FUNCTION IF NOT EXISTS ofUsers AS (x) -> x + 1",
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
	for _, varying := range []string{
		"today()", "CURRENT_TIMESTAMP", "NOW()", "rand()", "dictGet('d', 'v', n)", "file('x')", "ofUsers(n)", "noSuchFunction(n)", "runningDifference(n)", "generateUUIDv7()",
	} {
		check(l.Statement(t.Context(), pool, "SELECT n FROM other WHERE n > "+varying), false, "other")
	}
	for _, steady := range []string{
		"arrayJoin([1])", "LENGTH('x')", "(SELECT sumIf(n, n > 1) FROM other)", "(SELECT uniqArrayIf([n], 1) FROM other)", "(SELECT row_number() OVER (ORDER BY n) FROM other LIMIT 1)",
		"(SELECT countDistinct(n) FROM other)", "(SELECT quantile(0.5)(n) FROM other)",
	} {
		check(l.Statement(t.Context(), pool, "SELECT n FROM other WHERE n > "+steady), true, "other")
	}
	deps := l.Statement(t.Context(), pool, "SELECT n FROM `od d.x`")
	assert.Contains(t, deps.Tables, lineage.Name(server.Database, "od d.x"))
	assert.Equal(t, cache.Dependencies{}, l.Statement(t.Context(), pool, "SELECT FROM WHERE"))

	// All of SELECT is known, and what is no SELECT depends on nobody knows what.
	for _, sql := range []string{
		"SELECT * EXCEPT (n) REPLACE (1 AS n) APPLY(sum) FROM other",
		"SELECT n FROM other UNION ALL SELECT n FROM other INTERSECT SELECT n FROM other", "SELECT DISTINCT ON (n) other.* FROM other",
		"SELECT COLUMNS('n'), other.COLUMNS(n), sum(n) OVER w FROM other WINDOW w AS (PARTITION BY n ORDER BY n)",
		"SELECT grouping(n), untuple(tuple(n)) FROM other GROUP BY ROLLUP(n)",
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

// What was known of the views when a question was asked is looked at again once
// its answer is there: an answer over a view that is another by then is not bound
// to what the former one read.
func TestWhatWasKnownOfViewsIsConfirmed(t *testing.T) {
	server := clickhousetest.Start(t)
	server.Exec(t, "CREATE TABLE pages (n UInt64) ENGINE = MergeTree ORDER BY n", "CREATE TABLE other (n UInt64) ENGINE = MergeTree ORDER BY n", "CREATE TABLE totals (n UInt64) ENGINE = MergeTree ORDER BY n",
		"CREATE VIEW v AS SELECT n FROM pages", "CREATE VIEW vv AS SELECT n FROM v")
	pool := open(t, server)
	l := lineage.New(lineage.Options{})
	// A definition that is as young as this may change again without it being seen.
	settled := func(table string) cache.Dependencies {
		t.Helper()
		var deps cache.Dependencies
		require.Eventually(t, func() bool {
			deps = l.Tables(t.Context(), pool, table)
			return deps.Complete && deps.Confirm(t.Context())
		}, 30*time.Second, 100*time.Millisecond)
		return deps
	}
	dictionary := "CREATE DICTIONARY book (n UInt64, v String) PRIMARY KEY n SOURCE(CLICKHOUSE(DB '" + server.Database + "' TABLE 'other')) LAYOUT(FLAT()) LIFETIME(0)"
	changes := []struct{ reads, change, want string }{
		{"v", "CREATE OR REPLACE VIEW v AS SELECT n FROM other", "other"},
		{"vv", "CREATE OR REPLACE VIEW vv AS SELECT n FROM totals", "totals"},
		{"totals", "CREATE MATERIALIZED VIEW mv TO totals AS SELECT n FROM pages", "pages"},
		{"late", "CREATE VIEW late AS SELECT n FROM pages", "pages"},
		{"pages", dictionary, "pages"},
	}
	before := make([]cache.Dependencies, len(changes))
	for i, c := range changes {
		before[i] = settled(c.reads)
		assert.True(t, before[i].Confirm(t.Context()), "nothing changed")
	}
	for i, c := range changes {
		server.Exec(t, c.change)
		assert.False(t, before[i].Confirm(t.Context()), c.change)
		assert.Contains(t, l.Tables(t.Context(), pool, c.reads).Tables, lineage.Name(server.Database, c.want), "the next question knows")
	}
	assert.False(t, l.Tables(t.Context(), pool, "book").Complete, "what a dictionary holds changes by the clock")
	assert.Contains(t, settled("vv").Tables, lineage.Name(server.Database, "totals"))
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
