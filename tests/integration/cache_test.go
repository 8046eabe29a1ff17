package integration

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

const countPages = `{"aggregations":[{"fn":"count","column":"*","alias":"n"}]}`

// cached asks twice and returns the body; the second must be a hit, and equal.
func (s *server) cached(ask func() answer) string {
	s.t.Helper()
	first, second := ask(), ask()
	require.Equal(s.t, http.StatusOK, first.status, first.body)
	assert.Equal(s.t, "MISS", first.header.Get("X-Cache"))
	assert.Equal(s.t, "HIT", second.header.Get("X-Cache"))
	assert.Equal(s.t, first.body, second.body)
	return compact(s.t, []byte(first.body))
}

// cachedDiscreetly is cached for a caller with a row filter, who is not told.
func (s *server) cachedDiscreetly(ask func() answer) string {
	s.t.Helper()
	hits := s.hits()
	first, second := ask(), ask()
	require.Equal(s.t, http.StatusOK, first.status, first.body)
	assert.Equal(s.t, hits+1, s.hits())
	assert.Empty(s.t, first.header.Values("X-Cache"))
	assert.Equal(s.t, first.header.Values("X-Cache"), second.header.Values("X-Cache"))
	assert.Equal(s.t, first.body, second.body)
	return compact(s.t, []byte(first.body))
}

// hits counts the answers that came from the cache.
func (s *server) hits() int {
	s.t.Helper()
	n := 0
	for line := range strings.Lines(s.do(http.MethodGet, "/metrics", "").body) {
		if rest, ok := strings.CutPrefix(line, `wavehouse_cache_reads_total{outcome="hit"} `); ok {
			_, err := fmt.Sscan(rest, &n)
			require.NoError(s.t, err)
		}
	}
	return n
}

// A pipe reads past row filters; a caller who has one is not told by the cache when
// others write.
func TestPipesDoNotTellTheStateOfTheCacheToWhoDoesNotSeeAllRows(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"tables":{"pages":{"viewer":{"select":{"filter":{"org":{"_eq":"birch"}}}},"analyst":{"select":{}}}}}`}, pagesTable)
	s.writeFile("pipes.json", `{"pipes":[{"name":"n","sql":"SELECT count() AS n FROM pages","allowed_roles":["viewer","analyst"]}]}`)
	require.Equal(t, http.StatusOK, s.reload().status)
	ask := func(role string) answer { return s.do(http.MethodGet, "/v1/pipes/n", "", as(t, role)...) }
	assert.Equal(t, "MISS", ask("analyst").header.Get("X-Cache"))
	for range 2 {
		a := ask("viewer")
		assert.Equal(t, http.StatusOK, a.status, a.body)
		assert.Empty(t, a.header.Values("X-Cache"))
	}
}

func TestSameQueryDifferentClaims(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"default_role":"public","tables":{"pages":{
		"viewer":{"select":{"filter":{"org":{"_eq":"{{ jwt.org }}"}}}},
		"analyst":{"select":{"deny_columns":["secret"]}},
		"writer":{"insert":{}}}}}`}, pagesTable,
		`INSERT INTO pages (event_id, org, secret) VALUES ('1','birch','s1'), ('2','cedar','s2'), ('3','birch','s3')`)
	bearer := func(claims jwt.MapClaims) []string { return []string{"Authorization", "Bearer " + token(t, claims)} }
	document := `{"select_all":true,"order_by":[{"column":"event_id"}]}`
	for name, c := range map[string]struct {
		headers []string
		ids     []string
		secret  bool
	}{
		"birch":   {bearer(jwt.MapClaims{"role": "viewer", "org": "birch"}), []string{"1", "3"}, true},
		"cedar":   {bearer(jwt.MapClaims{"role": "viewer", "org": "cedar"}), []string{"2"}, true},
		"analyst": {as(t, "analyst"), []string{"1", "2", "3"}, false},
		"admin":   {as(t, "admin"), []string{"1", "2", "3"}, true},
	} {
		ask := func() answer { return s.query("pages", document, c.headers...) }
		body := ""
		if name == "birch" || name == "cedar" {
			body = s.cachedDiscreetly(ask)
		} else {
			body = s.cached(ask)
		}
		for _, id := range []string{"1", "2", "3"} {
			assert.Equal(t, strings.Contains(strings.Join(c.ids, ","), id), strings.Contains(body, `"event_id":"`+id+`"`), "%s: %s", name, body)
		}
		assert.Equal(t, c.secret, strings.Contains(body, `"secret"`), "%s: %s", name, body)
	}
	s.query("pages", document, bearer(jwt.MapClaims{"role": "viewer", "org": "birch"})...) // it may have been long ago
	hits := s.hits()
	again := s.query("pages", document, bearer(jwt.MapClaims{"role": "viewer", "org": "birch", "sub": "another", "jti": "x"})...)
	assert.Equal(t, http.StatusOK, again.status)
	assert.Equal(t, hits+1, s.hits(), "tokens of the same role and claims may share")
	refused(t, s.query("pages", document), http.StatusForbidden, "auth.forbidden")
}

func TestWriteLandsWhileTheQueryRuns(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable,
		`CREATE VIEW slow_pages AS SELECT count() AS n, sleep(2) AS waited FROM pages`)
	document := `{"columns":["n","waited"]}`
	done := make(chan answer, 1)
	go func() {
		a, err := s.try(http.MethodPost, "/v1/query?table=slow_pages", strings.NewReader(document))
		assert.NoError(t, err)
		done <- a
	}()
	// Who looks for it among what runs may come too late.
	s.eventually(func() string {
		return unless(slices.ContainsFunc(s.proxy().Requests(), func(r clickhousetest.Request) bool {
			return strings.Contains(string(r.Body), "slow_pages")
		}), "it runs")
	})
	s.accept("pages", `{"event_id":"1","page":"/"}`)
	s.stored("pages", 1)
	first := <-done
	require.Equal(t, http.StatusOK, first.status, first.body)
	s.eventually(func() string {
		a := s.query("slow_pages", document)
		return unless(strings.Contains(a.body, `"n":1`), "the new row: "+a.body)
	})
}

// unrelatedDear is a view whose answer is kept for minutes, as it took long: a cheap
// one is kept for 10 s, which a busy machine may need for what a test does between.
const unrelatedDear = "CREATE VIEW dear AS SELECT sleep(0.4) AS waited, count() AS n FROM unrelated"

// A flush drops what depends on its table, whatever stands between them.
func TestSameRowsThroughViewsAndPipes(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable,
		"CREATE VIEW v AS SELECT page, count() AS n FROM pages GROUP BY page", "CREATE VIEW vv AS SELECT sum(n) AS n FROM v",
		"CREATE TABLE totals (page String, n UInt64) ENGINE = SummingMergeTree ORDER BY page",
		"CREATE MATERIALIZED VIEW to_totals TO totals AS SELECT page, count() AS n FROM pages GROUP BY page",
		"CREATE MATERIALIZED VIEW own ENGINE = SummingMergeTree ORDER BY page AS SELECT page, count() AS n FROM pages GROUP BY page",
		"CREATE TABLE unrelated (n UInt64) ENGINE = MergeTree ORDER BY n", unrelatedDear)
	s.adopt(pipesFile(
		"direct", `"sql":"SELECT count() AS n FROM pages"`,
		"joined", `"sql":"WITH a AS (SELECT count() AS n FROM pages) SELECT a.n + b.n - b.n AS n FROM a, (SELECT max(n) AS n FROM unrelated) AS b"`,
		"scalar", `"sql":"SELECT (SELECT count() FROM pages) AS n"`,
		"viewed", `"sql":"SELECT n FROM vv"`,
		"within", `"sql":"SELECT count() AS found FROM unrelated WHERE n IN (SELECT n FROM pages)"`,
		"named", `"sql":"SELECT count() AS n FROM merge(currentDatabase(), '^pages$')","reads":["pages"]`,
		"chosen", `"sql":"SELECT count() AS n FROM {{t:pages}}","parameters":[{"name":"t","type":"identifier(pages|unrelated)"}]`,
	))
	asks := map[string]func() answer{
		"unrelated": func() answer { return s.query("dear", `{"columns":["waited"]}`) },
	}
	for _, table := range []string{"pages", "v", "totals", "to_totals", "own"} {
		asks["query "+table] = func() answer { return s.query(table, `{"aggregations":[{"fn":"count","column":"*","alias":"c"}]}`) }
	}
	for _, pipe := range []string{"direct", "joined", "scalar", "viewed", "within", "named", "chosen"} {
		asks["pipe "+pipe] = func() answer { return s.pipe(pipe) }
	}
	for name, ask := range asks {
		first, second := ask(), ask()
		require.Equal(t, http.StatusOK, first.status, "%s: %s", name, first.body)
		assert.Equal(t, "MISS", first.header.Get("X-Cache"), name)
		assert.Equal(t, "HIT", second.header.Get("X-Cache"), name)
	}
	s.accept("pages", `{"event_id":"1","page":"/home"}`)
	s.eventually(func() string { return unless(strings.Contains(s.pipe("direct").body, `"n":1`), "the flush is told") })
	for name, ask := range asks {
		a := ask()
		switch name {
		case "pipe direct": // asked since
		case "unrelated":
			assert.Equal(t, "HIT", a.header.Get("X-Cache"), "not written")
		default:
			assert.Equal(t, "MISS", a.header.Get("X-Cache"), name)
		}
		if name != "unrelated" && name != "pipe within" {
			assert.NotContains(t, a.body, ":0", name)
		}
	}
}

func TestFlushDropsOnlyWhatDepends(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable, "CREATE VIEW v AS SELECT count() AS n FROM pages", "CREATE TABLE unrelated (n UInt64) ENGINE = MergeTree ORDER BY n", unrelatedDear)
	unrelated := func() string { return s.query("dear", `{"columns":["waited"]}`).header.Get("X-Cache") }
	s.adopt(pipesFile("p", `"sql":"SELECT n FROM v"`, "clock", `"sql":"SELECT count() AS n, now() > toDateTime(0) AS later FROM pages"`))
	for i := range 3 {
		want := fmt.Sprintf(`[{"n":%d}]`, i)
		s.eventually(func() string {
			return unless(compact(t, []byte(s.query("v", `{"columns":["n"]}`).body)) == want, "the flush is told")
		})
		assert.Equal(t, want, s.pipeRows("p"))
		assert.Contains(t, s.pipeRows("clock"), fmt.Sprintf(`"n":%d`, i), "tables are known although the clock bounds it")
		assert.Equal(t, "HIT", s.pipe("p").header.Get("X-Cache"))
		if i > 0 {
			assert.Equal(t, "HIT", unrelated(), "another table's answers stay")
		} else {
			unrelated()
		}
		s.accept("pages", fmt.Sprintf(`{"event_id":"%d","page":"/"}`, i))
		s.stored("pages", i+1)
	}
}

// What an operator or a write pipe writes is seen by the next read.
func TestWritesDropCachedResults(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	s.adopt(pipesFile("add", `"sql":"INSERT INTO pages (event_id) SELECT {{note}}",`+textParameter, "count", `"sql":"SELECT count() AS n FROM pages"`))
	ask := func() answer { return s.query("pages", countPages) }
	assert.Equal(t, `[{"n":0}]`, s.cached(ask))
	require.Equal(t, http.StatusOK, s.opsSQL("INSERT INTO pages (event_id) VALUES ('1')").status)
	assert.Equal(t, `[{"n":1}]`, s.cached(ask))
	require.Equal(t, http.StatusOK, s.do(http.MethodPost, "/v1/pipes/add?note=2", "").status)
	assert.Equal(t, `[{"n":2}]`, s.cached(ask))
	require.Equal(t, http.StatusOK, s.opsSQL("WITH 1 AS one SELECT one").status)
	assert.Equal(t, "HIT", ask().header.Get("X-Cache"), "a read drops nothing")
	require.Equal(t, http.StatusOK, s.opsSQL("TRUNCATE TABLE pages").status)
	assert.Equal(t, `[{"n":0}]`, s.cached(ask))
	// A view made through the server is known at once.
	require.Equal(t, http.StatusOK, s.opsSQL("CREATE VIEW made AS SELECT count() AS n FROM pages").status)
	viewed := func() answer { return s.query("made", `{"columns":["n"]}`) }
	assert.Equal(t, `[{"n":0}]`, s.cached(viewed))
	require.Equal(t, http.StatusOK, s.wait("pages", "", `{"event_id":"3","page":"/"}`, "application/json").status)
	assert.Equal(t, `[{"n":1}]`, s.cached(viewed), "what the view reads was written")
}

func TestFirstCallerLeaves(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, `CREATE VIEW slow AS SELECT 1 AS one, sleep(3) + sleep(2.9) AS waited`)
	const document = `{"columns":["one","waited"]}`
	running := func() int {
		n := 0
		for _, request := range s.proxy().Requests() {
			if strings.Contains(string(request.Body), "`slow`") {
				n++
			}
		}
		return n
	}
	first, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(first, http.MethodPost, s.url+"/v1/query?table=slow", strings.NewReader(document))
	require.NoError(t, err)
	gone := make(chan error, 1)
	go func() {
		response, err := s.client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		gone <- err
	}()
	s.eventually(func() string { return unless(running() == 1, "it runs") })
	var others sync.WaitGroup
	for range 9 {
		others.Go(func() {
			a, err := s.try(http.MethodPost, "/v1/query?table=slow", strings.NewReader(document))
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, a.status, a.body)
			}
		})
	}
	time.AfterFunc(100*time.Millisecond, leave)
	require.ErrorIs(t, <-gone, context.Canceled)
	others.Wait()
	assert.LessOrEqual(t, running(), 2)
}

func TestAllCallersLeave(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE VIEW slower AS SELECT number, sleepEachRow(0.5) AS waited FROM numbers(30) SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0`)
	const here = "SELECT count() FROM system.processes WHERE query LIKE '%`slower`%' AND query NOT LIKE '%system.processes%' AND current_database = currentDatabase()"
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 10 {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/query?table=slower", strings.NewReader(`{"columns":["waited"]}`))
		require.NoError(t, err)
		all.Go(func() {
			response, err := s.client.Do(request)
			if err == nil {
				_ = response.Body.Close()
			}
		})
	}
	s.eventually(func() string { return unless(s.ch.Value(t, here) == "1", "one query runs") })
	leave()
	all.Wait()
	s.eventually(func() string { return unless(s.ch.Value(t, here) == "0", "it is cancelled at ClickHouse") })
}

// 64 clients that ask one cold question are one query.
func TestColdQuestionReachesClickHouseOnce(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable, `INSERT INTO pages (event_id) VALUES ('1')`)
	before := s.proxy().Count()
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			a, err := s.try(http.MethodPost, "/v1/query?table=pages", strings.NewReader(countPages))
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, a.status, a.body)
				assert.JSONEq(t, `[{"n":1}]`, a.body)
			}
		})
	}
	all.Wait()
	assert.Equal(t, 1, s.proxy().Count()-before)
}

func TestConditionalAndEncodedReads(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.adopt(pipesFile("n", `"sql":"SELECT number AS n FROM numbers({{k:1}})","parameters":[{"name":"k","type":"number"}]`))
	for _, rows := range []int{1, 500, 5000} {
		call := fmt.Sprintf("n?k=%d", rows)
		plain := s.pipe(call, "Accept-Encoding", "identity")
		require.Equal(t, http.StatusOK, plain.status)
		tag := plain.header.Get("ETag")
		require.NotEmpty(t, tag)
		assert.Equal(t, "private, no-cache", plain.header.Get("Cache-Control"))
		assert.Equal(t, rows, strings.Count(plain.body, `"n"`))

		same := s.pipe(call, "If-None-Match", `"other", `+tag)
		assert.Equal(t, http.StatusNotModified, same.status)
		assert.Empty(t, same.body)
		assert.Equal(t, tag, same.header.Get("ETag"))
		assert.Equal(t, "HIT", same.header.Get("X-Cache"))
		assert.Equal(t, http.StatusOK, s.pipe(call, "If-None-Match", `"other"`).status)

		packed := s.pipe(call, "Accept-Encoding", "gzip")
		assert.Equal(t, tag, packed.header.Get("ETag"))
		if rows == 1 {
			assert.Empty(t, packed.header.Get("Content-Encoding"))
			continue
		}
		require.Equal(t, "gzip", packed.header.Get("Content-Encoding"))
		reader, err := gzip.NewReader(strings.NewReader(packed.body))
		require.NoError(t, err)
		body, err := io.ReadAll(reader)
		require.NoError(t, err)
		assert.Equal(t, plain.body, string(body))
		assert.Equal(t, "Accept-Encoding", packed.header.Get("Vary")[:len("Accept-Encoding")])
	}
	a := s.do(http.MethodHead, "/v1/pipes/n", "")
	assert.Equal(t, http.StatusOK, a.status)
	assert.Empty(t, a.body)
}

func TestPipeTTL(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	s.adopt(pipesFile(
		"never", `"sql":"SELECT count() AS n FROM pages","cache":{"ttl":0}`,
		"short", `"sql":"SELECT count() AS n FROM pages","cache":{"ttl":"300ms"}`,
		"usual", `"sql":"SELECT count() AS n, sleep(0.4) AS waited FROM pages"`,
	))
	for range 3 {
		assert.Equal(t, "BYPASS", s.pipe("never").header.Get("X-Cache"))
	}
	assert.Equal(t, `[{"n":0,"waited":0}]`, s.cached(func() answer { return s.pipe("usual") }))
	s.eventually(func() string {
		return unless(s.pipe("short").header.Get("X-Cache") == "HIT", "it is kept for a moment")
	})
	s.ch.Exec(t, "INSERT INTO pages (event_id) VALUES ('1')") // around the server
	s.eventually(func() string { return unless(strings.Contains(s.pipe("short").body, `"n":1`), "its time is over") })
	assert.Equal(t, "HIT", s.pipe("usual").header.Get("X-Cache"))
}
