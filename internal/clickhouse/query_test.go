package clickhouse_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

func TestAQueryCarriesWhatItWasGiven(t *testing.T) {
	s := clickhousetest.Start(t)
	pool := poolOf(t, configOf(s))
	resp, err := pool.Query(t.Context(), clickhouse.Request{
		SQL:      "SELECT {n:UInt8} AS n, getSetting('max_block_size') AS size, currentDatabase() AS db, queryID() AS id FORMAT JSONEachRow",
		Params:   map[string]string{"n": "7"},
		Settings: map[string]string{"max_block_size": "77", "output_format_json_quote_64bit_integers": "0", "query_id": "my-query-id"},
		ReadOnly: true,
	})
	require.NoError(t, err)
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprintf(`{"n":7,"size":77,"db":%q,"id":"my-query-id"}`, s.Database), text.String())
	require.Contains(t, resp.ContentType, "application/x-ndjson")
	require.NoError(t, resp.Body.Close())
	require.NoError(t, resp.Body.Close(), "closing twice is harmless")
}

func TestTextSurvivesParametersNamesAndLiterals(t *testing.T) {
	s := clickhousetest.Start(t)
	pool := poolOf(t, configOf(s))
	texts := []string{"", "plain", "a'b", "a`b", `a\b`, `\`, `\'`, "a\"b", "tab\tnl\nret\r", "nul\x00in", "\b\f", "ünïcödé 🐎", "{x:String}", "%20?&", "-- c", "/* */"}
	for _, text := range texts {
		got, err := read(t, pool, clickhouse.Request{
			SQL: "SELECT hex({p:String}), hex(" + clickhouse.QuoteString(text) + ")", Params: map[string]string{"p": clickhouse.EscapeParam(text)},
		})
		require.NoError(t, err, "%q", text)
		hex := strings.ToUpper(fmt.Sprintf("%x", text))
		require.Equal(t, hex+"\t"+hex+"\n", got, "%q", text)
		if text == "" {
			continue
		}
		s.Exec(t, "CREATE OR REPLACE TABLE named ("+clickhouse.QuoteIdent(text)+" UInt8) ENGINE = Memory")
		got, err = read(t, pool, clickhouse.Request{SQL: "SELECT hex(name) FROM system.columns WHERE database = currentDatabase() AND table = 'named'"})
		require.NoError(t, err, "%q", text)
		require.Equal(t, hex+"\n", got, "%q", text)
	}
}

func TestAnExternalTableOfAnySizeTravelsAlong(t *testing.T) {
	s := clickhousetest.Start(t)
	pool := poolOf(t, configOf(s))
	var data []byte
	for i := range 200_000 {
		data = binary.LittleEndian.AppendUint64(data, uint64(i)*10)
	}
	got, err := read(t, pool, clickhouse.Request{
		SQL:      "SELECT count() FROM numbers(1000) WHERE number IN (SELECT v FROM wanted) AND number >= {least:UInt32}",
		Params:   map[string]string{"least": "500"},
		External: []clickhouse.ExternalTable{{Name: "wanted", Structure: "v UInt64", Format: "RowBinary", Data: data}},
		ReadOnly: true,
	})
	require.NoError(t, err)
	require.Equal(t, "50\n", got)
}

func TestAFailureInMidAnswerIsAnErrorAfterTheRows(t *testing.T) {
	s := clickhousetest.Start(t)
	pool := poolOf(t, configOf(s))
	for _, format := range []string{"JSONEachRow", "TSV", "RowBinary", "JSONCompactEachRow", "CSV"} {
		got, err := read(t, pool, clickhouse.Request{
			SQL: "SELECT number, throwIf(number = 300000, 'boom') AS z FROM numbers(1000000) FORMAT " + format,
			// So that rows are under way when it fails.
			Settings: map[string]string{"max_block_size": "1000", "max_threads": "1"}, ReadOnly: true,
		})
		e := asError(t, err)
		assert.Equal(t, 395, e.Code, format)
		assert.Equal(t, 200, e.Status, format)
		assert.Contains(t, e.Message, "boom", format)
		assert.NotContains(t, e.Message, "__exception__", format)
		assert.Equal(t, 400, clickhouse.ReadVerdict(err).Status)
		assert.NotContains(t, got, "__exception__", format)
		assert.NotContains(t, got, "DB::Exception", format)
		assert.Greater(t, len(got), 100_000, format)
		if format == "TSV" {
			assert.True(t, strings.HasSuffix(got, "\t0\n"), "ends with a whole row: %q", got[len(got)-20:])
		}
	}
	got, err := read(t, pool, clickhouse.Request{SQL: "SELECT '\\r\\n__exception__\\r\\n' FORMAT RawBLOB"})
	require.NoError(t, err)
	require.Equal(t, "\r\n__exception__\r\n", got, "rows may say so themselves")
}

func TestAnAnswerOverTheCapIsRefused(t *testing.T) {
	s := clickhousetest.Start(t)
	pool := poolOf(t, configOf(s))
	q := clickhouse.Request{SQL: "SELECT repeat('x', 100000) FORMAT RawBLOB", MaxResponseBytes: 100_000}
	got, err := read(t, pool, q)
	require.NoError(t, err, "exactly the cap passes")
	require.Len(t, got, 100_000)
	q.MaxResponseBytes--
	got, err = read(t, pool, q)
	require.Equal(t, clickhouse.ClassTooLarge, clickhouse.Classify(err))
	require.Equal(t, "clickhouse.response_too_large", clickhouse.ReadVerdict(err).Code)
	require.LessOrEqual(t, len(got), 100_000)
}

func TestRequestsInFlightStayWithinThePool(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, proxy := behind(t, s, func(c *clickhouse.Config) { c.MaxOpenConns = 3 })
	proxy.Set(clickhousetest.Delay(5 * time.Millisecond))
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			_, err := read(t, pool, clickhouse.Request{SQL: "SELECT 1", ReadOnly: true})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	_, peak := proxy.Held()
	require.LessOrEqual(t, peak, 3)
	require.GreaterOrEqual(t, proxy.Count(), 40)
}

func TestWaitingForAConnectionEndsWithItsContext(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, proxy := behind(t, s, func(c *clickhouse.Config) { c.MaxOpenConns = 1 })
	held, err := pool.Query(t.Context(), clickhouse.Request{SQL: "SELECT 1"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = pool.Query(ctx, clickhouse.Request{SQL: "SELECT 2"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, clickhouse.ClassUnavailable, clickhouse.Classify(err))
	require.Equal(t, 1, proxy.Count(), "it never went out")
	require.NoError(t, held.Body.Close())
	_, err = read(t, pool, clickhouse.Request{SQL: "SELECT 3"})
	require.NoError(t, err, "the connection came back")
}

func TestAReaderThatGoesAwayCancelsItsQuery(t *testing.T) {
	s := clickhousetest.Start(t)
	pool := poolOf(t, configOf(s))
	ctx, cancel := context.WithCancel(t.Context())
	id := "cancel-me-" + s.Database
	failed := make(chan error, 1)
	go func() {
		_, err := pool.Query(ctx, clickhouse.Request{SQL: "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1", Settings: map[string]string{"query_id": id}, ReadOnly: true})
		failed <- err
	}()
	running := func() bool {
		return s.Value(t, "SELECT count() FROM system.processes WHERE query_id = '"+id+"'") == "1"
	}
	require.Eventually(t, running, time.Minute, 10*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.Eventually(t, func() bool { return !running() }, time.Minute, 10*time.Millisecond)
}

func TestAKeptConnectionThatWasClosedIsRepeatedForReads(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, proxy := behind(t, s)
	for range 20 {
		_, err := read(t, pool, clickhouse.Request{SQL: "SELECT 1", ReadOnly: true})
		require.NoError(t, err)
		proxy.Cut()
	}
}

// Reads that take all of their connections keep no INSERT waiting, nor do
// INSERTs a read; each has as many as the pool is for.
func TestReadsHoldUpNoInsert(t *testing.T) {
	s := clickhousetest.Start(t)
	s.Exec(t, "CREATE TABLE t (x UInt8) ENGINE = Null")
	pool, proxy := behind(t, s, func(c *clickhouse.Config) { c.MaxOpenConns = 2 })
	var held []*clickhouse.Response
	for range 2 {
		r, err := pool.Query(t.Context(), clickhouse.Request{SQL: "SELECT 1"})
		require.NoError(t, err)
		held = append(held, r)
	}
	insert := func(ctx context.Context) error {
		return pool.Insert(ctx, clickhouse.Request{SQL: "INSERT INTO t FORMAT CSV", Body: strings.NewReader("1\n"), Rows: 1})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, insert(ctx))
	for _, r := range held {
		require.NoError(t, r.Body.Close())
	}
	proxy.Set(clickhousetest.Delay(5 * time.Millisecond))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { assert.NoError(t, insert(ctx)) })
	}
	wg.Wait()
	_, peak := proxy.Held()
	require.LessOrEqual(t, peak, 2)
}
