package integration

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// sharing starts servers on one ClickHouse database that share a Redis, each with
// a queue of its own, and waits until all give out cached answers.
func sharing(t *testing.T, n int, redis *redistest.Server, statements ...string) []*server {
	t.Helper()
	ch := clickhousetest.Start(t)
	ch.Exec(t, append([]string{pagesTable}, statements...)...)
	all := make([]*server, n)
	for i := range all {
		all[i] = start(t, options{clickhouse: ch, env: []string{
			"WH_CACHE_BACKEND=redis", "WH_CACHE_REDIS_ADDRS=" + redis.Addr(), "WH_CACHE_REDIS_OP_TIMEOUT=1s",
		}})
	}
	for _, s := range all {
		s.shares()
	}
	return all
}

// shares waits until the server gives out cached answers.
func (s *server) shares() {
	s.t.Helper()
	s.eventually(func() string {
		s.query("pages", countPages)
		return unless(s.query("pages", countPages).header.Get("X-Cache") == "HIT", "cached answers: "+s.do(http.MethodGet, "/readyz", "").body)
	})
}

// pipesOf gives every server the same pipes.
func pipesOf(all []*server, pairs ...string) {
	for _, s := range all {
		s.adopt(pipesFile(pairs...))
	}
}

func TestProcessesShareAnswersThroughRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		all := sharing(t, 3, redistest.Start(t, flavor, "--save", ""))
		limit := 77
		all[0].eventually(func() string { // a process that Redis kept waiting asks ClickHouse itself
			limit++
			document := fmt.Sprintf(`{"select_all":true,"order_by":[{"column":"event_id"}],"limit":%d}`, limit)
			first := all[0].query("pages", document)
			require.Equal(t, "MISS", first.header.Get("X-Cache"), first.body)
			hits := 0
			for _, s := range all {
				a := s.query("pages", document)
				assert.Equal(t, first.body, a.body)
				if a.header.Get("X-Cache") == "HIT" {
					assert.Equal(t, first.header.Get("ETag"), a.header.Get("ETag"))
					hits++
				}
			}
			return unless(hits == len(all), fmt.Sprint(hits, " were given the answer of the first"))
		})

		// A row that one process wrote is in every answer of the others, once it is
		// told that it is there.
		for i := range 9 {
			writer, reader := all[i%3], all[(i+1)%3]
			reader.query("pages", countPages)
			a := writer.ingestAnd("pages", `{"event_id":"`+strconv.Itoa(i)+`","page":"/"}`)
			require.Equal(t, http.StatusOK, a.status, a.body)
			for _, s := range []*server{reader, all[(i+2)%3], writer} {
				assert.Contains(t, s.query("pages", countPages).body, fmt.Sprintf(`"n":%d`, i+1))
			}
		}

		// So is what a statement of the operator and a pipe that writes did.
		pipesOf(all, "add", `"sql":"INSERT INTO pages (event_id) VALUES ({{id}})","parameters":[{"name":"id","type":"string","required":true}]`)
		for _, s := range all {
			s.shares()
		}
		a := all[1].do(http.MethodPost, "/v1/ops/query", `{"sql":"INSERT INTO pages (event_id) VALUES ('ops')","write":true}`, "X-Operator-Key", operatorKey, "Content-Type", "application/json")
		require.Equal(t, http.StatusOK, a.status, a.body)
		for _, s := range all {
			assert.Contains(t, s.query("pages", countPages).body, `"n":10`)
		}
		a = all[2].do(http.MethodPost, "/v1/pipes/add", `{"id":"pipe"}`, "Content-Type", "application/json")
		require.Equal(t, http.StatusOK, a.status, a.body)
		for _, s := range all {
			assert.Contains(t, s.query("pages", countPages).body, `"n":11`)
		}
	})
}

// ingestAnd sends a row and waits until it can be read.
func (s *server) ingestAnd(table, row string) answer {
	return s.do(http.MethodPost, "/v1/ingest?table="+table+"&wait=inserted&timeout=55s", row, "Content-Type", "application/json")
}

func TestManyAskProcessesTheSameAtOnce(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis, "--save", "")
	all := sharing(t, 3, redis, `CREATE VIEW slow_pages AS SELECT count() AS n, sleep(3) AS waited FROM pages`)
	asked := func(limit int) (total int) {
		t.Helper()
		document := fmt.Sprintf(`{"columns":["n","waited"],"limit":%d}`, limit)
		before := make([]int, len(all))
		for i, s := range all {
			before[i] = s.misses()
		}
		var group sync.WaitGroup
		for i := range 32 {
			group.Go(func() {
				a, err := all[i%3].try(http.MethodPost, "/v1/query?table=slow_pages", strings.NewReader(document))
				if assert.NoError(t, err) {
					assert.Equal(t, http.StatusOK, a.status, a.body)
				}
			})
		}
		group.Wait()
		for i, s := range all {
			queries := s.misses() - before[i]
			assert.LessOrEqual(t, queries, 1, "process %d", i)
			total += queries
		}
		return total
	}
	limit := 100
	all[0].eventually(func() string { // a process that Redis kept waiting asks ClickHouse itself
		limit++
		queries := asked(limit)
		return unless(queries == 1, fmt.Sprint(queries, " queries, want one for all processes"))
	})
	redis.Stop()
	all[0].eventually(func() string {
		body := all[0].do(http.MethodGet, "/readyz", "").body
		return unless(strings.Contains(body, "the server cannot be reached"), body)
	})
	assert.LessOrEqual(t, asked(99), 3, "one query for each process while Redis is away")
}

// misses is how many questions the server asked ClickHouse.
func (s *server) misses() (n int) {
	s.t.Helper()
	const series = `wavehouse_cache_reads_total{outcome="miss"} `
	_, value, _ := strings.Cut(s.do(http.MethodGet, "/metrics", "").body, series)
	_, err := fmt.Sscanf(value, "%d", &n)
	require.NoError(s.t, err)
	return n
}

// Load on three processes while Redis goes away and comes back, hangs and loses
// everything: whoever was told that a row is there finds it, wherever they ask.
func TestNothingIsStaleWhileRedisComesAndGoes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis, "--save", "")
	all := sharing(t, 3, redis)
	var told atomic.Int64
	var hits, answers, stale atomic.Int64
	ended := make(chan struct{})
	var load sync.WaitGroup
	var writing sync.Mutex
	for at, writer := range all {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				default:
				}
				writing.Lock() // so that what is told can be counted
				a, err := writer.try(http.MethodPost, "/v1/ingest?table=pages&wait=inserted&timeout=55s",
					strings.NewReader(fmt.Sprintf(`{"event_id":"%d-%d","page":"/"}`, at, i)), "Content-Type", "application/json")
				if assert.NoError(t, err) && assert.Equal(t, http.StatusOK, a.status, a.body) {
					told.Add(1)
				}
				writing.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
		for range 2 {
			load.Go(func() {
				for {
					select {
					case <-ended:
						return
					default:
					}
					least := told.Load()
					a, err := writer.try(http.MethodPost, "/v1/query?table=pages", strings.NewReader(countPages))
					if !assert.NoError(t, err) || !assert.Equal(t, http.StatusOK, a.status, a.body) {
						return
					}
					answers.Add(1)
					var n int64
					_, _ = fmt.Sscanf(a.body[strings.Index(a.body, `"n":`):], `"n":%d`, &n)
					outcome := a.header.Get("X-Cache")
					if outcome == "HIT" {
						hits.Add(1)
					}
					if n < least && outcome == "HIT" {
						stale.Add(1)
						t.Errorf("process %d answered %d, told %d", at, n, least)
					}
				}
			})
		}
	}
	again := func(what string) {
		t.Helper()
		before := hits.Load()
		require.Eventually(t, func() bool { return hits.Load() > before+20 }, time.Minute, 10*time.Millisecond, what)
	}
	again("at first")
	redis.Kill()
	time.Sleep(time.Second)
	redis.Start(t)
	again("after it was away")
	redis.Freeze()
	time.Sleep(3 * time.Second)
	redis.Thaw()
	again("after it hung")
	redis.Do(t, "FLUSHALL")
	again("after it lost everything")
	close(ended)
	load.Wait()
	t.Logf("%d answers, %d hits, %d rows told of", answers.Load(), hits.Load(), told.Load())
	assert.Zero(t, stale.Load())
}

// A server whose Redis is not there starts, answers, and says what is wrong.
func TestBootWithoutRedisAndWithTheWrongOne(t *testing.T) {
	t.Parallel()
	ch := clickhousetest.Start(t)
	ch.Exec(t, pagesTable)
	replica := redistest.Start(t, redistest.Redis, "--save", "", "--replicaof", "127.0.0.1 1", "--replica-serve-stale-data", "yes")
	full := redistest.Start(t, redistest.Redis, "--save", "", "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	locked := redistest.Start(t, redistest.Redis, "--save", "", "--requirepass", "of-the-test")
	six := redistest.StartSix(t, redistest.Redis)
	elsewhere := six.Nodes[0] // than the key by which processes know each other
	if six.Owner(t, "wh:fleet") == elsewhere {
		elsewhere = six.Nodes[1]
	}
	alone := redistest.Start(t, redistest.Redis, "--save", "")
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"nobody listens":       {[]string{"WH_CACHE_REDIS_ADDRS=127.0.0.1:1"}, "cache: the server cannot be reached"},
		"a replica":            {[]string{"WH_CACHE_REDIS_ADDRS=" + replica.Addr()}, "cache: the server is a replica"},
		"a full server":        {[]string{"WH_CACHE_REDIS_ADDRS=" + full.Addr()}, "cache: the server is full"},
		"a password is needed": {[]string{"WH_CACHE_REDIS_ADDRS=" + locked.Addr()}, "cache: the server asks for a password"},
		"the wrong password":   {[]string{"WH_CACHE_REDIS_ADDRS=" + locked.Addr(), "WH_CACHE_REDIS_PASSWORD=wrong"}, "cache: the user or the password is wrong"},
		"a node of a cluster":  {[]string{"WH_CACHE_REDIS_ADDRS=" + elsewhere.Addr()}, "set cache.redis.mode to cluster"},
		"not a cluster":        {[]string{"WH_CACHE_REDIS_MODE=cluster", "WH_CACHE_REDIS_ADDRS=" + alone.Addr()}, "cache: the server is not part of a cluster"},
		"no sentinel":          {[]string{"WH_CACHE_REDIS_MODE=sentinel", "WH_CACHE_REDIS_MASTER=m", "WH_CACHE_REDIS_ADDRS=" + alone.Addr()}, "no sentinel names a primary"},
		"no such database":     {[]string{"WH_CACHE_REDIS_DB=99", "WH_CACHE_REDIS_ADDRS=" + alone.Addr()}, "cache: the server has no such database"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, options{clickhouse: ch, env: append([]string{"WH_CACHE_BACKEND=redis"}, c.env...)})
			a := s.query("pages", countPages)
			require.Equal(t, http.StatusOK, a.status, a.body)
			s.eventually(func() string {
				ready := s.do(http.MethodGet, "/readyz", "")
				return unless(ready.status == http.StatusOK && strings.Contains(ready.body, c.want), fmt.Sprintf("%d %s", ready.status, ready.body))
			})
			s.eventually(func() string {
				return unless(strings.Contains(s.logs.tail(1<<20), strings.TrimPrefix(c.want, "cache: ")), "in the log")
			})
			assert.NotContains(t, s.logs.tail(1<<20), "of-the-test")
			require.Equal(t, http.StatusOK, s.ingestAnd("pages", `{"event_id":"1","page":"/"}`).status)
		})
	}
}
