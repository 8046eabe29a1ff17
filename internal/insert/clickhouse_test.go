package insert_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const createPages = `CREATE TABLE pages (event_id String, page String, org String DEFAULT '', secret String DEFAULT '',
	n Int64 DEFAULT 0, ts DateTime64(3,'UTC') DEFAULT now64(3)`

const pagesEngine = `) ENGINE = MergeTree ORDER BY event_id`

// real is a worker's way to the real ClickHouse, through a proxy that breaks it.
type real struct {
	*clickhousetest.Server
	proxy *clickhousetest.FaultProxy
	pools *clickhouse.Pools
}

func newReal(t *testing.T, s *clickhousetest.Server, user string) *real {
	t.Helper()
	proxy := clickhousetest.NewFaultProxy(t, s.HTTPAddr())
	pools := clickhouse.NewPools(clickhouse.Options{})
	config := clickhouse.Config{
		Addr: s.Host, HTTPScheme: "http", HTTPPort: proxy.Port(), Database: s.Database, Username: user,
	}
	require.Empty(t, pools.Reconcile(map[tenant.ID]clickhouse.Config{birch: config}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		pools.Close(ctx)
	})
	return &real{Server: s, proxy: proxy, pools: pools}
}

func (c *real) pool(id tenant.ID) (insert.Inserter, error) {
	p, err := c.pools.Get(id)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (c *real) use(o *insert.WorkerOptions) { o.Pool, o.Table = c.pool, c.table }

// table is what a table is now.
func (c *real) table(ctx context.Context, topic mq.Topic) (*record.Table, error) {
	catalogue, err := schema.Discover(ctx, c.pools, topic.Tenant)
	if err != nil {
		return nil, err
	}
	table, known := catalogue.Table(topic.Table)
	if !known {
		return nil, insert.ErrNoTable
	}
	return table.Record, nil
}

// inserts counts the INSERTs that reached the proxy.
func (c *real) inserts() (n int, tokens []string) {
	for _, r := range c.proxy.Requests() {
		if token := r.Query.Get("insert_deduplication_token"); token != "" {
			n++
			tokens = append(tokens, token)
		}
	}
	return n, tokens
}

func (c *real) ids(t *testing.T, table string) []string {
	t.Helper()
	return c.first(t, "SELECT event_id FROM "+table)
}

// first is the first column of an answer.
func (c *real) first(t *testing.T, sql string) (values []string) {
	t.Helper()
	for _, row := range c.Rows(t, sql) {
		values = append(values, row[0])
	}
	return values
}

func numbers(from, to int) []string {
	var ids []string
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprint(i))
	}
	return ids
}

func TestRealRowsArriveAsSent(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+pagesEngine)
	r := newRig(t).start(c.use)
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 1200)+`{"event_id":"x","page":"/é","org":"o","n":-5,"ts":"2026-03-04T05:06:07.089Z"}`))
	r.settled(birch)
	assertSameRows(t, append(numbers(0, 1200), "x"), c.ids(t, "pages"))
	assert.Equal(t, [][]string{{"/é", "o", "-5", "2026-03-04 05:06:07.089"}}, c.Rows(t, "SELECT page, org, n, ts FROM pages WHERE event_id = 'x'"))
	assert.Equal(t, "0", c.Value(t, "SELECT count() FROM pages WHERE ts = 0"), "an omitted column gets its default")
}

func TestSlowInsertOnTheRealClickHouse(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+pagesEngine)
	c.proxy.Next(clickhousetest.Delay(time.Second))
	r := newRig(t)
	r.ackFor = 300 * time.Millisecond
	r.open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
	r.start(c.use)
	r.settled(birch)
	n, _ := c.inserts()
	assert.Equal(t, 1, n)
	assertSameRows(t, numbers(0, 10), c.ids(t, "pages"))
}

func TestOneBadRowInALargeBatch(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+`, CONSTRAINT small CHECK n < 1000`+pagesEngine)
	r := newRig(t).open()
	for i := range 500 {
		n := 1
		if i == 250 {
			n = 5000
		}
		r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, fmt.Sprintf(`{"event_id":"%d","page":"/","n":%d}`, i, n)))
	}
	r.start(c.use, func(o *insert.WorkerOptions) {
		o.Settings = served(insert.Flush{MaxRows: 500, MaxWait: time.Hour}, true)
	})
	r.settled(birch)
	want := append(numbers(0, 250), numbers(251, 500)...)
	assertSameRows(t, want, c.ids(t, "pages"))
	letters := r.letters(birch, "pages")
	require.Len(t, letters, 1)
	l := letters[0]
	assert.Equal(t, `{"event_id":"250","page":"/","n":5000}`, letterRow(t, l))
	assert.Equal(t, mq.Topic{Tenant: birch, Table: "pages"}, l.Topic)
	assert.Equal(t, "469", l.Code)
	assert.Contains(t, l.Error, "small")
	n, _ := c.inserts()
	assert.Less(t, n, 40)
}

func TestOneBadRowAmongFiftyThousand(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+`, CONSTRAINT small CHECK event_id != '31234'`+pagesEngine)
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 50_000)))
	r.start(c.use, func(o *insert.WorkerOptions) { o.Settings = served(insert.Flush{MaxWait: time.Second}, true) })
	r.settled(birch)
	assert.Equal(t, 49_999, c.Count(t, "pages"))
	assert.Equal(t, "49999", c.Value(t, "SELECT uniqExact(event_id) FROM pages"))
	assert.Len(t, r.letters(birch, "pages"), 1)
}

func TestClickHouseAwayForAWhile(t *testing.T) {
	t.Parallel()
	s := clickhousetest.StartPrivate(t)
	c := newReal(t, s, "default")
	c.Exec(t, createPages+pagesEngine)
	r := newRig(t).start(c.use, func(o *insert.WorkerOptions) {
		o.BackoffMin, o.BackoffMax = 100*time.Millisecond, 500*time.Millisecond
	})
	r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line("0")))
	r.settled(birch)
	s.Stop(t)
	away := time.Now()
	for i := 1; i < 1000; i++ {
		r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line(fmt.Sprint(i))))
	}
	waitFor(t, "a few failures", func() bool { return strings.Count(r.logs.String(), "cannot write") >= 4 })
	require.Equal(t, 1, r.worker.Status().PoolsWaiting)
	failures := strings.Count(r.logs.String(), "cannot write")
	// Waits are drawn below half a second, a quarter of one on average.
	assert.Less(t, failures, 20+int(time.Since(away)/(100*time.Millisecond)), "retries are spaced")
	s.Restart(t)
	r.settled(birch)
	assertSameRows(t, numbers(0, 1000), c.ids(t, "pages"))
	assert.Empty(t, r.letters(birch, "pages"))
}

func TestStatus200ThatIsNotASuccess(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+pagesEngine)
	c.proxy.Next(clickhousetest.Answer(http.StatusOK, http.Header{"X-Clickhouse-Exception-Code": {"209"}}, ""))
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
	r.start(c.use)
	r.settled(birch)
	assertSameRows(t, numbers(0, 10), c.ids(t, "pages"))
	n, tokens := c.inserts()
	assert.Equal(t, 2, n)
	assert.Equal(t, tokens[0], tokens[1])
}

// answerCode is a failure as ClickHouse answers it.
func answerCode(status, code int, message string) clickhousetest.Fault {
	return clickhousetest.Answer(status, http.Header{"X-Clickhouse-Exception-Code": {fmt.Sprint(code)}},
		fmt.Sprintf("Code: %d. DB::Exception: %s", code, message))
}

// Every failure that can heal keeps the rows and repeats the INSERT with the
// same token.
func TestRealFaultsThatHeal(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	for name, f := range map[string]clickhousetest.Fault{
		"reset before the body": clickhousetest.ResetBeforeBody(),
		"reset after the body":  clickhousetest.ResetAfterBody(),
		"500 without a code":    clickhousetest.Answer(500, nil, "oops"),
		"502 of a proxy":        clickhousetest.Answer(502, nil, "bad gateway"),
		"429 of a proxy":        clickhousetest.Answer(429, nil, "slow down"),
		"too many parts":        answerCode(500, 252, "Too many parts (3000)"),
		"read-only table":       answerCode(500, 242, "Table is in readonly mode"),
		"access denied":         answerCode(403, 497, "Not enough privileges"),
		"wrong password":        answerCode(403, 516, "Authentication failed"),
		"no space":              answerCode(500, 243, "Cannot reserve 1.00 MiB, not enough space"),
		"a Poco exception":      answerCode(500, 1000, "Poco::Exception"),
		"a logical error":       answerCode(500, 49, "Logical error"),
		"a body cut short":      answerCode(500, 33, "Cannot read all data"),
		"a restarting table":    answerCode(500, 733, "Table is being restarted"),
		"a code of tomorrow":    answerCode(500, 4242, "nobody knows"),
		"200 and nothing":       clickhousetest.Answer(200, nil, ""),
		"200 and fewer rows":    clickhousetest.Answer(200, http.Header{"X-Clickhouse-Summary": {`{"written_rows":"99"}`}}, ""),
		"200 and no row":        clickhousetest.Answer(200, http.Header{"X-Clickhouse-Summary": {`{"read_rows":"0","elapsed_ns":"1","written_rows":"0"}`}}, ""),
	} {
		t.Run(name, func(t *testing.T) {
			c := newReal(t, s, "default")
			c.Exec(t, "DROP TABLE IF EXISTS pages SYNC", createPages+pagesEngine)
			c.proxy.Next(f, f)
			r := newRig(t).open()
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 100)))
			r.start(c.use)
			r.settled(birch)
			assertSameRows(t, numbers(0, 100), c.ids(t, "pages"))
			assert.Empty(t, r.letters(birch, "pages"))
			_, tokens := c.inserts()
			for _, token := range tokens {
				assert.Equal(t, tokens[0], token)
			}
		})
	}
}

func TestRealHangEndsWithTheTimeout(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	// So that one that is stored later than the timeout is known when it is repeated.
	c.Exec(t, createPages+pagesEngine+" SETTINGS non_replicated_deduplication_window = 100")
	c.proxy.Next(clickhousetest.Hang())
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
	r.start(c.use, func(o *insert.WorkerOptions) { o.InsertTimeout = 500 * time.Millisecond })
	r.settled(birch)
	assertSameRows(t, numbers(0, 10), c.ids(t, "pages"))
}

func TestMemoryLimitOnTheRealClickHouse(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+pagesEngine)
	limit := answerCode(500, 241, "Memory limit (for query) exceeded")
	c.proxy.Next(limit, limit, limit)
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 450)))
	r.start(c.use)
	r.settled(birch)
	assertSameRows(t, numbers(0, 450), c.ids(t, "pages"))
	assert.Empty(t, r.letters(birch, "pages"))
}

// Too many partitions for one INSERT: fewer rows at a time pass.
func TestRealTooManyPartitions(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+`) ENGINE = MergeTree PARTITION BY event_id ORDER BY event_id SETTINGS max_parts_in_total = 100000`)
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 150)))
	r.start(c.use)
	r.settled(birch)
	assertSameRows(t, numbers(0, 150), c.ids(t, "pages"))
	assert.Empty(t, r.letters(birch, "pages"))
}

func TestTableDropped(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+pagesEngine, strings.Replace(createPages, "pages", "temp_t", 1)+pagesEngine)
	r := newRig(t).open()
	temp := ingesttest.Pages()
	temp.Name = "temp_t"
	r.send(ingesttest.Request(temp, record.NDJSON, ingesttest.Lines(0, 20)))
	c.Exec(t, "DROP TABLE temp_t SYNC")
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 20)))
	r.start(c.use)
	r.settled(birch)
	assertSameRows(t, numbers(0, 20), c.ids(t, "pages"))
	letters := r.letters(birch, "temp_t")
	require.Len(t, letters, 20)
	assert.Equal(t, "60", letters[0].Code)
}

func TestAnswerLostAfterTheInsertWasWritten(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+pagesEngine+" SETTINGS non_replicated_deduplication_window = 100")
	c.proxy.Next(clickhousetest.LoseResponse())
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 50)))
	r.start(c.use)
	waitFor(t, "the first insert", func() bool { n, _ := c.inserts(); return n >= 1 })
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(50, 60)))
	r.settled(birch)
	assertSameRows(t, numbers(0, 60), c.ids(t, "pages"))
	n, tokens := c.inserts()
	require.Equal(t, 3, n)
	assert.Equal(t, tokens[0], tokens[1])
	requests := c.proxy.Requests()
	assert.Equal(t, requests[0].Body, requests[1].Body, "the same rows in the same order")
}

func TestProfileThatTurnsOnAsynchronousInserts(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), clickhousetest.AsyncUser)
	c.Exec(t, createPages+`, CONSTRAINT small CHECK n < 1000`+pagesEngine)
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, `[{"event_id":"1","page":"/","n":1},{"event_id":"2","page":"/","n":1000},{"event_id":"3","page":"/","n":3}]`))
	r.start(c.use)
	r.settled(birch)
	assertSameRows(t, []string{"1", "3"}, c.ids(t, "pages"))
	assert.Len(t, r.letters(birch, "pages"), 1)
}

func TestColumnDroppedBeforeTheFlush(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+", ref String"+pagesEngine)
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.WithRef(), record.JSON, `[{"event_id":"1","page":"/","ref":"r"},{"event_id":"2","page":"/","ref":"s"}]`))
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(10, 20)))
	c.Exec(t, "ALTER TABLE pages DROP COLUMN ref")
	r.start(c.use)
	r.settled(birch)
	assertSameRows(t, numbers(10, 20), c.ids(t, "pages"))
	letters := r.letters(birch, "pages")
	require.Len(t, letters, 2)
	assert.Contains(t, letters[0].Error, "ref")
	assert.Equal(t, "16", letters[0].Code)
}

func TestColumnAddedBeforeTheFlush(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+pagesEngine)
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
	c.Exec(t, "ALTER TABLE pages ADD COLUMN ref String DEFAULT 'none'")
	r.start(c.use)
	r.settled(birch)
	assert.Equal(t, "10", c.Value(t, "SELECT count() FROM pages WHERE ref = 'none'"))
	assert.Empty(t, r.letters(birch, "pages"))
}

func TestRealTypeChangedBeforeTheFlush(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+pagesEngine)
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, `[{"event_id":"1","page":"/","n":41,"ts":"2026-03-04T05:06:07.089Z"},{"event_id":"2","page":"/a\"b\n","n":-9007199254740993,"ts":"1970-01-02T00:00:00Z"}]`))
	c.Exec(t, "ALTER TABLE pages MODIFY COLUMN n String, MODIFY COLUMN ts DateTime64(6,'UTC')")
	r.start(c.use)
	r.settled(birch)
	assert.Empty(t, r.letters(birch, "pages"))
	assert.Equal(t, [][]string{
		{"1", "/", "41", "2026-03-04 05:06:07.089000"}, {"2", "/a\"b\n", "-9007199254740993", "1970-01-02 00:00:00.000000"},
	}, c.Rows(t, "SELECT event_id, page, n, ts FROM pages ORDER BY event_id"))
}

// A value that today's type cannot hold is parked, not wrapped; the others are
// in.
func TestRealTypeNarrowedBeforeTheFlush(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	c.Exec(t, createPages+pagesEngine)
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, `[{"event_id":"1","page":"/","org":"12"},{"event_id":"2","page":"/","org":"twelve"}]`))
	c.Exec(t, "ALTER TABLE pages MODIFY COLUMN org UInt16 DEFAULT 0")
	r.start(c.use)
	r.settled(birch)
	assert.Equal(t, [][]string{{"1", "12"}}, c.Rows(t, "SELECT event_id, org FROM pages"))
	require.Len(t, r.letters(birch, "pages"), 1)
}

func TestRealMissingGrantIsTheTablesOwn(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), clickhousetest.NarrowUser)
	c.Exec(t, createPages+pagesEngine)
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
	r.start(c.use)
	waitFor(t, "the refusal", func() bool { return r.worker.Status().TablesWaiting == 1 })
	assert.Zero(t, r.worker.Status().PoolsWaiting)
	assert.EqualValues(t, 10, 10*r.pending(birch))
	assert.Empty(t, r.letters(birch, "pages"))
}

// A stuck table gives back what it holds beyond its part, so that its tenant's
// other tables go on.
func TestRealStuckTablesMakeRoom(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	c := newReal(t, s, "default")
	c.Exec(t, createPages+pagesEngine)
	for i := range 6 {
		c.Exec(t, strings.Replace(createPages, "pages", fmt.Sprint("stuck", i), 1)+pagesEngine)
	}
	// A way of their own to the same server, so that the fault meets nobody else.
	behind := newReal(t, s, "default")
	behind.proxy.Set(answerCode(500, 242, "Table is in readonly mode"))
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.MaxHeldPerTenant = 128 << 10
		o.BackoffMin, o.BackoffMax = 100*time.Millisecond, 500*time.Millisecond
		o.Pool = func(id tenant.ID) (insert.Inserter, error) {
			p, err := c.pool(id)
			if err != nil {
				return nil, err
			}
			stuck, err := behind.pool(id)
			return stuckTables{p, stuck}, err
		}
	})
	for i := range 30 {
		table := ingesttest.Pages()
		table.Name = fmt.Sprint("stuck", i%6)
		r.send(ingesttest.Request(table, record.NDJSON, ingesttest.Lines(1000*i, 1000*i+1000)))
	}
	for i := range 20 {
		r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(1000*i, 1000*i+1000)))
	}
	waitFor(t, "the healthy table", func() bool { return c.Count(t, "pages") == 20_000 })
	behind.proxy.Set(clickhousetest.Pass())
	r.settled(birch)
	total := 0
	for i := range 6 {
		total += c.Count(t, fmt.Sprint("stuck", i))
	}
	assert.Equal(t, 30_000, total)
	// What is acknowledged is let go of after that.
	waitFor(t, "nothing to be held", func() bool { return r.worker.Status().HeldBytes == 0 })
}

// stuckTables sends INSERTs into stuck tables another way.
type stuckTables struct {
	insert.Inserter
	stuck insert.Inserter
}

func (s stuckTables) Insert(ctx context.Context, r clickhouse.Request) error {
	if strings.Contains(r.SQL, "`stuck") {
		return s.stuck.Insert(ctx, r)
	}
	return s.Inserter.Insert(ctx, r)
}
