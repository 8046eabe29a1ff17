package insert_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

const remembers = ` SETTINGS non_replicated_deduplication_window = 1000`

// killedWhileStoring makes of a stored INSERT one at whose moment ClickHouse was
// killed: its token is in the table's log, and the parts that the condition names
// are not there.
func (c *real) killedWhileStoring(t *testing.T, table, parts string) {
	t.Helper()
	gone := c.Rows(t, "SELECT path FROM system.parts WHERE database = currentDatabase() AND table = '"+table+"' AND "+parts)
	c.Kill(t)
	for _, part := range gone {
		require.NoError(t, os.RemoveAll(part[0]))
	}
	c.Restart(t)
}

func TestRowsThatAKilledClickHouseOnlyRemembersAreWrittenAgain(t *testing.T) {
	t.Parallel()
	s := clickhousetest.StartPrivate(t)
	for name, c := range map[string]struct {
		engine string
		gone   string // which of its parts
	}{
		"all of an INSERT":                      {`) ENGINE = MergeTree ORDER BY event_id` + remembers, "1"},
		"one of its partitions":                 {`) ENGINE = MergeTree PARTITION BY cityHash64(event_id) % 3 ORDER BY event_id` + remembers, "partition = '1'"},
		"nothing of it":                         {`) ENGINE = MergeTree ORDER BY event_id` + remembers, "0"},
		"all, and rows that replace others":     {`) ENGINE = ReplacingMergeTree ORDER BY event_id` + remembers, "1"},
		"all, of a table without such a memory": {pagesEngine, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			way := newReal(t, s, "default")
			way.Exec(t, "DROP TABLE IF EXISTS pages SYNC", createPages+c.engine)
			way.Exec(t, "INSERT INTO pages (event_id) SELECT concat('before', toString(number)) FROM numbers(10)")
			last := way.Value(t, "SELECT max(max_block_number) FROM system.parts WHERE database = currentDatabase() AND table = 'pages'")
			way.proxy.Set(clickhousetest.ResetBeforeBody())
			way.proxy.Next(clickhousetest.LoseResponse())
			r := newRig(t).open()
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 500)))
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(500, 700)))
			r.start(way.use)
			waitFor(t, "the answer to be lost", func() bool { return strings.Contains(r.logs.String(), "cannot write") })
			way.killedWhileStoring(t, "pages", c.gone+" AND min_block_number > "+last)
			way.proxy.Set(clickhousetest.Pass())
			r.settled(birch)

			assertSameRows(t, append(numbers(0, 700), beforehand()...), way.ids(t, "pages"))
			assert.Empty(t, r.letters(birch, "pages"))
		})
	}
}

func beforehand() (ids []string) {
	for i := range 10 {
		ids = append(ids, fmt.Sprint("before", i))
	}
	return ids
}

// A process that comes after the one whose answer was lost looks, too.
func TestRowsThatAKilledClickHouseOnlyRemembersAreWrittenByTheNextProcess(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.StartPrivate(t), "default")
	c.Exec(t, createPages+pagesEngine+remembers)
	c.proxy.Set(clickhousetest.ResetBeforeBody())
	c.proxy.Next(clickhousetest.LoseResponse())
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 50)))
	r.start(c.use, func(o *insert.WorkerOptions) { o.DrainTimeout = drain })
	waitFor(t, "the answer to be lost", func() bool { return strings.Contains(r.logs.String(), "cannot write") })
	r.close()
	c.killedWhileStoring(t, "pages", "1")
	c.proxy.Set(clickhousetest.Pass())
	r.open().start(c.use)
	r.settled(birch)
	assertSameRows(t, numbers(0, 50), c.ids(t, "pages"))
}

const createTypes = `CREATE TABLE types (id UInt64, ` + "`odd \"name\"`" + ` Nullable(Float64), m Map(String, Array(UInt8)),
	lc LowCardinality(Nullable(String)), small LowCardinality(UInt8), tup Tuple(a Int8, b String), at DateTime64(3, 'UTC'),
	e Enum8('x' = 1, 'ü' = 2), ip IPv6, u UUID, money Decimal(38, 5), big Int256, p Point, fixed FixedString(3),
	never String EPHEMERAL 'no', stamp DateTime DEFAULT now()`

// Values of every type are found again where they are, in the parts that are there,
// and written once where they are not.
func TestRowsOfEveryTypeAreFoundAgain(t *testing.T) {
	t.Parallel()
	s := clickhousetest.StartPrivate(t)
	for name, more := range map[string]string{"in a binary form": "", "as text": ", j JSON, v Variant(String, UInt64), d Dynamic"} {
		t.Run(name, func(t *testing.T) {
			c := newReal(t, s, "default")
			c.Exec(t, "DROP TABLE IF EXISTS types SYNC", createTypes+more+") ENGINE = MergeTree PARTITION BY id % 2 ORDER BY id"+remembers+", allow_suspicious_low_cardinality_types = 1")
			catalogue, err := schema.Discover(t.Context(), c.pools, birch)
			require.NoError(t, err)
			table, known := catalogue.Table("types")
			require.True(t, known)
			var body strings.Builder
			for id := range 200 {
				fmt.Fprintf(&body, `{"id":%d,"odd \"name\"":%s,"m":{"k":[%d]},"lc":%s,"small":7,"tup":{"a":-1,"b":"\u0000\n"},"at":"2026-01-02 03:04:05.678",`+
					`"e":"ü","ip":"::1","u":"61f0c404-5cb3-11e7-907b-a6006ad3dba0","money":"1.50000","big":"-5","p":[1,2.5],"fixed":"ab","never":"x"`,
					id, []string{`"nan"`, "-0.0", "null", "1.5"}[id%4], id%200, []string{"null", `"l"`}[id%2])
				if more != "" {
					fmt.Fprintf(&body, `,"j":{"b":{"c":%d},"a":[1,"q",{"z":null}]},"v":%s,"d":%s`, id, []string{`"t"`, `"ü"`, "null"}[id%3], []string{`{"q":1}`, "[1]", `"t"`}[id%3])
				}
				body.WriteString("}\n")
			}
			c.proxy.Set(clickhousetest.ResetBeforeBody())
			c.proxy.Next(clickhousetest.LoseResponse())
			r := newRig(t).open()
			r.send(ingesttest.Request(table, record.NDJSON, body.String()))
			r.start(c.use)
			waitFor(t, "the answer to be lost", func() bool { return strings.Contains(r.logs.String(), "cannot write") })
			c.killedWhileStoring(t, "types", "partition = '1'")
			c.proxy.Set(clickhousetest.Pass())
			r.settled(birch)
			assertSameRows(t, numbers(0, 200), c.first(t, "SELECT id FROM types"))
		})
	}
}

// ClickHouse is killed again and again while many tables are written to.
func TestRowsOutliveKillsOfClickHouse(t *testing.T) {
	t.Parallel()
	const tables, kills = 8, 4
	c := newReal(t, clickhousetest.StartPrivate(t), "default")
	for n := range tables {
		c.Exec(t, strings.Replace(createPages, "pages", fmt.Sprint("pages", n), 1)+pagesEngine+remembers)
	}
	r := newRig(t).start(c.use, func(o *insert.WorkerOptions) {
		o.Settings = served(insert.Flush{MaxRows: 50, MaxWait: time.Millisecond}, true)
	})
	next, ended := [tables]int{}, make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	defer func() { stop(); <-ended }()
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n = (n + 1) % tables {
			table := ingesttest.Pages()
			table.Name = fmt.Sprint("pages", n)
			_, err := r.gate.Ingest(t.Context(), ingesttest.Request(table, record.NDJSON, ingesttest.Lines(next[n], next[n]+20)))
			assert.NoError(t, err)
			next[n] += 20
		}
	}()
	for range kills {
		from := c.Count(t, "pages0")
		waitFor(t, "rows to be written", func() bool { return c.Count(t, "pages0") > from+500 })
		c.Kill(t)
		c.Restart(t)
	}
	stop()
	<-ended
	r.settled(birch)
	for n := range tables {
		assertSameRows(t, numbers(0, next[n]), c.ids(t, fmt.Sprint("pages", n)))
	}
	if strings.Contains(r.logs.String(), "took the repeat for stored") {
		t.Log("ClickHouse remembered an INSERT that it had not stored")
	}
}

// A user that may write and not read has rows written again, on the real ClickHouse.
func TestRowsThatTheirWriterMayNotReadAreWrittenAgain(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.StartPrivate(t), clickhousetest.WriterUser)
	c.Exec(t, createPages+pagesEngine+remembers)
	c.proxy.Set(clickhousetest.ResetBeforeBody())
	c.proxy.Next(clickhousetest.LoseResponse())
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 50)))
	r.start(c.use)
	waitFor(t, "the answer to be lost", func() bool { return strings.Contains(r.logs.String(), "cannot write") })
	c.killedWhileStoring(t, "pages", "1")
	c.proxy.Set(clickhousetest.Pass())
	r.settled(birch)
	assertSameRows(t, numbers(0, 50), c.ids(t, "pages"))
	assert.Contains(t, r.logs.String(), "cannot be looked for")
	assert.Contains(t, r.logs.String(), "Not enough privileges")
}

// Where nobody may look, rows are written again rather than lost.
func TestRowsThatCannotBeLookedForAreWrittenAgain(t *testing.T) {
	for name, c := range map[string]struct {
		memory, absent error
		again          bool
	}{
		"its memory is refused":   {memory: exception(clickhouse.ClassDenied, 497, "Not enough privileges"), again: true},
		"its rows are refused":    {absent: exception(clickhouse.ClassDenied, 497, "Not enough privileges"), again: true},
		"its rows take too long":  {absent: exception(clickhouse.ClassUnavailable, 159, "Timeout exceeded"), again: true},
		"ClickHouse is away once": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := &doubtful{window: newWindow(), memory: c.memory, absent: c.absent, away: !c.again}
			db.lost = func(i statement) error {
				if i.n == 1 {
					return unreachable()
				}
				return nil
			}
			r := newRig(t).open()
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, pagesOf(0, 5)))
			r.start(func(o *insert.WorkerOptions) { o.Pool = pool(db) })
			r.settled(birch)
			tokens := map[string]bool{}
			for _, i := range db.seen() {
				tokens[i.settings["insert_deduplication_token"]] = true
			}
			assert.Equal(t, c.again, len(tokens) == 2, "tokens: %d", len(tokens))
		})
	}
}

// doubtful is a table that is asked in doubt.
type doubtful struct {
	*window
	memory, absent error
	away           bool // the first time
}

func (d *doubtful) Memory(context.Context, string, time.Duration) (clickhouse.Memory, error) {
	return clickhouse.Memory{Doubtful: true, Stored: map[string]bool{"event_id": true}}, d.memory
}

func (d *doubtful) Absent(context.Context, clickhouse.Sought) ([]int, error) {
	if d.away {
		d.away = false
		return nil, unreachable()
	}
	return nil, d.absent
}
